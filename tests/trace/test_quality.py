"""The quality gate: every rule is broken alone, found, and placed; clean traces pass."""

import gzip
import json
import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.trace.samples import add, change, drop, fragments, log, put, recorded, rented
from twinloop.description import Cleaning, InputError
from twinloop.engine.instance_table import ENDS as LEASE_ENDS
from twinloop.engine.rental_tables import ENDS as RENTAL_ENDS
from twinloop.engine.rental_tables import STATES
from twinloop.policy.brokers import BROKERS
from twinloop.trace import Trace, read
from twinloop.trace.quality import RULES, QualityError, check
from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.tables import INSTANCE_ENDS, INSTANCE_PERIOD_ENDS, INSTANCE_STATES

TASKS, USAGE = "invocations.jsonl.gz", "proc_metrics.jsonl"
NAN, INF = float("nan"), float("inf")


def skipping() -> Trace:
    note = Cleaning(kind="skipped", what="no number", count=2, examples=("log.swf:7", "log.swf:9"))
    return log().with_manifest(cleaned=[note])


def cyclic(trace: Trace) -> Trace:
    """1 waits for 3, 3 for 2, 2 for 1."""
    for row, parent in ((0, "3"), (1, "1"), (2, "2")):
        trace = change(trace, "tasks", row, parents=[parent])
    # Without times, because otherwise a parent would also end too late.
    return put(trace, "placements", trace.placements.clear())


def again(trace: Trace, table: str, row: int) -> Trace:
    """One row twice."""
    return put(trace, table, pl.concat([trace.tables[table], trace.tables[table][row]]))


def restarted(trace: Trace) -> Trace:
    """Task 3 was restarted, with an unknown length of the second run."""
    trace = change(trace, "tasks", 2, run_time=None)
    return add(trace, "placements", task="3", attempt=1, cores=1.0, start=40.0, end=45.0)


