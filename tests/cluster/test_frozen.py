"""The engine reproduces the stored outcomes; see `tests.cluster.frozen`."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cluster.frozen import real_logs
from tests.cluster.frozen.compare import ABSOLUTE, RELATIVE, Difference, compare
from tests.cluster.frozen.outcomes import SCHEMA, collect_outcomes, read_outcomes
from tests.cluster.frozen.scenarios import (
    AFTER_FAILURE,
    BATCH,
    CONTENTIONS,
    FITTING,
    OVERCOMMITTING,
    POWERS,
    make_case,
)
from tests.cluster.scenarios import Case
from twinloop.policy import list_policies
from twinloop.scenario.model import MODEL_VALUES

#: The scenarios are tested in parts, which can run in parallel.
PARTS = 4


@pytest.fixture(scope="module")
def frozen() -> pl.DataFrame:
    return read_outcomes()


# --- outcomes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(PARTS))
def test_outcomes_are_those_that_are_stored(frozen: pl.DataFrame, part: int) -> None:
    size = -(-frozen.height // PARTS)
    stored = frozen[part * size : (part + 1) * size]
    found = collect_outcomes(dict(stored.select("seed", "shared").iter_rows()))
    differences = compare(found, stored)
    assert not differences, "\n".join(map(str, differences))


def list_features(case: Case) -> Iterator[object]:
    """List the options of a scenario, as texts."""
    yield str(case.policy)
    yield str(case.then if case.failures or case.random_failures else None)
    yield str(case.model.get("contention"))
    yield case.source if isinstance(case.source, str) else case.source["sessions"]["by"]
    yield from case.model
    yield from (str(host.get("power")) for host in case.machines)
    parts = ("queues", "maintenance", "reservations", "failures", "random_failures")
    yield from (part for part in parts if getattr(case, part))
    fields = ("fragments", "requested", "nodes", "memory", "gpus", "user", "group", "kind")
    for task in case.tasks:
        yield from (
            name for name in (*fields, "queue", "deadline", "parents") if getattr(task, name)
        )


def test_the_scenarios_have_every_policy_and_every_option(frozen: pl.DataFrame) -> None:
    assert frozen.height == 500
    policies = (*BATCH, *FITTING, *OVERCOMMITTING)
    # Policies of workflows came later: tests/policy compares them with plain twins.
    later = {"list-scheduling", "heft", "cpop", "min-min", "max-min"}
    assert {policy["name"] for policy in policies} == set(list_policies()) - later
    cases = [make_case(seed) for seed in frozen["seed"]]
    counts = pl.Series([feature for case in cases for feature in set(list_features(case))])
    found = dict(counts.value_counts().iter_rows())
    expected = {
        *map(str, (*policies, *AFTER_FAILURE, *CONTENTIONS, *POWERS)),
        *("rigid", "arrival", "last", "max"),
        *MODEL_VALUES,
        *("service_factors", "contention", "demand", "sharing", "kill_at_requested_time"),
        *("queues", "maintenance", "reservations", "failures", "random_failures"),
        *("fragments", "requested", "nodes", "memory", "gpus", "user", "group", "kind"),
        *("queue", "deadline", "parents"),
    }
    assert {name for name in expected if found.get(name, 0) < 3} == set()
    assert all(10 <= len(case.tasks) <= 60 and 1 <= len(case.machines) <= 8 for case in cases)
    # Completed, rejected, killed, failed and lost.
    assert set(frozen["status"].explode()) == {1, 2, 3, 4, 5}
    assert 0.3 < frozen["shared"].not_().mean() < 0.5


# --- the comparison -------------------------------------------------------------------------------


def make_row(shared: bool, **changes: object) -> pl.DataFrame:
    """Make the outcomes of one scenario of three tasks on two machines."""
    tasks = {
        "status": [1, 1, 2],
        "attempts": [1, 2, 0],
        "machine": [0, 1, -1],
        "placements": [7, 8, 0],
        "start": [0.0, 3.0, math.nan],
        "last_start": [0.0, 5.0, math.nan],
        "end": [10.0, 1000.0, math.nan],
        "executions": [10.0, 1013.0, 0.0],
        **{name: [10.0, 995.0, 0.0] for name in ("energy", "used", "done", "cpu_moment")},
    }
    scenario = {"events": 9, "makespan": 1000.0, "decisions": 3, "states": 4, "power_moment": 1e5}
    row = {"seed": 5, "shared": shared, **scenario, **tasks, "machine_energy": [50.0, 60.0]}
    return pl.DataFrame([row | changes], schema=SCHEMA)


def after(time: float) -> float:
    return float(np.nextafter(time, np.inf))


def test_a_time_that_is_one_bit_later_differs_where_nothing_is_shared() -> None:
    late = [10.0, after(1000.0), math.nan]
    found = compare(make_row(False, end=late), make_row(False))
    assert found == [Difference(5, "end", 1, 1000.0, after(1000.0))]
    assert str(found[0]) == "seed 5 t1: end is 1000.0000000000001, was 1000.0"
    assert compare(make_row(True, end=late), make_row(True)) == []


def test_shared_times_and_amounts_differ_beyond_the_tolerance_only() -> None:
    for column, first, last in (("end", 10.0, 1000.0), ("energy", 10.0, 995.0)):
        bound = RELATIVE * first + ABSOLUTE * last
        for factor, count in ((0.99, 0), (-0.99, 0), (1.01, 1), (-1.01, 1)):
            values = [first + factor * bound, last, make_row(True)[column][0][2]]
            assert len(compare(make_row(True, **{column: values}), make_row(True))) == count


def test_all_differences_are_listed() -> None:
    changed = make_row(
        True,
        status=[1, 3, 2],
        machine=[0, 0, -1],
        start=[0.0, 3.0, 4.0],
        end=[math.nan, 1000.0, math.nan],
        placements=[7, 8, 1],
        events=10,
        states=5,
        machine_energy=[50.0, 61.0],
    )
    found = [(each.column, each.row) for each in compare(changed, make_row(True))]
    assert found == [
        ("status", 1), ("machine", 1), ("placements", 2), ("start", 2), ("end", 0), ("events", 0),
        ("states", 0), ("machine_energy", 1),
    ]  # fmt: skip


def test_stored_nulls_are_not_compared() -> None:
    stored = make_row(True, energy=None)
    assert compare(make_row(True, energy=[1.0, 2.0, 3.0]), stored) == []
    assert compare(make_row(True, used=[1.0, 2.0, 3.0]), stored) != []


# --- real logs ------------------------------------------------------------------------------------


def is_equal(found: str | float, stored: str | float) -> bool:
    if isinstance(found, str) or isinstance(stored, str):
        return found == stored
    return math.isclose(found, stored, rel_tol=RELATIVE, abs_tol=0.0)


@pytest.mark.realdata
@pytest.mark.parametrize("log", ["kth", "surf"])
def test_real_logs_are_scheduled_as_stored(real_data: Path, log: str) -> None:
    found = getattr(real_logs, f"summarise_{log}")(real_data)
    stored = real_logs.read_summaries()[log]
    assert list(found) == list(stored)
    wrong = [
        f"{log}, {variant}: {name} is {found[variant][name]}, was {value}"
        for variant, values in stored.items()
        for name, value in values.items()
        if not is_equal(found[variant][name], value)
    ]
    assert not wrong, "\n".join(wrong)
