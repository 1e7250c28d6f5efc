"""`twinloop assess`: assess a simulated run against a real one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli.console import err, escape, out
from twinloop.cli.log_options import Strict, read_trace
from twinloop.cli.output import Json, Overwrite, print_json, refuse_page, report_errors, show_status
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.fidelity import Verdict

_REPORT_SUFFIXES = (".md", ".html")


def _print_criteria(requested: bool) -> None:
    if requested:
        from twinloop.fidelity import Criteria

        typer.echo(Criteria().to_commented_yaml(), nl=False)
        raise typer.Exit


def assess(
    real: Annotated[
        Path,
        typer.Argument(
            help="The real run: a trace folder or a log.",
            show_default=False,
        ),
    ],
    twin: Annotated[Path, typer.Argument(help="The simulated run.", show_default=False)],
    criteria: Annotated[
        Path | None,
        typer.Option("--criteria", help="Thresholds in YAML."),
    ] = None,
    repeat: Annotated[
        list[Path] | None,
        typer.Option(
            "--repeat",
            help="A repetition of REAL, for the noise floor; repeatable.",
            metavar="RUN",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write a report: .md or .html."),
    ] = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    json: Json = False,
    print_criteria: Annotated[
        bool,
        typer.Option(
            "--print-criteria",
            callback=_print_criteria,
            is_eager=True,
            help="Print all criteria with defaults as YAML.",
        ),
    ] = False,
) -> None:
    """Assess a simulated run against a real one.

    Compares waits, completions over time, makespan, CPU usage per task and the trend of power;
    each criterion is PASS, FAIL or not assessable. The verdict states first whether the simulated
    run is a replay or a prediction. Exit status: 0 PASS, 1 FAIL, 3 not assessable.

    - `twinloop assess runs/real runs/twin`
    - `twinloop assess real twin --criteria criteria.yaml --repeat real2 -o report.html`
    """
    # Imported here, because --help should not wait for it.
    from twinloop.fidelity import Criteria
    from twinloop.fidelity import assess as assess_traces

    with report_errors(json):
        if output is not None:
            if output.suffix.lower() not in _REPORT_SUFFIXES:
                raise InputError(
                    "is not a supported report format",
                    kind="unsupported-page",
                    file=output,
                    remedy=" or ".join(_REPORT_SUFFIXES),
                )
            refuse_page(output, overwrite, real, twin, criteria, *(repeat or ()))
        resolved_criteria = Criteria.resolve(criteria)
        real_trace, twin_trace = (read_trace(path, None, strict) for path in (real, twin))
        repetitions = [read_trace(path, None, strict) for path in repeat or ()]
        with show_status("assessing"):
            verdict = assess_traces(
                real_trace, twin_trace, criteria=resolved_criteria, repeats=repetitions
            )
            if output is not None:
                _write_report(verdict, output)
        if json:
            paths = {"real": str(real), "twin": str(twin), "repeated": list(map(str, repeat or ()))}
            written = {"report": None if output is None else str(output)}
            print_json(paths | verdict.to_dict() | written)
        else:
            out.print(str(verdict), markup=False, soft_wrap=True)
            if output is not None:
                err.print(f"wrote {escape(output)}", soft_wrap=True)
    raise typer.Exit(verdict.exit_code)


def _write_report(verdict: Verdict, path: Path) -> None:
    if path.suffix.lower() == ".html":
        # Imported here, because figures are slow to import.
        from twinloop.report.pages.assessment import write_assessment_page

        write_assessment_page(verdict, path)
        return
    from twinloop.description.files import write_atomically

    with write_atomically(path) as stream:
        stream.write(verdict.markdown().encode())