# For every rule: traces that break only this rule, and the position of the first bad row.
BREAKING: dict[str, list[tuple[Callable[[], Trace], str]]] = {
    "readable": [(skipping, "log.swf:7")],
    "has-tasks": [(Trace, "tasks row 1")],
    "complete": [
        (lambda: change(recorded(), "tasks", 2, pid=None), f"{TASKS}:3"),
        (lambda: change(recorded(), "usage", 1, cpu=None), f"{USAGE}:2"),
        (lambda: change(recorded(), "usage", 1, rss=None), f"{USAGE}:2"),
        (lambda: change(recorded(), "nodes", 1, mhz=None), "nodes row 2"),
        (lambda: change(recorded(), "power", 0, watts=None), "power row 1"),
        (lambda: change(recorded(), "node_states", 0, state=None), "node_states row 1"),
        (lambda: change(log(), "tasks", 1, submit=None), "log.swf:6"),
        (lambda: change(rented(), "instances", 3, instance=None), "instances row 4"),
        (lambda: change(rented(), "transfers", 0, kind=None), "transfers row 1"),
        (lambda: change(fragments(), "usage", 2, cpu=None), "fragments.parquet:3"),
        (lambda: drop(change(recorded(), "placements", 2, end=None), "usage", 5, 6), f"{TASKS}:3"),
    ],
    "finite": [
        (lambda: change(recorded(), "usage", 4, rss=NAN), f"{USAGE}:5"),
        (lambda: change(log(), "tasks", 2, cpu_time=INF), "log.swf:8"),
        (
            lambda: change(log(), "tasks", 0, resources=[{"name": "gpu", "amount": NAN}]),
            "log.swf:5",
        ),
    ],
    "not-negative": [
        (lambda: change(recorded(), "usage", 4, cpu=-0.1), f"{USAGE}:5"),
        (lambda: change(recorded(), "power", 1, watts=-1.0), "power row 2"),
        (lambda: change(log(), "tasks", 2, requested_memory=-5.0), "log.swf:8"),
        (lambda: change(rented(), "instances", 1, price=-1.0), "instances row 2"),
        (
            lambda: change(log(), "tasks", 1, resources=[{"name": "gpu", "amount": -1.0}]),
            "log.swf:6",
        ),
    ],
    "known-words": [
        (lambda: change(log(), "tasks", 2, status="COMPLETED"), "log.swf:8"),
        (lambda: change(recorded(), "placements", 1, reason="tired"), f"{TASKS}:2"),
        (lambda: change(recorded(), "task_files", 0, access="eats"), f"{TASKS}:1"),
        (lambda: change(rented(), "instances", 4, reason="bored"), "instances row 5"),
        (lambda: change(rented(), "instance_states", 2, state="up"), "instance_states row 3"),
        (lambda: change(rented(), "transfers", 1, kind="walk"), "transfers row 2"),
        (lambda: change(rented(), "transfers", 2, reason="late"), "transfers row 3"),
    ],
    "unique-names": [
        (
            lambda: add(
                log(), "tasks", id="2", submit=20.0, requested_cores=1.0, run_time=20.0, line=9
            ),
            "log.swf:9",
        ),
        (
            lambda: add(recorded(), "nodes", node="n1", cores=4.0, mhz=1.0, memory=8e9),
            "nodes row 3",
        ),
    ],
    "placed": [(lambda: drop(log(), "placements", 0), "log.swf:5")],
    "lifecycle-order": [
        (lambda: change(log(), "tasks", 1, submit=12.5), "log.swf:6"),
        (
            lambda: change(restarted(log()), "placements", 2, end=29.0),
            "log.swf:8",
        ),
        (lambda: change(recorded(), "node_states", 0, end=-1.0), "node_states row 1"),
        (lambda: change(rented(), "instances", 4, requested=5.5), "instances row 5"),
        (lambda: change(rented(), "instances", 0, ready=0.5), "instances row 1"),
        (lambda: change(rented(), "instances", 0, ready=6.5), "instances row 1"),
        (lambda: change(rented(), "instances", 3, requested=4.0), "instances row 4"),
        (lambda: change(rented(), "instance_states", 1, end=0.5), "instance_states row 2"),
        (lambda: change(rented(), "transfers", 1, end=3.0), "transfers row 2"),
    ],
    "samples-in-order": [
        (lambda: swapped(recorded(), "usage", 1, 2), f"{USAGE}:3"),
        (lambda: add(recorded(), "power", node="n1", t=2.0, dt=1.0, watts=1.0), "power row 3"),
    ],
    "windows-positive": [
        (lambda: change(recorded(), "usage", 1, dt=0.0), f"{USAGE}:2"),
        (lambda: change(recorded(), "power", 1, dt=-1.0), "power row 2"),
    ],
    "windows-disjoint": [
        (lambda: change(recorded(), "usage", 1, dt=1.5), f"{USAGE}:2"),
        (lambda: change(recorded(), "power", 1, dt=1.002), "power row 2"),
    ],
    "placements-of-tasks": [
        (lambda: add(log(), "placements", task="9", start=1.0, end=2.0), "placements row 4"),
    ],
    "samples-of-tasks": [
        (
            lambda: add(recorded(), "usage", pid=99, t=2.0, dt=1.0, cpu=0.1, rss=1.0, line=40),
            f"{USAGE}:40",
        ),
        (
            lambda: add(
                recorded(), "usage", task="z", pid=9, t=2.0, dt=1.0, cpu=0.1, rss=1.0, line=41
            ),
            f"{USAGE}:41",
        ),
    ],
    "known-parents": [(lambda: change(log(), "tasks", 1, parents=["7"]), "log.swf:6")],
    "acyclic": [(lambda: change(cyclic(log()), "tasks", 1, requested_cores=1.0), "log.swf:5")],
    "known-files": [
        (lambda: drop(recorded(), "files", 0), f"{TASKS}:1"),
        (lambda: add(recorded(), "task_files", task="z", file="in"), "task_files row 2"),
    ],
    "known-nodes": [
        (lambda: change(recorded(), "node_states", 0, node="n9"), "node_states row 1"),
        (lambda: change(recorded(), "power", 1, node="n9"), "power row 2"),
        (lambda: change(recorded(), "placements", 1, machine="n9"), f"{TASKS}:2"),
        (lambda: change(rented(), "instances", 2, host="n9"), "instances row 3"),
        (lambda: change(rented(), "transfers", 0, **{"from": "tapes"}), "transfers row 1"),
        (lambda: change(rented(), "transfers", 2, to="n9"), "transfers row 3"),
        (
            lambda: add(rented(), "instance_states", instance="z", start=1.0, state="running"),
            "instance_states row 8",
        ),
    ],
    "pids-apart": [
        (lambda: change(recorded(), "placements", 2, machine="n1", cores=2.0), f"{TASKS}:3")
    ],
    "sampled": [(lambda: drop(recorded(), "usage", 3, 4), f"{TASKS}:2")],
    "samples-within": [
        (
            lambda: add(
                recorded(),
                "usage",
                task="b",
                machine="n1",
                pid=12,
                t=8.5,
                dt=1.0,
                cpu=0.1,
                rss=1.0,
                line=40,
            ),
            f"{USAGE}:40",
        ),
    ],
    "samples-reach-ends": [
        (lambda: drop(recorded(), "usage", 1, 2), f"{TASKS}:1"),
        (lambda: drop(recorded(), "usage", 0, 1), f"{TASKS}:1"),
    ],
    "cpu-possible": [
        (lambda: change(recorded(), "usage", 6, cpu=4.22), f"{USAGE}:7"),
        (lambda: change(fragments(), "usage", 0, cpu=510.0), "fragments.parquet:1"),
    ],
    "memory-possible": [(lambda: change(recorded(), "usage", 3, rss=8.1e9), f"{USAGE}:4")],
    "times-known": [(lambda: change(log(), "placements", 1, start=None, end=None), "log.swf:6")],
    "too-short-to-sample": [
        (lambda: drop(shortened(recorded()), "usage", 5, 6), f"{TASKS}:3"),
    ],
    "samples-cover": [
        (lambda: drop(recorded(), "usage", 2), f"{TASKS}:1"),
        (lambda: drop(recorded(), "usage", 0), f"{TASKS}:1"),
    ],
    "gaps-in-samples": [(lambda: gappy(), f"{USAGE}:3")],
    "usage-of-every-task": [(lambda: drop(fragments(), "usage", 2), "tasks.parquet:2")],
    "run-time-matches-usage": [
        (lambda: change(fragments(), "tasks", 0, run_time=61.0), "tasks.parquet:1"),
    ],
    "run-time-matches-execution": [
        (lambda: change(log(), "tasks", 1, run_time=19.0), "log.swf:6"),
    ],
    "after-zero": [(lambda: change(log(), "tasks", 0, submit=-1.0), "log.swf:5")],
    "parents-first": [(lambda: change(log(), "tasks", 1, parents=["1"]), "log.swf:6")],
    "cpu-exact": [(lambda: change(recorded(), "usage", 6, cpu=4.2), f"{USAGE}:7")],
    "overcommit": [(lambda: change(recorded(), "placements", 2, cores=5.0), f"{TASKS}:3")],
    "fits-no-node": [
        (lambda: change(fragments(), "tasks", 1, requested_cores=8.5), "tasks.parquet:2")
    ],
    "runnable": [
        (
            lambda: change(change(log(), "placements", 1, cores=None), "tasks", 1, user="w"),
            "log.swf:6",
        ),
        (
            lambda: change(
                change(log(), "placements", 2, cores=0.0), "tasks", 2, requested_cores=None
            ),
            "log.swf:8",
        ),
    ],
    "requested-cores-positive": [
        (lambda: change(recorded(), "tasks", 0, requested_cores=0.0), f"{TASKS}:1"),
        (lambda: change(log(), "tasks", 0, requested_nodes=0), "log.swf:5"),
    ],
    "within-requested-time": [
        (lambda: change(log(), "tasks", 1, requested_time=19.0), "log.swf:6"),
    ],
    "zero-length": [
        (
            lambda: change(change(log(), "tasks", 2, run_time=0.0), "placements", 2, end=30.0),
            "log.swf:8",
        )
    ],
    "instance-periods": [
        (lambda: again(rented(), "instances", 0), "instances row 8"),
        (lambda: again(rented(), "instances", 1), "instances row 8"),
        (lambda: again(rented(), "instances", 3), "instances row 8"),
        (lambda: again(rented(), "instances", 6), "instances row 8"),
        (lambda: change(rented(), "instances", 0, end=7.0), "instances row 2"),
        (lambda: change(rented(), "instances", 0, end=None), "instances row 2"),
        (lambda: change(rented(), "instances", 0, reason="lost"), "instances row 2"),
    ],
    "instance-states-within": [
        (lambda: again(rented(), "instance_states", 2), "instance_states row 8"),
        (lambda: change(rented(), "instance_states", 0, start=-1.0), "instance_states row 1"),
        (lambda: change(rented(), "instance_states", 1, end=4.0), "instance_states row 3"),
        (lambda: change(rented(), "instance_states", 4, end=5.0), "instance_states row 5"),
        (lambda: change(rented(), "instance_states", 4, end=None), "instance_states row 5"),
    ],
    "instance-fits-host": [
        (lambda: change(rented(), "instances", 2, cores=100.0), "instances row 3"),
        (lambda: change(rented(), "instances", 2, memory=9e9), "instances row 3"),
    ],
}


