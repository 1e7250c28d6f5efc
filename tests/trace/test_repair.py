"""Repair: values with a defined correction are corrected and counted; nothing else is changed."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.trace.samples import add, change, fragments, log, put, recorded
from twinloop.description import InputError
from twinloop.trace import Trace
from twinloop.trace.quality import RULES, check, repair

# These can always be repaired; the other two within limits.
ALWAYS = {"samples-in-order", "windows-disjoint", "samples-of-tasks"}
SOMETIMES = {"unique-names", "lifecycle-order"}


def notes(trace: Trace) -> list[tuple[str, str, int]]:
    return [(note.kind, note.what, note.count) for note in trace.manifest.cleaned]


def same_tables(one: Trace, other: Trace) -> bool:
    return all(frame.equals(other.tables[name]) for name, frame in one.tables.items())


@pytest.mark.parametrize("make", [recorded, log, fragments])
def test_a_clean_trace_is_not_changed(make) -> None:
    fixed = repair(make())
    assert same_tables(fixed, make())
    assert fixed.manifest.cleaned == ()
    assert [edit.operation for edit in fixed.manifest.edits] == ["repair"]


def test_exactly_these_rules_have_a_fix() -> None:
    assert {rule.name for rule in RULES if rule.fix} == ALWAYS | SOMETIMES


def test_of_samples_of_one_time_the_last_is_kept() -> None:
    trace = add(recorded(), "usage", task="a", machine="n1", pid=11, t=3.0, dt=1.0, cpu=0.7,
                rss=1e6, line=8)  # fmt: skip
    fixed = repair(trace)
    times = fixed.usage.filter(pl.col("task") == "a").select("t", "cpu").rows()
    assert times == [(2.0, 0.5), (3.0, 0.7), (4.0, 0.5)]
    assert notes(fixed) == [
        ("removed", "rows of usage with the same time as a later row", 1),
        ("repaired", "samples out of order, sorted", 1),
    ]
    # The removed sample was in line 2.
    assert fixed.manifest.cleaned[0].examples == ("proc_metrics.jsonl:2",)


def test_samples_are_sorted_within_the_rows_of_their_series() -> None:
    trace = recorded()
    order = [2, 3, 0, 4, 1, 5, 6]  # a b a b a c c
    trace = put(trace, "usage", trace.usage[order])
    fixed = repair(trace)
    assert fixed.usage["task"].to_list() == trace.usage["task"].to_list()
    assert fixed.usage["t"].to_list() == [2.0, 6.0, 3.0, 7.0, 4.0, 3.0, 4.0]
    assert notes(fixed) == [("repaired", "samples out of order, sorted", 1)]


def test_a_window_that_overlaps_is_shortened_and_keeps_its_cpu_time() -> None:
    fixed = repair(change(recorded(), "usage", 1, dt=1.5))
    assert fixed.usage.select("t", "dt", "cpu").row(1) == (3.0, 1.0, 0.5)
    assert notes(fixed) == [
        ("repaired", "windows of usage that overlap the one before, shortened", 1)
    ]


def test_the_windows_of_the_example_in_the_schema_overlap_and_are_repaired() -> None:
    # Two samples of one process, at 7100 ms (200 ms long) and 7300 ms (300 ms long).
    usage = pl.DataFrame({"task": "j", "t": [7.1, 7.3], "dt": [0.2, 0.3], "cpu": [0.18, 0.22]})
    trace = Trace(tasks=pl.DataFrame({"id": ["j"], "submit": [5.0]}), usage=usage)
    assert check(trace)["windows-disjoint"].broken == 1
    assert repair(trace).usage["dt"].to_list() == pytest.approx([0.2, 0.2])


def test_samples_of_no_task_are_removed_but_not_samples_without_task_and_pid() -> None:
    trace = add(recorded(), "usage", pid=99, t=2.0, dt=1.0, cpu=0.1, rss=1.0, line=40)
    trace = add(trace, "usage", task="z", t=2.0, dt=1.0, cpu=0.1, rss=1.0, line=41)
    trace = add(trace, "usage", t=2.0, dt=1.0, cpu=0.1, rss=1.0, line=42)
    fixed = repair(trace)
    assert fixed.usage["line"].to_list() == [1, 2, 3, 4, 5, 6, 7, 42]
    assert fixed.manifest.cleaned[0].examples == ("proc_metrics.jsonl:40", "proc_metrics.jsonl:41")
    assert check(fixed)["complete"].broken == 1


@pytest.mark.parametrize(("late", "repaired"), [(0.5, True), (1.0, True), (1.25, False)])
def test_clock_skew_up_to_one_sampling_period_is_corrected(late: float, repaired: bool) -> None:
    ended = change(recorded(), "placements", 1, end=5.0 - late)
    assert repair(ended).placements["end"][1] == (5.0 if repaired else 5.0 - late)
    submitted = change(recorded(), "tasks", 2, submit=2.0 + late)
    assert repair(submitted).tasks["submit"][2] == (2.0 if repaired else 2.0 + late)
    for trace in (ended, submitted):
        assert (check(repair(trace))["lifecycle-order"].broken == 0) == repaired
        assert len(repair(trace).manifest.cleaned) == (1 if repaired else 0)


def test_without_samples_the_skew_must_be_given() -> None:
    trace = change(log(), "tasks", 1, submit=12.5)
    assert same_tables(repair(trace), trace)
    assert repair(trace, skew=1).tasks["submit"][1] == 12.0


@pytest.mark.parametrize("skew", [-1.0, float("nan"), float("inf")])
def test_an_impossible_skew_is_an_error(skew: float) -> None:
    with pytest.raises(InputError, match="skew"):
        repair(log(), skew=skew)


def twice(trace: Trace, row: int, **other) -> Trace:
    """Repeat a line of the source further down, possibly changed."""
    task = trace.tasks.row(row, named=True) | {"line": 90}
    run = trace.placements.row(row, named=True)
    task |= {name: value for name, value in other.items() if name in task}
    run |= {name: value for name, value in other.items() if name in run}
    return add(add(trace, "tasks", **task), "placements", **run)


@pytest.mark.parametrize("make", [recorded, log])
def test_of_tasks_that_are_the_same_in_everything_one_is_kept(make) -> None:
    fixed = repair(twice(twice(make(), 1), 1))
    assert same_tables(fixed, make())
    assert [note.count for note in fixed.manifest.cleaned] == [2, 2]


@pytest.mark.parametrize("other", [{"user": "w"}, {"end": 33.0}, {"submit": 11.0}])
def test_tasks_of_one_name_that_differ_stay(other) -> None:
    trace = twice(log(), 1, **other)
    fixed = repair(trace)
    assert same_tables(fixed, trace)
    assert not check(fixed).ok


def test_a_task_twice_of_which_one_was_started_again_stays() -> None:
    trace = add(twice(log(), 1), "placements", task="2", attempt=1, start=40.0, end=41.0)
    assert same_tables(repair(trace), trace)


def test_everything_else_is_not_changed() -> None:
    trace = change(recorded(), "usage", 0, cpu=-1.0)
    trace = change(trace, "usage", 4, dt=0.0)
    trace = change(trace, "tasks", 1, parents=["nobody"])
    trace = change(trace, "placements", 2, machine="n9")
    assert same_tables(repair(trace), trace)


numbers = st.integers(0, 12).map(lambda number: number / 2)


@st.composite
def dirty(draw: st.DrawFn) -> Trace:
    """Tasks, executions and samples with small numbers, so that conflicts are common."""
    maybe = st.one_of(st.none(), st.just(float("nan")), numbers)
    tasks = draw(st.lists(st.tuples(st.sampled_from("abc"), numbers), min_size=1, max_size=4))
    runs = draw(st.lists(st.tuples(st.sampled_from("abcd"), numbers, numbers), max_size=4))
    names = st.one_of(st.none(), st.sampled_from("abcd"))
    samples = draw(st.lists(st.tuples(names, st.sampled_from([1, 2]), maybe, maybe), max_size=9))
    power = draw(st.lists(st.tuples(st.sampled_from(["n", None]), numbers, numbers), max_size=4))
    number = pl.Float64
    return Trace(
        tasks=pl.DataFrame(tasks, {"id": pl.String, "submit": number}, orient="row"),
        placements=pl.DataFrame(
            runs, {"task": pl.String, "start": number, "end": number}, orient="row"
        ),
        usage=pl.DataFrame(
            samples,
            {"task": pl.String, "pid": pl.Int64, "t": number, "dt": number},
            orient="row",
        ).with_columns(cpu=pl.int_range(pl.len()).cast(number)),
        power=pl.DataFrame(power, {"node": pl.String, "t": number, "dt": number}, orient="row"),
    )


@examples(15)
@given(dirty())
def test_after_repair_no_repairable_rule_is_broken(trace: Trace) -> None:
    fixed = repair(trace)
    audit = check(fixed)
    assert {name for name in ALWAYS if audit[name].broken} == set()
    again = repair(fixed)
    assert same_tables(again, fixed)
    assert again.manifest.cleaned == fixed.manifest.cleaned


@examples(15)
@given(dirty())
def test_every_row_is_kept_or_counted_and_cpu_time_is_not_changed(trace: Trace) -> None:
    fixed = repair(trace)
    before, after = trace.tables, fixed.tables
    gone = sum(before[table].height - after[table].height for table in before)
    removed = [note for note in fixed.manifest.cleaned if note.kind == "removed"]
    assert gone == sum(note.count for note in removed)
    # The CPU time of a sample is its number here.
    assert set(fixed.usage["cpu"]) <= set(trace.usage["cpu"])
    assert fixed.usage["cpu"].is_unique().all()
