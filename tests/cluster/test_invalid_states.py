"""Invalid states are refused with an error that names the file, the field and the problem."""

import atexit
import functools
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import Case, Task
from tests.cluster.test_transfers import CHAIN
from tests.cluster.test_transfers import scenario as files_scenario
from tests.examples import examples
from twinloop.engine import CompiledScenario, Simulation, SimulationState

_TEMPORARY = tempfile.TemporaryDirectory(prefix="states-")
atexit.register(_TEMPORARY.cleanup)
FOLDER = Path(_TEMPORARY.name)

POWER = {"model": "linear", "idle": 100.0, "max": 200.0}


# --- valid states ---------------------------------------------------------------------------------


def plain() -> Simulation:
    tasks = tuple(Task(2.0 * i, cores=1.0 + i % 2, run_time=20.0 + i) for i in range(7))
    sim = Simulation(Case(machines=({"cores": 3.0, "power": POWER},) * 2, tasks=tasks).scenario)
    sim.run_until(21.0)
    return sim


def with_instance() -> Simulation:
    tasks = [{"id": "a", "cores": 2, "run_time": 60}]
    sim = Simulation(tl.Scenario(platform="1x4", policy="fcfs", workload={"tasks": tasks}))
    sim.run_until(10.0)
    sim.add_instance("v", host="C01-H01-001", cores=1)
    return sim


def with_transfer() -> Simulation:
    sim = Simulation(files_scenario(CHAIN))
    sim.run_until(2.0)
    return sim


def with_sessions() -> Simulation:
    tasks = tuple(Task(5.0 * i, run_time=8.0, user="ann") for i in range(5))
    case = Case(machines=({"cores": 2.0, "power": POWER},), tasks=tasks, source="sessions:3")
    sim = Simulation(case.scenario)
    sim.run_until(12.0)
    return sim


def with_reservations() -> Simulation:
    tasks = tuple(Task(0.0, cores=2.0, run_time=5.0, requested=6.0) for _ in range(4))
    policy = {"name": "conservative", "options": {"compress": False}}
    sim = Simulation(Case(machines=({"cores": 2.0},), tasks=tasks, policy=policy).scenario)
    sim.run_until(2.0)
    return sim


VALID = (plain, with_instance, with_transfer, with_sessions, with_reservations)


@functools.cache
def saved(make: Callable[[], Simulation]) -> tuple[CompiledScenario, str]:
    """Return the compiled scenario of a simulation without changes, and the file of its state."""
    sim = make()
    sim.state.save(FOLDER / "state.json")
    return CompiledScenario(sim._compiled.scenario), (FOLDER / "state.json").read_text()


def load(make: Callable[[], Simulation], change: Callable[[Any], Any]) -> Simulation:
    """Start from the state of a simulation after a change of its file."""
    compiled, text = saved(make)
    document = json.loads(text)
    change(document)
    file = FOLDER / "changed.json"
    file.write_text(json.dumps(document))
    return Simulation(compiled, state=SimulationState.load(file))


# --- files ----------------------------------------------------------------------------------------


def put(*path: Any) -> Callable[[Any], None]:
    """Return a change: the last value is put at the place that the others lead to."""

    def change(document: Any) -> None:
        *steps, last, value = path
        functools.reduce(lambda part, step: part[step], steps, document)[last] = value

    return change