def swapped(trace: Trace, table: str, one: int, other: int) -> Trace:
    """Two rows have changed places in the file; each keeps the number of its line."""
    frame = trace.tables[table]
    order = list(range(frame.height))
    order[one], order[other] = other, one
    changed = frame[order]
    return put(trace, table, changed.with_columns(frame["line"]))


def shortened(trace: Trace) -> Trace:
    """Task c lasts just one sampling period."""
    trace = change(trace, "placements", 2, end=3.0)
    return change(trace, "tasks", 2, run_time=1.0)


def gappy() -> Trace:
    """Task a lasts two seconds longer, and is sampled only in the last second."""
    trace = change(recorded(), "placements", 0, end=6.5)
    trace = change(trace, "placements", 1, start=6.5, end=7.0)
    trace = change(change(trace, "tasks", 0, run_time=5.5), "tasks", 1, run_time=0.5)
    trace = drop(change(trace, "usage", 2, t=6.5), "usage", 3)
    return change(trace, "usage", 3, dt=0.5)


def count(trace: Trace, name: str) -> int:
    """How many rows break one rule."""
    rule = next(rule for rule in RULES if rule.name == name)
    return sum(found.rows.height for found in rule.check(PreparedTables(trace)))


def broken(trace: Trace) -> set[str]:
    audit = check(trace)
    return {finding.rule for finding in (*audit.errors, *audit.warnings)}


