"""Error about tasks whose run time nothing predicts."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace

_COLUMN = "requested_time"


def describe_missing_prediction(
    trace: Trace, is_missing: pl.Series, file: str | None
) -> InputError:
    """Describe the first task without a requested time, or that no task has one.

    Args:
        trace: The recorded run.
        is_missing: Which tasks have no requested time, and no injected time either.
        file: The file or folder of the run.
    """
    tasks, line = trace.tasks, None
    if tasks[_COLUMN].count():
        row = int(is_missing.arg_true()[0])
        problem = f"task {tasks['id'][row]!r} has no requested time"
        remedy = f"write its {_COLUMN}"
        # The tasks of a trace folder have the lines of another file.
        if file is not None and not Path(file).is_dir():
            line = tasks["line"][row]
    else:
        problem, remedy = "no task has a requested time", _suggest_column(trace)
    if collect_runs(trace)["run_time"].count() or trace.task_times.height:
        remedy += ", or inject wall_times or run_times"
    return InputError(
        f"{problem}, which predicts its run time",
        kind="missing-field",
        file=file,
        line=line,
        field=_COLUMN if file is not None else "inject",
        remedy=remedy,
    )


def _suggest_column(trace: Trace) -> str:
    """Suggest the column of a table that may have the requested times."""
    source = trace.manifest.source
    notes = [note.what for note in trace.manifest.cleaned if note.kind == "ignored"]
    header = () if source is None or source.format != "csv" else source.header
    ignored = [name for name in header if any(f"'{name}'" in what for what in notes)]
    if close := get_close_matches(_COLUMN, ignored, n=1):
        return f"column '{close[0]}': did you mean '{_COLUMN}'?"
    others = f"; ignored columns: {', '.join(ignored)}" if ignored else ""
    return f"add the column {_COLUMN}{others}"
