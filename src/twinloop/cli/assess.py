"""`twinloop assess`: how far a twin can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinloop.cli.log_options import Strict, read_trace
from twinloop.cli.output import (
    Json,
    Overwrite,
    err,
    escape,
    out,
    print_json,
    refuse_page,
    speaking,
    working,
)
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.fidelity import Verdict

_REPORTS = (".md", ".html")


def _print_criteria(wanted: bool) -> None:
    if wanted:
        from twinloop.fidelity import Criteria

        typer.echo(Criteria().commented(), nl=False)
        raise typer.Exit


def assess(
    real: Annotated[
        Path,
        typer.Argument(
            help="What really happened: a folder that a run wrote, or a log as `twinloop inspect` "
            "takes it.",
            show_default=False,
        ),
    ],
    twin: Annotated[
        Path, typer.Argument(help="What the simulator says of it.", show_default=False)
    ],
    criteria: Annotated[
        Path | None,
        typer.Option("--criteria", help="A YAML file of thresholds, declared beforehand."),
    ] = None,
    repeat: Annotated[
        list[Path] | None,
        typer.Option(
            "--repeat",
            help="Another real run of the same scenario, for the noise floor; several times.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write a report: .md, or .html with pictures."),
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
            help="Print the criteria with their defaults and meanings as YAML, and end.",
        ),
    ] = False,
) -> None:
    """Assess a twin against reality: PASS, FAIL or not assessable, criterion by criterion.

    Compared are the waits, the completions over time and the makespan, the CPU usage of the tasks
    and the trend of the power. First comes whether the twin is a replay or a prediction, and what
    was taken from the real run.

    Ends with 0 for PASS, 1 for FAIL, 3 where there is too little to assess.

    Keys of --json: `real`, `twin`, `repeated` (paths), `mode`, `injected`, `status`, `metrics` (the
    status of each), `findings` (a list: metric, name, figure, unit, threshold, bound, status,
    floor, unaligned, figures, method, note; a unit "share" is a part of 1), `errors` (figures,
    worst, users, sizes, matched, only_real, only_twin, same_machine, placed, power_mape,
    power_bias_w), `criteria` (file, sha256, other_than_default, values), `alignment`, `repeats`,
    `notes`, `report` (what was written).

    Examples: `twinloop assess runs/real runs/twin`,
    `twinloop assess real twin --criteria criteria.yaml --repeat real2 -o report.html`.
    """
    # It takes a moment to load, which other commands do not need.
    from twinloop.fidelity import Criteria
    from twinloop.fidelity import assess as assess_traces

    with speaking(json):
        if output is not None:
            if output.suffix.lower() not in _REPORTS:
                raise InputError(
                    "is no report that can be written", file=output, remedy=" or ".join(_REPORTS)
                )
            refuse_page(output, overwrite, real, twin, criteria, *(repeat or ()))
        demanded = Criteria.given(criteria)
        truth, simulated = (read_trace(path, None, strict) for path in (real, twin))
        others = [read_trace(path, None, strict) for path in repeat or ()]
        with working("assessing"):
            verdict = assess_traces(truth, simulated, criteria=demanded, repeats=others)
            if output is not None:
                _write(verdict, output)
        if json:
            paths = {"real": str(real), "twin": str(twin), "repeated": list(map(str, repeat or ()))}
            written = {"report": None if output is None else str(output)}
            print_json(paths | verdict.to_dict() | written)
        else:
            out.print(str(verdict), markup=False, soft_wrap=True)
            if output is not None:
                err.print(f"wrote {escape(output)}", soft_wrap=True)
    raise typer.Exit(verdict.exit_code)


def _write(verdict: Verdict, path: Path) -> None:
    if path.suffix.lower() == ".html":
        # Pictures take a moment to load.
        from twinloop.report.pages.assessment import write_assessment_page

        write_assessment_page(verdict, path)
        return
    from twinloop.description.files import writing

    with writing(path) as stream:
        stream.write(verdict.markdown().encode())