@pytest.mark.parametrize("make", [recorded, log, fragments, rented])
def test_clean_traces_break_no_rule(make: Callable[[], Trace]) -> None:
    assert broken(make()) == set()
    assert check(make()).ok


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_broken_alone_and_found_in_its_place(rule) -> None:
    for make, place in BREAKING[rule.name]:
        audit = check(make())
        found = [*audit.errors, *audit.warnings]
        assert [finding.rule for finding in found] == [rule.name]
        assert str(found[0].examples[0].place) == place
        assert audit.ok == (rule.severity == "warning")


def test_every_broken_example_belongs_to_a_rule() -> None:
    assert set(BREAKING) == {rule.name for rule in RULES}


def test_names_are_kebab_case_and_laws_are_one_sentence() -> None:
    for rule in RULES:
        assert rule.name == rule.name.lower().replace(" ", "-").replace("_", "-")
        assert rule.law.endswith(".")
        assert rule.law.count(". ") == 0


def test_the_documentation_has_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "codes.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| TL00")]
    listed = [(row[1].strip("`"), row[2]) for row in rows]
    assert listed == [(rule.name, rule.severity) for rule in RULES]


def test_rules_without_data_do_not_apply() -> None:
    audit = check(log())
    for name in ("samples-in-order", "sampled", "cpu-possible", "known-nodes", "known-files"):
        assert not audit[name].applies
        assert audit[name].rows == 0
    assert audit["lifecycle-order"].applies


def test_order_allows_equal_times() -> None:
    trace = change(recorded(), "placements", 0, start=0.0)
    assert check(trace)["lifecycle-order"].broken == 0
    trace = change(recorded(), "placements", 0, end=1.0)
    assert check(trace)["lifecycle-order"].broken == 0


def test_an_execution_of_no_length_needs_no_sample() -> None:
    """A restart at 20 s of unknown length."""
    trace = add(recorded(), "placements", task="a", attempt=1, machine="n1", start=20.0, end=20.0)
    assert check(trace)["samples-reach-ends"].broken == 0
    trace = change(trace, "placements", 3, end=22.0)
    assert check(trace)["samples-reach-ends"].broken == 1


@pytest.mark.parametrize("status", ["failed", "killed", "cancelled", "rejected"])
def test_a_task_that_never_began_has_no_usage(status: str) -> None:
    never = add(recorded(), "tasks", id="d", submit=0.0, status=status)
    assert count(never, "usage-of-every-task") == 0
    # A task that ran for a while must have samples.
    ran = add(recorded(), "tasks", id="d", submit=0.0, status="failed", run_time=3.0)
    assert count(ran, "usage-of-every-task") == 1
    # Without any recorded execution, it is unknown that it never started.
    silent = drop(change(fragments(), "tasks", 1, status="failed", run_time=None), "usage", 2)
    assert count(silent, "usage-of-every-task") == 1