def drop(*path: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        *steps, last = path
        del functools.reduce(lambda part, step: part[step], steps, document)[last]

    return change


COLUMNS = ("id", "phase", "submit", "start", "end", "done", "machines", "cores")


@pytest.mark.parametrize(
    ("make", "change", "why"),
    [
        *((with_instance, put("executions", 0, "fragment", number),
           r"'a': fragment: must be less than 1") for number in (1, 5, 1_000_000)),
        *((plain, drop("tasks", name), rf"tasks\.{name}: the column is missing")
          for name in COLUMNS),
        (plain, drop("tasks", "saved"), r"tasks: saved: the column is missing"),
        (plain, drop("tasks", "saved", 0), r"tasks\.saved: has 6 rows, and `id` has 7"),
        (plain, put("tasks", "saved", 0, 1e30), r"'t0': saved: must be from 0 to its run time"),
        (plain, put("tasks", "energy", 0, -1), r"'t0': energy: must be finite and not negative"),
        (plain, put("tasks", "energy", 0, -math.inf), r"'t0': energy: must be finite"),
        (plain, put("tasks", "arrival", 0, -1), r"'t0': arrival: must be a count, not -1"),
        (plain, put("tasks", "start", 0, "x"), r"tasks\.start: must be a column of type Float64"),
        (plain, put("tasks", "attempts", 0, 0), r"'t0': attempts: is 0, which does not fit"),
        (plain, put("machines", 0, "energy", -1), r"machines\.0\.energy: "),
        (plain, put("machines", 0, "removed", True), r"machines: 'm0' was removed"),
        (plain, put("machines", 0, "outages", 10**9), r"machines\.0\.outages: "),
        (plain, put("machines", 0, "state", "off"), r"machines: 'm0' is off"),
        (plain, put("machines", 1, "machine", "m0"), r"machines: 'm0' has more than one row"),
        (plain, put("executions", 0, "until", 1e6), r"until: must be the end of its fragment"),
        (plain, put("executions", 0, "until", 1.0), r"until: must not be before 21.0 s"),
        (plain, put("executions", 0, "begun", 99.0), r"begun: must not be after 21.0 s"),
        (plain, put("executions", 0, "draws", True), r"remaining: must have a value for each"),
        (plain, put("executions", 0, 7), r"executions\.0: cannot be read: must be an object"),
        (plain, put("decisions", "running", []), r"running: must list each task that has"),
        (plain, put("time", math.nan), r"time: "),
        (plain, put("stores", {"x": []}), r"stores: there is no data store 'x'"),
        (with_transfer, drop("executions", 0, "transfer"), r"'a': transfer: is missing"),
        (with_transfer, put("executions", 0, "transfer", "store", "x"), r"no data store 'x'"),
        (with_transfer, put("executions", 0, "transfer", "left", -1), r"transfer\.left: "),
        (with_transfer, put("executions", 0, "transfer", "left", 1e12), r"left: must be at most"),
        (with_transfer, put("executions", 0, "transfer", "start", math.inf), r"waits for a str"),
        (with_transfer, put("executions", 0, "files", 7), r"'a'.*no such file to transfer"),
        (with_instance, put("executions", 0, "remaining", [7.0]), r"remaining: must add up"),
        (with_instance, put("machines", 1, "added", "host", "x"), r"'v': added: .*'x'"),
        (with_sessions, put("source", "memory", 0, -1), r"source: memory: the counts of"),
        *((with_reservations, put("decisions", "memory", at, 1e6),
           r"memory: does not contain the reservations") for at in (0, 1, 4, 5)),
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused_with_its_name_and_the_field(make, change, why):
    with pytest.raises(tl.InputError, match=rf"changed\.json: .*{why}"):
        load(make, change)
    load(make, lambda document: None).run()


@pytest.mark.parametrize("text", ["[]", "5", "null", "{}", ""])
def test_a_file_without_a_state_is_refused_in_words_of_the_file(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(tl.InputError, match=r"state\.json: ") as refused:
        SimulationState.load(tmp_path / "state.json")
    assert "_Stored" not in str(refused.value)


def test_the_name_of_a_file_is_not_kept_by_a_changed_state():
    compiled, text = saved(plain)
    file = FOLDER / "kept.json"
    file.write_text(text)
    state = replace(SimulationState.load(file), down=("m7",))
    with pytest.raises(tl.InputError, match=r"^state\.down: there is no machine 'm7'"):
        Simulation(compiled, state=state)


# --- by hand --------------------------------------------------------------------------------------


def by_hand(**columns: Any) -> SimulationState:
    given = {
        "id": ["a"],
        "phase": ["running"],
        "submit": [0.0],
        "start": [40.0],
        "end": [None],
        "done": [0.25],
        "machines": [["C01-H01-001"]],
        "cores": [[2.0]],
    }
    return SimulationState(time=100.0, tasks=pl.DataFrame({**given, **columns}))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"start": [200.0]}, r"'a': start: must not be after 100.0 s, the time of the state"),
        ({"submit": [500.0]}, r"'a': submit: must not be after 100.0 s"),
        ({"submit": [60.0]}, r"'a': start: must not be before `submit`"),
        ({"phase": ["completed"]}, r"'a': end: has no value, and the task has completed"),
        ({"end": [90.0]}, r"'a': end: has a value in the phase 'running'"),
        ({"end": [10.0], "phase": ["failed"]}, r"'a': end: must not be before `start`"),
        ({"phase": [None]}, r"'a': phase: has no value"),
        ({"done": ["half"]}, r"tasks: done: must be a column of type Float64"),
        ({"machines": [None]}, r"'a': has no machine"),
        ({"energy": [math.nan]}, r"'a': energy: must be finite"),
    ],
)
def test_times_and_phases_that_do_not_fit_are_refused(columns, why):
    compiled, _ = saved(with_instance)
    assert Simulation(compiled, state=by_hand()).run()["end"].to_list() == [145.0]
    with pytest.raises(tl.InputError, match=rf"state\.tasks: .*{why}|state\.{why}"):
        Simulation(compiled, state=by_hand(**columns))


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"time": "now"}, r"state\.time: "),
        ({"tasks": [1]}, r"state\.tasks: must be a polars\.DataFrame, not list"),
        ({"executions": (5,)}, r"state\.executions: 5: must be an object"),
        ({"executions": ({"task": "a"},)}, r"state\.executions: 'a': 'step' is missing"),
        ({"machines": ({},)}, r"state\.machines: None: 'machine' is missing"),
        ({"decisions": {}}, r"state\.decisions: 'call' is missing"),
        ({"source": []}, r"state\.source: must be an object"),
    ],
)
def test_parts_of_another_type_are_refused(part, why):
    compiled, _ = saved(with_instance)
    with pytest.raises(tl.InputError, match=why):
        Simulation(compiled, state=replace(by_hand(), **part))


