"""The burn generator: shapes, commands, and the work of its tasks."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.workload import Workload
from twinloop.workload.generators import Burn
from twinloop.workload.generators.burn import PHASES
from twinloop.workload.session_graph import SessionGraphs

shapes = st.sampled_from(["bag", "bursts", "dag", "sessions"])
#: How much of its cores a kind uses over its whole length.
USED = {kind: sum(share * level for share, level in parts) for kind, parts in PHASES.items()}


def options(command: list[str]) -> dict[str, str]:
    return dict(zip(command[2::2], command[3::2], strict=True))


def test_the_phases_of_a_kind_are_its_whole_time() -> None:
    for parts in PHASES.values():
        assert math.isclose(sum(share for share, _ in parts), 1.0)
    assert math.isclose(USED["mixed"], 0.8)
    assert USED["sleep"] == 0.0


def test_the_hundred_tasks_of_a_minute() -> None:
    tasks = Burn().generate(seed=20250901).tasks
    planned = [6 * b + 0.1 * i for b in range(10) for i in range(10)]
    assert tasks["submit"].to_list() == pytest.approx(planned, abs=1e-3)
    work = (tasks["run_time"] * tasks["requested_cores"]).sum()
    # A hundred lengths, uniform from 0.5 to 1.5 s.
    assert abs(work - 100) < 5 * math.sqrt(100 / 12)


@given(
    shape=shapes,
    tasks=st.integers(1, 40),
    size=st.integers(1, 6),
    cores=st.sampled_from(["1", "2", "1:2,4:1"]),
    nodes=st.integers(1, 3),
    shortest=st.floats(0.001, 5),
    variety=st.floats(0, 5),
    seed=st.integers(0, 10**6),
)
def test_a_command_does_what_the_columns_say(
    shape: Any,
    tasks: int,
    size: int,
    cores: str,
    nodes: int,
    shortest: float,
    variety: float,
    seed: int,
) -> None:
    made = Burn(
        shape=shape,
        tasks=tasks,
        size=size,
        cores=cores,
        nodes=nodes,
        kinds="cpu:2,cache:1,mixed:1,sleep:1,io:1",
        shortest=shortest,
        longest=shortest + variety,
    ).generate(seed)
    frame = made.tasks
    assert frame["id"].to_list() == [str(number) for number in range(1, tasks + 1)]
    assert frame["submit"].is_sorted()
    for row in frame.iter_rows(named=True):
        assert row["command"][:2] == ["twinloop-burn", row["kind"]]
        said = options(row["command"])
        assert set(said) == {"--seconds", "--threads", "--seed"}
        assert all(set(text) <= set("0123456789.") for text in said.values())
        assert float(said["--seconds"]) == row["run_time"]
        assert int(said["--threads"]) * nodes == row["requested_cores"]
        assert said["--seed"] == row["id"]
        assert row["requested_nodes"] == nodes
        assert row["requested_time"] >= row["run_time"]
        assert shortest - 1e-3 <= row["run_time"] <= shortest + variety + 1e-3


@given(
    shape=shapes,
    kinds=st.dictionaries(st.sampled_from(list(PHASES)), st.integers(1, 5), min_size=1),
    seed=st.integers(0, 10**6),
)
def test_the_workload_has_the_work_and_the_length(
    shape: Any, kinds: dict[str, int], seed: int
) -> None:
    """Work = length x cores x utilisation of the kind; every task can run."""
    made = Burn(shape=shape, tasks=30, kinds=kinds, cores="1:1,2:1", nodes=2).generate(seed)
    workload = Workload.from_trace(made)
    assert workload.cleaned == ()
    assert len(workload) == 30
    for row, length in zip(workload.tasks.iter_rows(named=True), workload.durations(), strict=True):
        assert math.isclose(
            row["work"], row["run_time"] * row["cores"] * USED[row["kind"]], abs_tol=1e-9
        )
        assert math.isclose(length, row["run_time"], rel_tol=1e-9)
        assert row["limit"] <= row["cores"]
    assert workload.tasks["command"].equals(made.tasks["command"])


def test_kinds_are_exactly_in_the_ratio_of_their_shares() -> None:
    frame = Burn(tasks=80, kinds={"cpu": 3, "cache": 1}, shape="bag").generate(2).tasks
    assert Counter(frame["kind"]) == {"cpu": 60, "cache": 20}
    assert set(frame["submit"]) == {0.0}


@given(
    tasks=st.integers(1, 60),
    width=st.integers(1, 9),
    parents=st.integers(1, 4),
    seed=st.integers(0, 10**6),
)
def test_the_layers_of_a_dag(tasks: int, width: int, parents: int, seed: int) -> None:
    """A task depends only on tasks of the layer before, so there is no cycle."""
    frame = Burn(shape="dag", tasks=tasks, width=width, parents=parents).generate(seed).tasks
    for number, before in enumerate(frame["parents"].to_list()):
        layer = number // width
        found = [int(parent) - 1 for parent in before]
        assert len(set(found)) == len(found) <= parents
        assert bool(found) == (layer > 0)
        assert all(parent // width == layer - 1 for parent in found)


@given(
    tasks=st.integers(1, 50),
    users=st.integers(1, 6),
    size=st.integers(1, 5),
    seed=st.integers(0, 10**6),
)
def test_sessions_start_after_the_last_one_and_a_think_time(
    tasks: int, users: int, size: int, seed: int
) -> None:
    made = Burn(
        shape="sessions", tasks=tasks, users=users, size=size, think_time=2, interval=0.05
    ).generate(seed)
    counts = made.tasks["user"].value_counts()["count"]
    assert counts.len() == min(users, tasks)
    assert counts.max() - counts.min() <= 1
    for (_,), own in made.tasks.group_by("user"):
        sessions = [own[first : first + size] for first in range(0, own.height, size)]
        for session in sessions:
            assert session["submit"].diff().drop_nulls().to_list() == pytest.approx(
                [0.05] * (session.height - 1), abs=2e-3
            )
        for one, following in pairwise(sessions):
            over = (one["submit"] + one["run_time"]).max()
            assert 1.0 - 1e-3 <= following["submit"].min() - over <= 3.0 + 2e-3
    # The sessions can be found in the log, each depending on the one before.
    graphs = SessionGraphs.from_log(made, threshold=0.9)
    rounds = [-(-count // size) for count in counts]
    assert len(graphs.partition) == sum(rounds)
    assert len(graphs.think_times) == sum(rounds) - len(rounds)
    if len(graphs.think_times):
        assert graphs.think_times.min() >= 1.0 - 1e-3


def test_lengths_do_not_change_submission_times() -> None:
    short = Burn(kinds="cpu:1,memory:1").generate(4).tasks
    long = Burn(kinds="cpu:1,memory:1", shortest=7, longest=9).generate(4).tasks
    same = ["submit", "kind", "user", "requested_cores"]
    assert short.select(same).equals(long.select(same))
    assert (long["run_time"] > short["run_time"]).all()


def test_usage_exists_only_for_kinds_with_idle_cores() -> None:
    assert Burn(kinds="cpu:1,cache:1").generate(1).usage.is_empty()
    usage = Burn(kinds="mixed", tasks=1, shortest=10, longest=10, cores=2).generate(1).usage
    assert usage.select("t", "dt", "cpu").rows() == [(4.0, 4.0, 8.0), (6.0, 2.0, 0.0), (10, 4, 8)]