def test_windows_may_overlap_by_a_millisecond() -> None:
    assert check(change(recorded(), "usage", 1, dt=1.001))["windows-disjoint"].broken == 0


@pytest.mark.parametrize(("dt", "gaps"), [(0.001, 0), (0.0, 1)])
def test_a_gap_of_one_sampling_period_is_allowed(dt: float, gaps: int) -> None:
    usage = pl.DataFrame({"task": "a", "t": [1.0, 2.002], "dt": [1.0, dt]})
    assert count(Trace(usage=usage).with_manifest(sampling_period=1.0), "gaps-in-samples") == gaps


def test_the_same_process_id_may_be_used_on_two_nodes_or_one_after_the_other() -> None:
    trace = change(change(recorded(), "tasks", 1, pid=11), "usage", 3, pid=11)
    assert check(trace)["pids-apart"].broken == 0


def test_words_of_instances_are_those_of_runs() -> None:
    assert set(INSTANCE_STATES) == set(STATES) - {"destroyed"}
    assert {*INSTANCE_ENDS, *INSTANCE_PERIOD_ENDS} == {*RENTAL_ENDS, *LEASE_ENDS} - {None}


def test_a_task_of_a_simulation_may_not_have_been_submitted_yet() -> None:
    trace = change(rented(), "tasks", 0, submit=None)
    assert check(trace).errors == ()
    assert count(trace.with_manifest(kind="log"), "complete") == 1


def test_instances_that_are_not_rented_may_return_and_have_states_of_their_own() -> None:
    trace = rented().replace(
        instances=pl.DataFrame(
            {
                "instance": ["a", "a"],
                "host": ["n1", "n1"],
                "start": [1.0, 5.0],
                "end": [3.0, None],
                "reason": ["removed", None],
            }
        ),
        instance_states=pl.DataFrame(
            {"instance": ["a"], "start": [2.0], "end": [3.0], "state": ["napping"]}
        ),
    )
    trace = trace.replace(transfers=trace.transfers.clear())
    assert check(trace).errors == ()


def test_a_cycle_is_named_and_all_tasks_blocked_by_it_are_counted() -> None:
    trace = cyclic(log())
    trace = add(trace, "tasks", id="4", submit=0.0, parents=["2", "1"])
    trace = add(trace, "tasks", id="5", submit=0.0, parents=None)
    finding = check(trace)["acyclic"]
    assert finding.broken == 4
    assert "1 -> 3 -> 2 -> 1" in finding.examples[0].text


def test_a_task_that_waits_for_itself_is_a_cycle() -> None:
    finding = check(change(log(), "tasks", 1, parents=["2"]))["acyclic"]
    assert (finding.broken, "2 -> 2" in finding.examples[0].text) == (1, True)


