"""Injection: what a simulation takes from a recorded run instead of predicting it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import polars as pl

from twinloop.description.address import suggest_name
from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.manifest import Manifest
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace, require_trace
from twinloop.workload.cleaning_notes import note
from twinloop.workload.missing_predictions import describe_missing_prediction
from twinloop.workload.prediction_errors import PredictionErrors, draw_errors
from twinloop.workload.workload import Workload

#: What can be injected, and what it is.
INJECTION_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "boot_times": "boot time of each instance, in the order of the requests",
        "wall_times": "time from the start of each task on its instance to its end",
        "run_times": "computation time of each task, without transfers and management",
        "provisioning_dates": "time of the request of each instance",
        "lags": "time from the boot of each instance to its first task",
        "management_times": "time that the client needs for each task, beside its run time",
        "data_sizes": "sizes of the files that each task reads and writes",
    }
)
_THREADS: Final = ("provisioning_dates", "lags", "management_times")
#: Named sets of keys: those of the draft of SCHIaaS.
PRESETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "best": ("wall_times", "boot_times", *_THREADS),
        "no-threads": ("wall_times", "boot_times"),
        "no-boot-times": ("wall_times", *_THREADS),
        "communications": ("boot_times", "run_times", "data_sizes", *_THREADS),
        "predictions": (),
    }
)
#: The column of `boots` of each key about instances.
BOOT_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {"boot_times": "boot_time", "provisioning_dates": "provisioned", "lags": "lag"}
)
#: The keys whose negative values are 0, with the note about them.
_REPAIRED_BOOTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "provisioning_dates": "provisioning dates before t = 0: instances are requested at t = 0",
        "lags": "negative lags: they are 0",
    }
)
#: Keys that exclude each other, with the reason.
_CONFLICTS: Final = (
    ("wall_times", "run_times", "a wall time includes the run time"),
    ("wall_times", "data_sizes", "a wall time includes the transfers"),
)


def resolve_injection(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the keys of a preset or a list, in the order of `INJECTION_KEYS`.

    >>> resolve_injection("no-threads")
    ('boot_times', 'wall_times')
    >>> resolve_injection(["lags", "boot_times"])
    ('boot_times', 'lags')
    """
    if isinstance(given, str):
        if given not in PRESETS:
            raise InputError(
                f"unknown set '{given}'",
                kind="not-a-choice",
                field="inject",
                remedy=suggest_name(given, list(PRESETS)) or "name a list of keys",
            )
        given = PRESETS[given]
    keys = tuple(given)
    for index, key in enumerate(keys):
        if key not in INJECTION_KEYS:
            raise InputError(
                f"unknown key '{key}'",
                kind="not-a-choice",
                field=f"inject[{index}]",
                remedy=suggest_name(key, list(INJECTION_KEYS)) or ", ".join(INJECTION_KEYS),
            )
    for first, second, why in _CONFLICTS:
        if first in keys and second in keys:
            raise InputError(
                f"has both '{first}' and '{second}': {why}",
                kind="conflicting-fields",
                field="inject",
                remedy="keep one of them",
            )
    return tuple(key for key in INJECTION_KEYS if key in keys)


