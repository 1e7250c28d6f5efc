"""How two runs differ: worked out by hand, and laws of any two runs."""

import polars as pl
import pytest
from hypothesis import given

from tests.metrics.traces import few, fewer, hand_made, runs
from twinloop.description import InputError
from twinloop.metrics import difference
from twinloop.report.difference_text import describe_difference
from twinloop.trace import Manifest, Trace


def moved() -> Trace:
    """As `hand_made`, but c starts 6 s earlier and on the other node, d runs and e is new."""
    trace = hand_made()
    tasks = trace.tasks.with_columns(
        status=pl.Series(["completed", "completed", "killed", "completed"])
    )
    new = pl.DataFrame({"id": ["e"], "submit": [50.0], "status": ["lost"]})
    placed = pl.DataFrame(
        {
            "task": ["a", "b", "b", "c", "d"],
            "machine": ["n1", "n2", "n1", "n1", "n2"],
            "cores": [1.0] * 5,
            "start": [0.0, 10.0, 10.0, 18.0, 40.0],
            "end": [10.0, 22.0, 22.0, 24.0, 41.0],
        }
    )
    return trace.replace(
        tasks=pl.concat([tasks, new], how="diagonal"),
        placements=placed,
        manifest=Manifest(
            kind="simulated", scenario={"policy": {"name": "easy"}, "seed": 1, "hosts": [1, 2]}
        ),
    )


def test_a_difference_worked_out_by_hand() -> None:
    before = hand_made().replace(
        manifest=Manifest(
            kind="simulated", scenario={"policy": {"name": "fcfs"}, "seed": 1, "hosts": [1, 4]}
        )
    )
    found = difference(before, moved())
    assert (found.matched, found.only_a.count, found.only_b.examples) == (4, 0, ("e",))
    # Of those that ran in both: a and b stay, c moves; b is on the same two nodes.
    assert (found.earlier, found.later, found.same, found.elsewhere) == (1, 0, 2, 1)
    assert found.statuses.rows() == [("rejected", "completed", 1)]
    assert found.starts.rows() == [("c", "u", 24.0, 18.0, -6.0)]
    assert found.gains.rows() == [("u", 2, 4.0, 1.0, -3.0, -6.0)]
    assert found.losses.height == 0
    assert [(c.field, c.a, c.b) for c in found.scenario] == [
        ("policy.name", "fcfs", "easy"),
        ("hosts[1]", 4, 2),
    ]
    wait = found.figures.row(by_predicate=pl.col("figure") == "wait_max_s", named=True)
    assert (wait["a"], wait["b"], wait["change"]) == (8.0, 37.0, 29.0)
    assert wait["relative"] == pytest.approx(29 / 8)


def test_the_words_say_what_the_figures_say() -> None:
    text = describe_difference(difference(hand_made(), moved()))
    for said in (
        "run A has no scenario",
        "kind: log in A, simulated in B",
        "the longest wait is longer in B: 8 s in A, 37 s in B (+362 %)",
        "1 task of B not in A: e",
        "4 tasks are in both; first starts in B: 1 earlier, 0 later, 2 at the same time, "
        "1 without a start in A or in B; 1 on other machines",
        "  1 task rejected in A and completed in B",
        "  task c of user u: 6 s earlier, at 24 s in A and at 18 s in B",
        "user u waits less in B: 6 s in all over 2 tasks, on average 4 s in A and 1 s in B",
    ):
        assert said in text.split("\n")
    same = describe_difference(difference(moved(), moved()))
    assert "both runs come from the same scenario" in same
    assert "all figures are the same" in same


def test_one_more_machine_counts_as_moved_in_both_directions() -> None:
    def on(*machines: str) -> Trace:
        rows = {"task": ["a"] * len(machines), "machine": machines, "start": [0.0] * len(machines)}
        return Trace(tasks=pl.DataFrame({"id": ["a"]}), placements=pl.DataFrame(rows))

    assert difference(on("x"), on("x", "y")).elsewhere == 1
    assert difference(on("x", "y"), on("x")).elsewhere == 1
    assert difference(on("x", "y"), on("y", "x")).elsewhere == 0


def test_runs_without_common_tasks_are_reported() -> None:
    other = Trace(tasks=pl.DataFrame({"id": ["z"], "submit": [0.0]}))
    text = describe_difference(difference(hand_made(), other))
    assert "4 tasks of A not in B: a, b, c, ..." in text
    assert "no task is in both" in text


def test_two_tasks_of_one_name_cannot_be_matched() -> None:
    twice = Trace(tasks=pl.DataFrame({"id": ["a", "a"]}))
    with pytest.raises(InputError, match="trace b have the ID 'a'"):
        difference(hand_made(), twice)


@few
@given(runs())
def test_a_run_does_not_differ_from_itself(trace: Trace) -> None:
    found = difference(trace, trace)
    assert (found.earlier, found.later, found.only_a.count, found.only_b.count) == (0, 0, 0, 0)
    assert found.matched == trace.tasks.height
    assert found.elsewhere in (0, None)
    assert found.figures["change"].drop_nulls().abs().sum() == 0
    assert found.scenario == ()
    assert found.starts.height == found.gains.height == found.losses.height == 0


@fewer
@given(runs(), runs())
def test_the_reversed_difference_is_the_opposite(a: Trace, b: Trace) -> None:
    # A task has one user, whichever run it is in.
    user = pl.when(pl.col("id").str.ends_with("1")).then(pl.lit("ann")).otherwise(pl.lit("bob"))
    a, b = (trace.replace(tasks=trace.tasks.with_columns(user=user)) for trace in (a, b))
    there, back = difference(a, b), difference(b, a)
    assert (there.earlier, there.later, there.same) == (back.later, back.earlier, back.same)
    assert (there.only_a, there.elsewhere) == (back.only_b, back.elsewhere)
    assert there.matched + there.only_a.count == a.tasks.height
    assert there.starts["id"].to_list() == back.starts["id"].to_list()
    assert there.gains["total"].to_list() == pytest.approx([-x for x in back.losses["total"]])
    change, opposite = there.figures["change"], back.figures["change"]
    assert change.to_list() == pytest.approx([None if x is None else -x for x in opposite])
    assert describe_difference(there)


@fewer
@given(runs(), runs())
def test_starts_are_counted_as_one_would_by_hand(a: Trace, b: Trace) -> None:
    def starts(trace: Trace) -> dict[str, float]:
        return dict(trace.placements.group_by("task").agg(pl.col("start").min()).rows())

    one, other = starts(a), starts(b)
    both = one.keys() & other.keys()
    found = difference(a, b)
    assert found.earlier == sum(other[task] < one[task] for task in both)
    assert found.later == sum(other[task] > one[task] for task in both)
    if both:

        def places(trace: Trace) -> dict[str, set[str]]:
            held: dict[str, set[str]] = {}
            for task, machine in trace.placements.select("task", "machine").rows():
                held.setdefault(task, set()).add(machine)
            return held

        here, there = places(a), places(b)
        assert found.elsewhere == sum(here[task] != there[task] for task in both)