def test_long_chains_of_parents_need_no_recursion() -> None:
    count = 20_000
    ids = [str(number) for number in range(count)]
    tasks = pl.DataFrame({"id": ids, "submit": 0.0, "parents": [*[[i] for i in ids[1:]], None]})
    assert check(Trace(tasks=tasks))["acyclic"].broken == 0


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14))
def test_a_graph_has_a_cycle_if_it_cannot_be_put_in_order(edges: list[tuple[int, int]]) -> None:
    parents: dict[int, set[int]] = {task: set() for task in range(8)}
    for child, parent in edges:
        parents[child].add(parent)
    tasks = pl.DataFrame(
        {
            "id": [str(task) for task in parents],
            "submit": 0.0,
            "parents": [[str(parent) for parent in sorted(of)] for of in parents.values()],
        },
        schema_overrides={"parents": pl.List(pl.String)},
    )
    # The definition as an oracle: the tasks that are reachable through parents.
    reach = {task: set(of) for task, of in parents.items()}
    for _ in range(8):
        reach = {task: of.union(*(reach[parent] for parent in of)) for task, of in reach.items()}
    cyclic = {task for task in reach if task in reach[task]}
    stuck = {task for task in reach if task in cyclic or reach[task] & cyclic}
    assert count(Trace(tasks=tasks), "acyclic") == len(stuck)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(-1, 3)), max_size=12)
)
def test_samples_are_checked_as_one_by_one(samples: list[tuple[str, int, int]]) -> None:
    usage = pl.DataFrame(
        {
            "task": [task for task, _, _ in samples],
            "t": [float(t) for _, t, _ in samples],
            "dt": [float(dt) for _, _, dt in samples],
        },
        schema={"task": pl.String, "t": pl.Float64, "dt": pl.Float64},
    )
    disorder = overlaps = 0
    for task in "ab":
        own = [(t, dt) for name, t, dt in samples if name == task]
        disorder += sum(t <= before for (before, _), (t, _) in pairwise(own))
        timed = sorted(own, key=lambda sample: sample[0])
        overlaps += sum(before < t and t - dt < before for (before, _), (t, dt) in pairwise(timed))
    trace = Trace(usage=usage)
    assert count(trace, "samples-in-order") == disorder
    assert count(trace, "windows-disjoint") == overlaps
    assert count(trace, "windows-positive") == sum(dt <= 0 for _, _, dt in samples)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=8
    )
)
def test_overcommit_is_found_at_any_time_with_too_many_cores(
    jobs: list[tuple[int, int, int]],
) -> None:
    placements = pl.DataFrame(
        {
            "task": [str(number) for number in range(len(jobs))],
            "machine": "n",
            "cores": [float(cores) for _, _, cores in jobs],
            "start": [float(start) for start, _, _ in jobs],
            "end": [float(start + length) for start, length, _ in jobs],
        }
    )
    nodes = pl.DataFrame({"node": ["n"], "cores": [4.0]})
    peak = max(
        sum(cores for start, length, cores in jobs if start <= t < start + length)
        for t in range(15)
    )
    trace = Trace(placements=placements, nodes=nodes)
    assert (count(trace, "overcommit") > 0) == (peak > 4)


def test_examples_are_the_first_three_in_the_order_of_the_file() -> None:
    trace = log()
    for row in range(3):
        trace = change(trace, "tasks", row, submit=99.0)
    trace = put(trace, "placements", trace.placements.reverse())
    trace = add(trace, "tasks", id="4", submit=99.0, requested_cores=1.0, run_time=5.0, line=9)
    trace = add(trace, "placements", task="4", start=1.0, end=6.0)
    finding = check(trace)["lifecycle-order"]
    assert (finding.rows, finding.broken, len(finding.examples)) == (4, 4, 3)


def test_no_errors_raise_nothing_and_errors_name_the_worst_rules() -> None:
    check(log()).raise_for_errors()
    trace = change(change(log(), "tasks", 1, submit=99.0), "tasks", 2, submit=99.0)
    trace = change(trace, "tasks", 0, parents=["7"])
    with pytest.raises(QualityError) as caught:
        check(trace).raise_for_errors()
    assert isinstance(caught.value, InputError)
    assert (caught.value.file, caught.value.line) == ("log.swf", 6)
    text = str(caught.value)
    assert text.index("lifecycle-order (2)") < text.index("known-parents (1)")
    assert "repair" in text
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.file, again.line) == (text, "log.swf", 6)
    assert again.audit == caught.value.audit


def test_the_page_has_every_rule_the_source_and_the_data_cleaning() -> None:
    trace = change(skipping(), "tasks", 1, submit=99.0)
    page = check(trace).to_markdown()
    assert page.startswith("# Audit of a trace\n")
    assert "**The gate is closed.**" in page
    assert "0" * 64 in page
    for rule in RULES:
        assert f"| `{rule.name}` | {rule.severity} |" in page
    assert "| `sampled` | error |  | not applicable |" in page
    assert "log.swf:6: task '2' starts at 12 s, but is submitted at 99 s" in page
    assert "skipped 2: no number" in page
    assert "**The gate is open.**" in check(log()).to_markdown()


def test_text_of_a_log_cannot_break_the_page() -> None:
    trace = change(log(), "tasks", 1, id="2|\n## not a heading", status="tired")
    assert "\n## not a heading" not in check(trace).to_markdown()


def test_the_audit_as_data_is_json() -> None:
    document = json.loads(json.dumps(check(skipping()).to_dict()))
    assert document["ok"] is False
    first = document["rules"][0]
    assert (first["name"], first["broken"], first["rows"]) == ("readable", 2, 5)
    assert first["examples"][0] == {
        "place": "log.swf:7",
        "file": "log.swf",
        "line": 7,
        "text": "no number",
    }