def inject(
    trace: Trace,
    given: str | Iterable[str],
    *,
    errors: PredictionErrors | None = None,
    seed: int = 0,
    file: str | None = None,
) -> Workload:
    """Create the workload of a recorded run with only the given quantities taken from it.

    Without a key about times, tasks run as long as they requested. A task or instance without an
    injected value keeps its prediction, a task that was submitted or an instance that was requested
    before t = 0 is so at t = 0, and a negative lag is 0; `cleaned` counts these.

    Args:
        trace: The recorded run.
        given: Keys of `INJECTION_KEYS`, or the name of a set of `PRESETS`.
        errors: Random errors of the predicted run times; by default tasks run as predicted.
        seed: Seed of these errors.
        file: The file or folder of the run, for messages.

    >>> import polars as pl
    >>> run = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "requested_cores": [1.0],
    ...                         "requested_time": [60.0], "run_time": [52.0]}),
    ...     boots=pl.DataFrame({"provisioned": [10.0], "boot_time": [48.0], "lag": [1.0]}))
    >>> inject(run, "predictions").durations().tolist()
    [60.0]
    >>> replayed = inject(run, "no-threads")
    >>> replayed.durations().tolist(), replayed.injected
    ([52.0], ('boot_times', 'wall_times'))
    >>> replayed.boots.row(0)
    (None, 48.0, None)
    """
    keys = resolve_injection(given)
    require_trace(trace)
    runs = collect_runs(trace)
    own = trace.tasks.with_columns(run_time=runs["run_time"], requested_cores=runs["processors"])
    run_times = _make_run_times(own, trace.task_times, keys)
    if run_times.values.null_count():
        raise describe_missing_prediction(trace, run_times.values.is_null(), file)
    if errors is not None:
        run_times = _vary(run_times, keys, errors, seed)
    early = own["id"].filter(own["submit"] < 0)
    # A client that starts at t = 0 waits no time for a submission before.
    tasks = own.with_columns(pl.col("submit").clip(lower_bound=0.0), run_time=run_times.values)
    keeps_files = "data_sizes" in keys
    if keeps_files and trace.task_files.is_empty():
        raise _describe_missing("data_sizes", "its table task_files is empty")
    files = {name: getattr(trace, name) for name in ("files", "task_files") if keeps_files}
    # Samples and placements are of the recorded run, and are not injected.
    bare = Trace(
        manifest=Manifest(
            kind=trace.manifest.kind,
            epoch_ms=trace.manifest.epoch_ms,
            reference_mhz=trace.manifest.reference_mhz,
        ),
        tasks=tasks,
        **files,
    )
    workload = Workload.from_trace(bare)
    predicted = own["id"].filter(run_times.is_predicted)
    boots, repaired = _select_boots(trace, keys, file)
    cleaned = (
        *trace.manifest.cleaned,
        *workload.cleaned,
        note("repaired", "submissions before t = 0: tasks are submitted at t = 0", early),
        *repaired,
        note("assumed", "tasks without a recorded time: they run as long as requested", predicted),
    )
    return Workload(
        tasks=workload.tasks.with_columns(end_recorded=pl.lit(None, dtype=pl.Float64)),
        files=workload.files,
        task_files=workload.task_files,
        boots=boots,
        reference_mhz=workload.reference_mhz,
        epoch_ms=workload.epoch_ms,
        cleaned=tuple(each for each in cleaned if each.count),
        injected=keys,
        skipped=workload.skipped,
    )


class _RunTimes(NamedTuple):
    """The run times of tasks, and which of them are the requested times in place of recorded."""

    values: pl.Series
    is_predicted: pl.Series


def _make_run_times(tasks: pl.DataFrame, times: pl.DataFrame, keys: tuple[str, ...]) -> _RunTimes:
    """Make the run times of the tasks by the injected keys."""
    times = tasks.select(pl.col("id").alias("task"), pl.col("run_time").alias("recorded")).join(
        times, on="task", how="left", maintain_order="left"
    )
    none = pl.Series([None], dtype=pl.Float64).new_from_index(0, tasks.height)
    recorded = none
    for key, column in (("wall_times", "wall_time"), ("run_times", "run_time")):
        if key in keys:
            measured = times[column]
            recorded = measured if measured.null_count() < measured.len() else times["recorded"]
            if recorded.null_count() == recorded.len():
                raise _describe_missing(key, "no task has a recorded time")
    management = times["management_time"]
    if "management_times" in keys and management.null_count() == management.len():
        raise _describe_missing("management_times", "its table task_times has none")
    if "management_times" in keys and "run_times" in keys:
        recorded = recorded + management.fill_null(0.0)
    requested = tasks["requested_time"]
    values = recorded.zip_with(recorded.is_not_null(), requested)
    is_predicted = recorded.is_null()
    if not {"wall_times", "run_times"} & set(keys):
        is_predicted = pl.Series([False]).new_from_index(0, tasks.height)
    return _RunTimes(values, is_predicted)


