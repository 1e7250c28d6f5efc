"""What a simulation takes from a recorded run: keys, sets, and what stays predicted."""

import itertools
from pathlib import Path

import polars as pl
import pytest

from twinloop.description.errors import InputError
from twinloop.engine import simulate
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.workload import INJECTION_KEYS, PRESETS, Workload, inject, resolve_injection
from twinloop.workload.stored_workload import workload_from_stored

TASKS = {
    "id": ["a", "b"],
    "submit": [0.0, 4.0],
    "requested_cores": [1.0, 1.0],
    "requested_time": [60.0, 30.0],
    "run_time": [52.0, 33.0],
    "parents": [None, ["a"]],
}
BOOTS = {"provisioned": [10.0, 20.0], "boot_time": [48.0, 40.0], "lag": [1.0, 2.0]}
TIMES = {
    "task": ["a", "b"],
    "wall_time": [52.0, 33.0],
    "run_time": [50.0, 30.5],
    "management_time": [1.5, 2.0],
}
FILES = {"file": ["input/a"], "size": [1e6]}
TASK_FILES = {"task": ["a"], "file": ["input/a"], "access": ["read"]}


def make_run(**changed: dict[str, list[object]] | None) -> Trace:
    tables = {
        "tasks": TASKS,
        "boots": BOOTS,
        "task_times": TIMES,
        "files": FILES,
        "task_files": TASK_FILES,
        **changed,
    }
    return Trace(**{name: pl.DataFrame(table) for name, table in tables.items() if table})


def make_scenario(run: Trace, injected: object, **options: object) -> Scenario:
    cloud = {
        "name": "cloud",
        "clusters": ["hosts"],
        "types": [{"name": "small", "cores": 1}],
        "images": [{"name": "base", "boot": {"delay": 30}}],
        "billing": {"unit": "1h", "price": 1},
    }
    return Scenario(
        platform={
            "clusters": [{"name": "hosts", "hosts": [{"name": "h", "count": 3, "cores": 1}]}],
            "clouds": [cloud],
        },
        policy={"name": "asap", "options": options},
        workload={"object": run, "inject": injected},
    )


ALLOWED = [
    keys
    for length in range(len(INJECTION_KEYS) + 1)
    for keys in itertools.combinations(INJECTION_KEYS, length)
    if not {"wall_times", "run_times"} <= set(keys)
    and not {"wall_times", "data_sizes"} <= set(keys)
]


@pytest.mark.parametrize("keys", ALLOWED, ids=" ".join)
def test_exactly_the_named_quantities_are_taken(keys: tuple[str, ...]) -> None:
    workload = inject(make_run(), keys)
    times = [60.0, 30.0]
    if "wall_times" in keys:
        times = [52.0, 33.0]
    if "run_times" in keys:
        times = [51.5, 32.5] if "management_times" in keys else [50.0, 30.5]
    assert workload.durations().tolist() == times
    assert workload.injected == tuple(key for key in INJECTION_KEYS if key in keys)
    columns = {"provisioning_dates": "provisioned", "boot_times": "boot_time", "lags": "lag"}
    for key, column in columns.items():
        recorded = BOOTS[column] if key in keys else [None] * workload.boots.height
        assert workload.boots[column].to_list() == recorded
    assert workload.files.height == workload.task_files.height == ("data_sizes" in keys)
    # Requested times and dependencies are what the broker was told, and belong to every set.
    assert workload.tasks["requested_time"].to_list() == [60.0, 30.0]
    assert workload.tasks["parents"].to_list() == [None, ["a"]]
    assert workload.tasks["end_recorded"].null_count() == 2


@pytest.mark.parametrize("name", PRESETS)
def test_a_set_is_its_list_of_keys(name: str) -> None:
    assert inject(make_run(), name) == inject(make_run(), PRESETS[name])