def test_the_audit_has_a_readable_representation() -> None:
    text = repr(check(change(log(), "tasks", 1, submit=99.0)))
    assert text.startswith("<Audit of 3 tasks: 1 error, 0 warnings\n")
    assert "lifecycle-order  1 of 3  log.swf:6" in text


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(InputError, match="no rule is called 'nonsense'"):
        check(log())["nonsense"]


@examples(15)
@given(
    st.dictionaries(
        st.sampled_from(["submit", "run_time", "requested_cores", "requested_time"]),
        st.lists(
            st.one_of(st.none(), st.floats(width=32)),
            min_size=3,
            max_size=3,
        ),
    ),
    st.lists(st.one_of(st.none(), st.floats(width=32)), min_size=7, max_size=7),
)
def test_no_values_crash_the_gate(columns, times) -> None:
    trace = recorded()
    tasks = trace.tasks.with_columns(
        pl.Series(name, values, dtype=pl.Float64) for name, values in columns.items()
    )
    usage = trace.usage.with_columns(t=pl.Series(times, dtype=pl.Float64))
    audit = check(trace.replace(tasks=tasks, usage=usage))
    values = [value for column in columns.values() for value in column] + list(times)
    if any(value is not None and not abs(value) < INF for value in values):
        assert audit["finite"].broken
    audit.to_markdown()


SWF = """\
; Version: 2.2
; UnixStartTime: 0
 1 0 5 10 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
 2 20 0 30 4 -1 -1 4 10 -1 1 2 1 -1 1 -1 -1 -1
 3 25 0 0 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 9 -1
; a comment between jobs
 4 30 -1 10 -1 -1 -1 -1 60 -1 5 1 1 -1 1 -1 -1 -1
 2 31 0 10 2 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
 5 40 0 x 2 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
 6 41 -1 10 2 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
"""


def test_findings_of_an_swf_file_have_line_numbers(tmp_path: Path) -> None:
    file = tmp_path / "dirty.swf"
    file.write_text(SWF)
    audit = check(read(file))
    found = {
        finding.rule: [str(example.place) for example in finding.examples]
        for finding in (*audit.errors, *audit.warnings)
    }
    assert found == {
        "readable": ["dirty.swf:9"],
        "unique-names": ["dirty.swf:8"],
        "known-parents": ["dirty.swf:5"],
        "times-known": ["dirty.swf:10"],
        "runnable": ["dirty.swf:7"],
        "within-requested-time": ["dirty.swf:4"],
        "zero-length": ["dirty.swf:5"],
    }


@pytest.mark.parametrize("policy", [*BROKERS, "easy"])
@pytest.mark.parametrize("errors", [None, {"factor": 1.2}])
def test_predicted_run_times_are_no_limits(policy: str, errors: dict[str, float] | None) -> None:
    scenario = {"policy": {"name": policy}, "workload": {"prediction_errors": errors}}
    run = change(log(), "tasks", 1, requested_time=19.0)
    audit = check(run.with_manifest(kind="simulated", scenario=scenario))
    assert audit["within-requested-time"].applies == (policy == "easy" and errors is None)


def test_an_execution_of_schlouder_predicts_run_times(tmp_path: Path) -> None:
    file = tmp_path / "a.tasks"
    file.write_text("[boots]\n48 10 1\n[tasks]\na 10 60 ~ 75\n")
    assert not check(read(file))["within-requested-time"].applies


