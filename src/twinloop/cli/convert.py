"""`twinloop convert`: conversion of formats, and operations on logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twinloop import report
from twinloop.cli.console import escape, out
from twinloop.cli.log_options import (
    Columns,
    DagFile,
    FormatName,
    InputPath,
    ReferenceMhz,
    SstatFile,
    Strict,
    Units,
    UtcOffset,
    read_trace,
)
from twinloop.cli.output import (
    Json,
    Overwrite,
    print_cleanings,
    print_json,
    refuse_existing,
    report_errors,
    show_status,
)
from twinloop.cli.recording_options import parse_duration
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.trace import Trace

OutputPath = Annotated[
    Path,
    typer.Argument(
        help="Output; by suffix .swf, .swf.gz, .cts, .opendc, .trace, or none (trace).",
        show_default=False,
    ),
]
TargetFormat = Annotated[
    str | None,
    typer.Option("--to", help="Output format, by default by the suffix.", metavar="NAME"),
]


def convert(
    source: InputPath,
    output: OutputPath,
    format: FormatName = None,
    to: TargetFormat = None,
    strict: Strict = False,
    column: Columns = None,
    unit: Units = None,
    reference_mhz: ReferenceMhz = None,
    sstat: SstatFile = None,
    utc_offset: UtcOffset = None,
    dag: DagFile = None,
    merge: Annotated[
        list[Path] | None, typer.Option(help="Another log to merge; repeatable.", metavar="LOG")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Apply the repairs of the quality rules.")
    ] = False,
    start: Annotated[str | None, typer.Option(help="Keep tasks submitted from here: 1d.")] = None,
    end: Annotated[str | None, typer.Option(help="Keep tasks submitted before: 30d.")] = None,
    user: Annotated[
        list[str] | None, typer.Option(help="Keep this user; repeatable.", metavar="NAME")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Keep this queue; repeatable.", metavar="NAME")
    ] = None,
    warm_up: Annotated[str | None, typer.Option(help="Remove the beginning: 1h or 5%.")] = None,
    cool_down: Annotated[str | None, typer.Option(help="Remove the end: 1h or 5%.")] = None,
    scale_load: Annotated[
        float | None, typer.Option(help="Factor on the load: 1.2 adds 20 %.")
    ] = None,
    by: Annotated[
        Literal["arrivals", "run-time"],
        typer.Option(help="Scale arrivals or run-time.", metavar="WHAT"),
    ] = "arrivals",
    missing: Annotated[
        Literal["synthetic", "drop", "leave"] | None,
        typer.Option(
            help="OpenDC tasks without usage: synthetic, drop, leave.",
            metavar="HOW",
        ),
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Convert, cut, filter, scale, repair or merge logs.

    The operations are applied in this order: merge, repair, time window, users and queues,
    warm-up and cool-down, load. The manifest of the result lists them. Values that the output
    format cannot represent are counted and printed; the input is never changed.

    - `twinloop convert log.swf.gz log.trace`
    - `twinloop convert log.swf march.swf --start 60d --end 90d`
    - `twinloop convert runs/first.cts first.opendc`
    """
    # Imported here, because --help should not wait for it.
    from twinloop.trace import edit, write
    from twinloop.trace import repair as repair_trace
    from twinloop.trace.formats.registry import format_from_path

    with report_errors(json):
        refuse_existing(output, overwrite, source, sstat, dag, *(merge or ()))
        trace = read_trace(
            source, format, strict, column, unit, reference_mhz, sstat, utc_offset, dag
        )
        if merge:
            others = [
                read_trace(path, None, strict, column, unit, reference_mhz, is_additional=True)
                for path in merge
            ]
            trace = edit.merge([trace, *others])
        if repair:
            trace = repair_trace(trace)
        trace = _cut(trace, start, end, user, queue, warm_up, cool_down)
        if scale_load is not None:
            trace = edit.scale_load(trace, scale_load, by=by)
        options: dict[str, Any] = {} if missing is None else {"missing": missing}
        with show_status(f"writing {output}"):
            not_held = write(trace, output, to, overwrite=overwrite, **options)
        if json:
            print_json(
                {
                    "input": str(source),
                    "output": str(output),
                    "format": to or format_from_path(output).name,
                    "tasks": trace.tasks.height,
                    "edits": [step.model_dump() for step in trace.manifest.edits],
                    "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
                    "not_held": [note.model_dump() for note in not_held],
                }
            )
        else:
            tasks = report.format_count(trace.tasks.height, "task")
            out.print(escape(f"wrote {output}: {tasks}"), soft_wrap=True)
            print_cleanings([*trace.manifest.cleaned, *not_held])


def _cut(
    trace: Trace,
    start: str | None,
    end: str | None,
    users: list[str] | None,
    queues: list[str] | None,
    warm_up: str | None,
    cool_down: str | None,
) -> Trace:
    from twinloop.description.address import suggest_name
    from twinloop.trace import edit

    if start is not None or end is not None:
        trace = edit.window(trace, _parse_time(start, "--start"), _parse_time(end, "--end"))
    for option, column, names in (("--user", "user", users), ("--queue", "queue", queues)):
        existing = trace.tasks[column].drop_nulls().unique(maintain_order=True).to_list()
        for name in names or ():
            if name not in existing:
                raise InputError(
                    f"{option} {name}: no task has this {column}",
                    kind="unknown-reference",
                    remedy=suggest_name(name, existing),
                )
    if users or queues:
        trace = edit.select(trace, users=users, queues=queues)
    if warm_up or cool_down:
        trace = edit.trim(
            trace,
            warm_up=_parse_trim(warm_up, "--warm-up"),
            cool_down=_parse_trim(cool_down, "--cool-down"),
        )
    return trace


def _parse_time(text: str | None, option: str) -> float | None:
    return None if text is None else parse_duration(text, option)


def _parse_trim(text: str | None, option: str) -> float | str:
    """Parse a duration, in seconds; a share such as 5% is parsed by the operation itself."""
    if text is not None and text.endswith("%"):
        return text
    return _parse_time(text, option) or 0.0