def test_an_injected_workload_can_be_stored() -> None:
    from twinloop.workload.stored_workload import workload_from_stored

    workload = inject(make_run(), "best")
    assert workload_from_stored(workload.to_stored()) == workload
    assert workload.replace(tasks=workload.tasks[:1]).boots.height == 2
    assert workload.content_hash() != inject(make_run(), "no-threads").content_hash()
    assert Workload.from_trace(make_run()).boots.is_empty()


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("boot_times", {"boots": {**BOOTS, "boot_time": [None, None]}}),
        ("lags", {"boots": None}),
        ("wall_times", {"task_times": None, "tasks": {**TASKS, "run_time": [None, None]}}),
        ("run_times", {"task_times": None, "tasks": {**TASKS, "run_time": [None, None]}}),
        ("management_times", {"task_times": {**TIMES, "management_time": [None, None]}}),
        ("data_sizes", {"task_files": None, "files": None}),
    ],
)
def test_a_key_that_the_trace_does_not_have_is_an_error(key: str, table: object) -> None:
    run = make_run(**table)
    with pytest.raises(InputError, match=f"the trace has no {key}") as caught:
        inject(run, [key])
    assert caught.value.field == "inject"
    inject(run, [])


def test_a_task_without_a_recorded_time_keeps_its_prediction_and_is_counted() -> None:
    run = make_run(task_times={**TIMES, "wall_time": [None, 33.0]})
    workload = inject(run, ["wall_times"])
    assert workload.durations().tolist() == [60.0, 33.0]
    assert "assumed 1: tasks without a recorded time" in str(workload.cleaned[0])