def test_a_path_is_no_state():
    with pytest.raises(tl.InputError, match=r"must be a SimulationState, not str .*\.load\(path\)"):
        Simulation(saved(plain)[0], state="state.json")  # type: ignore[arg-type]


# --- random edits ---------------------------------------------------------------------------------

VALUES = st.sampled_from(
    [-1, 0, 1, 2, 0.5, None, "", "x", [], [1], {}, True, False, 1e6, 1e30, 1e308, -1e30]
    + [2**32, 2**63, 10**30, 10**400, math.nan, math.inf, -math.inf]
)


def list_places(part: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each value in a document."""
    steps = part.items() if isinstance(part, dict) else enumerate(part)
    for step, value in steps:
        yield (*above, step)
        if isinstance(value, dict | list):
            yield from list_places(value, (*above, step))


@examples(200)
@given(st.data(), st.sampled_from(VALID))
def test_an_edited_file_is_refused_or_runs_to_a_finite_result(data, make):
    def change(document: Any) -> None:
        for _ in range(data.draw(st.integers(1, 2))):
            place = data.draw(st.sampled_from(list(list_places(document))))
            if data.draw(st.booleans()):
                put(*place, data.draw(VALUES))(document)
            else:
                drop(*place)(document)

    try:
        sim = load(make, change)
    except tl.InputError as error:
        if error.file != str(FOLDER / "changed.json"):
            raise AssertionError("the file is not named") from error
        return
    sim.run_until(sim.now + 500.0)
    assert all(0 <= joules < math.inf for joules in sim.machines["energy"])
    assert all(-0.01 <= joules < math.inf for joules in sim.tasks["energy"])
    is_over = sim.tasks["status"].fill_null("").is_in(["completed"]).all()
    for name, value in sim.kpis().items():
        # A figure of no task is NaN.
        assert math.isfinite(value) or name in undefined(make) or not is_over, name


@functools.cache
def undefined(make: Callable[[], Simulation]) -> set[str]:
    """Return the KPIs that are undefined in a run without changes."""
    sim = load(make, lambda document: None)
    sim.run_until(sim.now + 500.0)
    return {name for name, value in sim.kpis().items() if not math.isfinite(value)}
