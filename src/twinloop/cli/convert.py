"""`twinloop convert`: a log in another form, or another cut of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from twinloop.cli.output import (
    Json,
    out,
    print_cleanings,
    print_json,
    refuse_existing,
    speaking,
    working,
)
from twinloop.cli.reading import (
    Columns,
    FormatName,
    InputPath,
    ReferenceMhz,
    Strict,
    Units,
    read_trace,
)
from twinloop.report import words
from twinloop.trace import Trace, edit, write
from twinloop.trace import repair as repair_trace

OutputPath = Annotated[
    Path,
    typer.Argument(
        help="Where to write. Its name says the format: .swf, .swf.gz, .cts or .opendc (folders), "
        ".trace (folder); or say it with --to.",
        show_default=False,
    ),
]
TargetFormat = Annotated[
    str | None, typer.Option("--to", help="The format to write; by OUTPUT's name if not given.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that is there.")]


def convert(
    source: InputPath,
    output: OutputPath,
    format: FormatName = None,
    to: TargetFormat = None,
    strict: Strict = False,
    column: Columns = None,
    unit: Units = None,
    reference_mhz: ReferenceMhz = None,
    merge: Annotated[
        list[Path] | None, typer.Option(help="Another log to merge in; can be given again.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Fix what has a defined fix, and count it.")
    ] = False,
    start: Annotated[
        float | None, typer.Option(help="Keep tasks submitted from here on, in s since t = 0.")
    ] = None,
    end: Annotated[float | None, typer.Option(help="Keep tasks submitted before, in s.")] = None,
    user: Annotated[list[str] | None, typer.Option(help="Keep this user; can be repeated.")] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Keep this queue; can be repeated.")
    ] = None,
    warm_up: Annotated[float | None, typer.Option(help="Cut this off at the begin, s.")] = None,
    cool_down: Annotated[float | None, typer.Option(help="Cut this off at the end, s.")] = None,
    scale_load: Annotated[
        float | None, typer.Option(help="Multiply the load, e.g. 1.2 for 20 % more.")
    ] = None,
    by: Annotated[
        Literal["arrivals", "run-time"], typer.Option(help="What --scale-load changes.")
    ] = "arrivals",
    missing: Annotated[
        Literal["synthetic", "drop", "leave"] | None,
        typer.Option(
            help="For OpenDC: tasks without usage get one made-up fragment (synthetic), are left "
            "out (drop) or stay without (leave). All are counted.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Bring a log into another form, or cut, subset, scale, repair and merge it.

    The steps happen in this order: merge, repair, window (--start, --end), subset (--user,
    --queue), trim (--warm-up, --cool-down), scale. Each is recorded in the manifest of the result.
    What the target cannot hold is counted and said; the input is never changed.

    Keys of --json: `input`, `output`, `format`, `tasks`, `edits`, `cleaned` (while reading and
    editing), `not_held` (what the format written could not hold, or had made up for it).

    Examples: `twinloop convert log.swf.gz log.trace`,
    `twinloop convert log.swf march.swf --start 5184000 --end 7776000`,
    `twinloop convert runs/first.cts first.opendc`.
    """
    with speaking(json):
        refuse_existing(output, overwrite)
        trace = read_trace(source, format, strict, column, unit, reference_mhz)
        if merge:
            others = [read_trace(path, format, strict, column, unit) for path in merge]
            trace = edit.merge([trace, *others])
        if repair:
            trace = repair_trace(trace)
        trace = _cut(trace, start, end, user, queue, warm_up, cool_down)
        if scale_load is not None:
            trace = edit.scale_load(trace, scale_load, by=by)
        options: dict[str, Any] = {} if missing is None else {"missing": missing}
        with working(f"writing {output}"):
            not_held = write(trace, output, to, overwrite=overwrite, **options)
        if json:
            print_json(
                {
                    "input": str(source),
                    "output": str(output),
                    "format": to,
                    "tasks": trace.tasks.height,
                    "edits": [step.model_dump() for step in trace.manifest.edits],
                    "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
                    "not_held": [note.model_dump() for note in not_held],
                }
            )
        else:
            out.print(f"wrote {output}: {words.count(trace.tasks.height, 'task')}")
            print_cleanings([*trace.manifest.cleaned, *not_held])


def _cut(
    trace: Trace,
    start: float | None,
    end: float | None,
    users: list[str] | None,
    queues: list[str] | None,
    warm_up: float | None,
    cool_down: float | None,
) -> Trace:
    if start is not None or end is not None:
        trace = edit.window(trace, start, end)
    if users or queues:
        trace = edit.select(trace, users=users, queues=queues)
    if warm_up or cool_down:
        trace = edit.trim(trace, warm_up=warm_up or 0.0, cool_down=cool_down or 0.0)
    return trace