def test_without_requested_times_nothing_can_be_predicted() -> None:
    run = make_run(tasks={**TASKS, "requested_time": [60.0, None]})
    with pytest.raises(InputError, match="task 'b' has no requested time"):
        inject(run, "predictions")
    assert inject(run, "best").durations().tolist() == [52.0, 33.0]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("bestt", r"unknown set 'bestt' \(did you mean 'best'\?\)"),
        (["lag"], r"unknown key 'lag' \(did you mean 'lags'\?\)"),
        (["wall_times", "run_times"], "has both 'wall_times' and 'run_times'"),
        (["data_sizes", "wall_times"], "has both 'wall_times' and 'data_sizes'"),
    ],
)
def test_wrong_keys_are_errors(given: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        resolve_injection(given)
    with pytest.raises(InputError, match=problem):
        make_scenario(make_run(), given)


def test_only_a_recorded_run_has_something_to_inject() -> None:
    with pytest.raises(InputError, match="has no effect without a recorded run"):
        Scenario(
            platform="1x1",
            policy="fcfs",
            workload={"tasks": [{"id": "a", "run_time": 5}], "inject": "best"},
        )


def test_recorded_boots_need_a_broker() -> None:
    scenario = make_scenario(make_run(), "best").replace(policy="one-per-task")
    with pytest.raises(InputError, match="'one-per-task' cannot use recorded boots"):
        simulate(scenario)


def test_the_manifest_of_a_run_says_what_was_injected() -> None:
    facts = simulate(make_scenario(make_run(), "best")).manifest.facts
    assert facts["mode"] == "replay"
    assert facts["injected"] == list(resolve_injection("best"))
    facts = simulate(make_scenario(make_run(), "predictions")).manifest.facts
    assert facts["mode"] == "predict"
    assert facts["injected"] == []


def test_instances_are_requested_at_their_recorded_dates_and_start_after_their_lags() -> None:
    one_bag = {**TASKS, "submit": [0.0, 0.0], "parents": [None, None]}
    run = make_run(tasks=one_bag)
    trace = simulate(make_scenario(run, ["wall_times", "provisioning_dates", "lags"]))
    assert trace.instances.sort("requested")["requested"].to_list() == [10.0, 20.0]
    starts = dict(trace.placements.select("task", "start").rows())
    assert starts == {"a": 10.0 + 30.0 + 1.0, "b": 20.0 + 30.0 + 2.0}


def test_the_boots_of_a_simulated_run_can_be_injected_into_another() -> None:
    first = simulate(make_scenario(make_run(), "no-threads"))
    workload = inject(first, ["boot_times", "provisioning_dates"])
    assert workload.boots["boot_time"].null_count() == 0
    assert workload.boots["provisioned"].to_list() == (
        first.instances.sort("requested")["requested"].to_list()
    )


@pytest.mark.parametrize("value", [-5.0, float("nan"), float("inf")])
def test_a_boot_time_that_cannot_be_is_an_error_with_its_row(value: float) -> None:
    run = make_run(boots={**BOOTS, "boot_time": [48.0, value]})
    with pytest.raises(InputError, match="boot 2 of 2: boot_time must be") as caught:
        inject(run, "no-threads")
    assert "remove 'boot_times' from the injected keys" in str(caught.value)
    inject(run, ["lags"])  # without boot times it does not matter


@pytest.mark.parametrize(
    ("key", "column"), [("lags", "lag"), ("provisioning_dates", "provisioned")]
)
def test_lags_and_dates_are_finite_and_not_negative(key: str, column: str) -> None:
    workload = inject(make_run(boots={**BOOTS, column: [-3.0, 20.0]}), [key])
    assert workload.boots[column].to_list() == [0.0, 20.0]
    assert [(each.kind, each.count) for each in workload.cleaned] == [("repaired", 1)]
    assert inject(make_run(), [key]).cleaned == ()
    with pytest.raises(InputError, match=f"boot 1 of 2: {column} must be a finite number"):
        inject(make_run(boots={**BOOTS, column: [float("inf"), 20.0]}), [key])


def test_the_error_of_a_boot_names_the_file_and_the_line(tmp_path: Path) -> None:
    log = tmp_path / "a.tasks"
    log.write_text("[boots]\n48 10 1\n-5 10 1\n[tasks]\na 10 60 ~ 5 5 1 1 1\n")
    platform = make_scenario(make_run(), "best").platform
    for injected in ("no-threads", "best"):
        workload = {"path": str(log), "inject": injected}
        with pytest.raises(InputError, match="boot 2 of 2") as caught:
            simulate(Scenario(platform=platform, policy="asap", workload=workload))
        assert str(caught.value).startswith(f"{log}:3: boot 2")
        assert f"twinloop check {log}" in str(caught.value)


def test_tasks_that_cannot_be_run_are_counted_as_in_a_replay() -> None:
    run = make_run(tasks={**TASKS, "requested_time": [60.0, -5.0], "run_time": [52.0, None]})
    replayed, predicted = Workload.from_trace(run), inject(run, "predictions")
    for workload in (replayed, predicted):
        assert workload.skipped == 1
        assert workload_from_stored(workload.to_stored()).skipped == 1
    (note,) = [each for each in predicted.cleaned if each.kind == "skipped"]
    assert str(note) == "skipped 1: tasks that cannot be run: no run time (b)"
    simulated = simulate(make_scenario(run, "predictions"))
    assert simulated.manifest.facts["run"]["skipped"] == 1


@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [
        (
            "requested_tme",
            "300 400",
            ": requested_time: no task has a requested time, which predicts its run time "
            "(column 'requested_tme': did you mean 'requested_time'?)",
        ),
        ("mine", "300 400", "(add the column requested_time; ignored columns: mine)"),
        ("requested_time", "300 ", ":3: requested_time: task 'b' has no requested time"),
    ],
)
def test_a_missing_prediction_names_the_file_and_the_column_or_the_row(
    tmp_path: Path, column: str, cells: str, expected: str
) -> None:
    path, (first, second) = tmp_path / "tasks.csv", cells.split(" ")
    path.write_text(f"id,submit,{column}\na,0,{first}\nb,0,{second}\n")
    scenario = Scenario(
        platform="2x1", policy="fifo", workload={"path": str(path), "inject": "predictions"}
    )
    with pytest.raises(InputError) as caught:
        simulate(scenario)
    assert expected in str(caught.value)
    assert str(caught.value).startswith(str(path))