def _vary(
    run_times: _RunTimes, keys: tuple[str, ...], errors: PredictionErrors, seed: int
) -> _RunTimes:
    """Multiply predicted run times by random errors."""
    for key in ("wall_times", "run_times"):
        if key in keys:
            raise InputError(
                f"has no effect with injected {key}",
                kind="no-effect",
                field="prediction_errors",
                remedy=f"remove it, or '{key}' from the injected keys",
            )
    factors = pl.Series(draw_errors(errors, run_times.values.len(), seed))
    return _RunTimes(run_times.values * factors, run_times.is_predicted)


def _select_boots(
    trace: Trace, keys: tuple[str, ...], file: str | None
) -> tuple[pl.DataFrame | None, list[Cleaning]]:
    """Select the injected columns of the boots; those of a run with instances follow from these.

    Dates before t = 0 and negative lags are 0: a run can have begun before its clock, and a lag is
    the difference of times of two clocks. A negative boot time has no such reading.
    """
    wanted = {key: column for key, column in BOOT_COLUMNS.items() if key in keys}
    if not wanted:
        return None, []
    boots = list_boots(trace)
    for key, column in wanted.items():
        values = boots[column]
        if values.null_count() == boots.height:
            raise _describe_missing(key, f"its table boots has no {column}")
        checked = "" if file is None else f"`twinloop check {file}` lists all such values; "
        check_numbers(
            boots,
            column,
            what="boot",
            may_be_negative=key in _REPAIRED_BOOTS,
            remedy=f"{checked}correct it, or remove '{key}' from the injected keys",
            file=file,
        )
    repaired = [
        note("repaired", what, count=int((boots[wanted[key]] < 0).sum()))
        for key, what in _REPAIRED_BOOTS.items()
        if key in wanted
    ]
    limits = [pl.col(wanted[key]).clip(lower_bound=0.0) for key in _REPAIRED_BOOTS if key in wanted]
    return boots.with_columns(limits).select(wanted.values()), repaired


def check_numbers(
    rows: pl.DataFrame,
    column: str,
    *,
    what: str,
    remedy: str,
    may_be_negative: bool = False,
    file: str | None = None,
) -> None:
    """Raise an error at the first number of a column that is not finite, or negative.

    Rows have the name of a column `name`, or a number. Their lines are those of the file, unless
    this is a folder.
    """
    values, line = rows[column], None
    is_wrong = values.is_finite().not_()
    if not may_be_negative:
        is_wrong |= values < 0
    wrong = is_wrong.fill_null(value=False).arg_true()
    if not wrong.len():
        return
    row = int(wrong[0])
    name = rows["name"][row] if "name" in rows.columns else f"{row + 1} of {rows.height}"
    # The rows of a trace folder have the lines of another file.
    if file is not None and "line" in rows.columns and not Path(file).is_dir():
        line = rows["line"][row]
    expected = "a finite number" if may_be_negative else "a finite number from 0 on"
    raise InputError(
        f"{what} {name}: {column} must be {expected}, not {values[row]:g}",
        kind="out-of-range",
        file=file,
        line=line,
        remedy=remedy,
    )


def list_boots(trace: Trace) -> pl.DataFrame:
    """List the boots of a run, in the order of the requests: recorded, or from its instances.

    >>> list_boots(Trace()).height
    0
    """
    if trace.boots.is_empty() and not trace.instances.is_empty():
        return _derive_boots(trace.instances)
    return trace.boots


def _derive_boots(instances: pl.DataFrame) -> pl.DataFrame:
    """Derive the boots of the instances that became ready, in the order of their requests."""
    requested = pl.coalesce("requested", "start")
    return (
        instances.with_columns(provisioned=requested)
        .filter(pl.col("ready").is_not_null())
        .sort("provisioned", maintain_order=True)
        .select(
            "provisioned",
            boot_time=pl.col("ready") - pl.col("provisioned"),
            lag=pl.lit(None, dtype=pl.Float64),
        )
    )


def _describe_missing(key: str, why: str) -> InputError:
    return InputError(
        f"the trace has no {key}: {why}",
        kind="missing-field",
        field="inject",
        remedy=f"remove '{key}' from the injected keys",
    )