INVOCATIONS = """\
{"trace_id":"j1","pid":1,"ts_enqueue":100000,"ts_start":101000,"ts_end":104000}
{"trace_id":"j2","pid":2,"ts_enqueue":105500,"ts_start":105000,"ts_end":107000}
{"trace_id":"j3","ts_enqueue":105000,"ts_start":105000,"ts_end":105500}
{"trace_id":"j4","pid":4,"ts_enqueue":105000,"ts_start":105000,
{"trace_id":"j5","pid":5,"ts_enqueue":105000,"ts_start":105000,"ts_end":109000}
{"trace_id":"j6","pid":6,"ts_enqueue":105000,"ts_start":105000,"ts_end":107700}
{"trace_id":"j7","pid":7,"ts_enqueue":105000,"ts_start":105000,"ts_end":109000}
"""
PROC_METRICS = """\
{"ts_ms":102000,"pid":1,"dt_ms":1000,"cpu_ms":500,"rss_kb":100}
{"ts_ms":104000,"pid":1,"dt_ms":1000,"cpu_ms":500,"rss_kb":100}
{"ts_ms":103000,"pid":1,"dt_ms":1000,"cpu_ms":500,"rss_kb":100}
{"ts_ms":106000,"pid":2,"dt_ms":1000,"cpu_ms":4210,"rss_kb":100}

{"ts_ms":107000,"pid":2,"dt_ms":1500,"cpu_ms":500,"rss_kb":99000}
{"ts_ms":107000,"pid":99,"dt_ms":1000,"cpu_ms":500,"rss_kb":100}
{"ts_ms":106000,"pid":6,"dt_ms":1000,"cpu_ms":4210,"rss_kb":100}
{"ts_ms":107000,"pid":6,"dt_ms":1000,"cpu_ms":4211,"rss_kb":null}
{"ts_ms":106000,"pid":7,"dt_ms":1000,"cpu_ms":0,"rss_kb":0}
"""
NODES = '{"node_id":"n1","cpu_cores":4,"mem_mb":64,"cpu_freq_mhz":2000}'


def test_findings_of_a_cts_folder_have_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "invocations.jsonl").write_text(INVOCATIONS)
    with gzip.open(tmp_path / "proc_metrics.jsonl.gz", "wt") as stream:
        stream.write(PROC_METRICS)
    (tmp_path / "nodes.json").write_text(NODES)
    audit = check(read(tmp_path))
    found = {
        finding.rule: [str(example.place) for example in finding.examples]
        for finding in (*audit.errors, *audit.warnings)
    }
    assert found == {
        "readable": ["invocations.jsonl:4"],
        "complete": ["invocations.jsonl:3", "proc_metrics.jsonl.gz:9"],
        "lifecycle-order": ["invocations.jsonl:2"],
        "samples-in-order": ["proc_metrics.jsonl.gz:3"],
        "windows-disjoint": ["proc_metrics.jsonl.gz:6"],
        "samples-of-tasks": ["proc_metrics.jsonl.gz:7"],
        "sampled": ["invocations.jsonl:5"],
        "samples-reach-ends": ["invocations.jsonl:7"],
        "cpu-possible": ["proc_metrics.jsonl.gz:9"],
        "memory-possible": ["proc_metrics.jsonl.gz:6"],
        "too-short-to-sample": ["invocations.jsonl:3"],
        "samples-cover": ["invocations.jsonl:6"],
        "cpu-exact": ["proc_metrics.jsonl.gz:4", "proc_metrics.jsonl.gz:8"],
    }


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("KTH-SP2-1996-2.1-cln", {"runnable": 28_476 - 28_475}),
        ("NASA-iPSC-1993-3.1-cln", {"times-known": 18_239}),
        ("HPC2N-2002-2.2-cln", {"runnable": 0}),
    ],
)
def test_the_logs_of_the_archive_pass_with_their_known_faults(
    real_data: Path, name: str, expected: dict[str, int]
) -> None:
    audit = check(read(real_data / "swf" / f"{name}.swf.gz"))
    assert audit.errors == ()
    assert {rule: audit[rule].broken for rule in expected} == expected


@pytest.mark.realdata
def test_the_faults_of_the_surf_trace_are_found(real_data: Path) -> None:
    trace = read(real_data / "surf")
    # 277 hosts of 16 cores at 2.1 GHz.
    nodes = pl.DataFrame({"node": [f"h{n}" for n in range(277)], "cores": 16.0, "mhz": 2100.0})
    audit = check(trace.replace(nodes=nodes))
    assert audit.errors == ()
    assert audit["usage-of-every-task"].broken == 1_555
    assert audit["zero-length"].broken == 303
    assert audit["fits-no-node"].broken == 9
    matching = audit["run-time-matches-usage"]
    assert matching.rows - matching.broken == 101


def test_a_log_without_runnable_tasks_gives_a_warning() -> None:
    tasks = pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 1.0]})
    assert check(Trace(tasks=tasks))["runnable"].broken == 2
    usage = pl.DataFrame({"task": ["a", "b"], "t": [1.0, 2.0], "dt": [1.0, 1.0], "cpu": [1.0, 1.0]})
    assert check(Trace(tasks=tasks, usage=usage))["runnable"].broken == 0
