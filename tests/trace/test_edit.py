"""Operations on logs: they divide, scale and merge without losing or doubling anything."""

import math
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.examples import examples
from tests.trace.samples import add, change, fragments, log, recorded, source
from twinloop.description import InputError
from twinloop.trace import Manifest, Trace, edit
from twinloop.trace.quality import check

# An example makes several traces, which costs more than the law.
few = examples(12)


@st.composite
def logs(draw: st.DrawFn, prefix: str = "") -> Trace:
    """A log sorted by submission, with executions, samples, files and parents."""
    size = draw(st.integers(1, 8))
    cell = st.integers(0, 400).map(lambda value: value / 4)
    submit = sorted(draw(st.lists(cell, min_size=size, max_size=size)))
    waits = draw(st.lists(cell, min_size=size, max_size=size))
    runs = draw(st.lists(cell, min_size=size, max_size=size))
    users = draw(st.lists(st.sampled_from(["u", "v", None]), min_size=size, max_size=size))
    back = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    ids = [f"{prefix}{row}" for row in range(size)]
    start = [a + b for a, b in zip(submit, waits, strict=True)]
    end = [a + b for a, b in zip(start, runs, strict=True)]
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ids,
                "user": users,
                "queue": [("q", "r")[row % 2] for row in range(size)],
                "submit": submit,
                "requested_cores": [1.0 + row for row in range(size)],
                "requested_time": [run * 2 for run in runs],
                "run_time": runs,
                "cpu_time": runs,
                "parents": [[ids[row - by]] if row >= by else None
                            for row, by in enumerate(back)],
            },
            schema_overrides={"user": pl.String, "parents": pl.List(pl.String)},
        ),
        placements=pl.DataFrame({"task": ids, "machine": "n", "start": start, "end": end}),
        usage=pl.DataFrame({"task": ids, "t": end, "dt": runs, "cpu": runs}),
        nodes=pl.DataFrame({"node": ["n"], "cores": [99.0]}),
        power=pl.DataFrame({"node": "n", "t": [25.0, 50.0, 75.0], "dt": 25.0, "watts": 10.0}),
        decisions=pl.DataFrame({"t": start, "kind": "place", "subject": ids}),
        files=pl.DataFrame({"file": [f"{prefix}f{row}" for row in ids]}),
        task_files=pl.DataFrame({"task": ids, "file": [f"{prefix}f{row}" for row in ids]}),
        manifest=Manifest(
            source=source("swf", f"{prefix}log.swf"), epoch_ms=1_000_000, sampling_period=1.0
        ),
    )  # fmt: skip


def names(trace: Trace) -> list[str]:
    return trace.tasks["id"].to_list()


def rows(trace: Trace) -> Counter[str]:
    return Counter({table: frame.height for table, frame in trace.tables.items()})


def removed(trace: Trace) -> int:
    return sum(
        note.count
        for note in trace.manifest.cleaned
        if note.kind == "removed" and not note.what.startswith("parents")
    )


def consistent(trace: Trace) -> None:
    """Check that all references to tasks and files exist, and that submissions are sorted."""
    ids, files = set(trace.tasks["id"]), set(trace.files["file"])
    assert set(trace.placements["task"]) <= ids
    assert set(trace.usage["task"]) <= ids
    assert set(trace.decisions["subject"]) <= ids
    assert set(trace.task_files["task"]) <= ids
    assert set(trace.task_files["file"]) == files
    assert set(trace.tasks["parents"].explode().drop_nulls()) <= ids
    assert trace.tasks["submit"].is_sorted()


def close(one: Trace, other: Trace) -> None:
    """The same tables, up to the order of rows and the rounding of times."""
    for table, frame in one.tables.items():
        keys = [name for name in ("id", "task", "node", "file", "subject", "t", "start")
                if name in frame.columns]  # fmt: skip
        left, right = frame.sort(keys), other.tables[table].sort(keys)
        assert_frame_equal(left, right, rel_tol=1e-9, abs_tol=1e-6)


times = st.integers(-10, 1200).map(lambda value: value / 8)


@few
@given(logs(), st.lists(times, max_size=3), st.sampled_from(["submit", "start", "end"]))
def test_windows_divide_a_log(trace: Trace, cuts: list[float], by) -> None:
    edges = [None, *sorted(cuts), None]
    parts = [edit.window(trace, *edges[at : at + 2], by=by) for at in range(len(edges) - 1)]
    assert sorted(name for part in parts for name in names(part)) == sorted(names(trace))
    assert sum((rows(part) for part in parts), Counter())["power"] == trace.power.height
    for part in parts:
        consistent(part)
        shared = ("nodes", "node_states")
        kept = sum(n for table, n in rows(part).items() if table not in shared)
        whole = sum(n for table, n in rows(trace).items() if table not in shared)
        assert kept + removed(part) == whole


@few
@given(logs(), times, st.booleans())
def test_the_windows_of_a_log_merge_to_the_log(trace: Trace, cut: float, rebase: bool) -> None:
    # A parent in another window is gone, so there are none here.
    trace = trace.replace(tasks=trace.tasks.with_columns(parents=None))
    parts = [edit.window(trace, None, cut, rebase=rebase),
             edit.window(trace, cut, None, rebase=rebase)]  # fmt: skip
    merged = edit.merge(parts)
    if rebase and cut < 0:  # the earliest time becomes t = 0 of the merged log
        merged = edit.window(merged, -cut, None)
    close(merged, trace)
    assert merged.manifest.epoch_ms == trace.manifest.epoch_ms
    assert merged.manifest.source == trace.manifest.source


def test_a_window_moves_all_times_and_the_epoch_to_its_start() -> None:
    part = edit.window(recorded(), 0.5, 1.0)
    assert names(part) == ["b"]
    assert part.tasks["submit"].to_list() == [0.0]
    assert part.placements.select("start", "end").row(0) == (4.5, 6.5)
    assert part.usage["t"].to_list() == [5.5, 6.5]
    assert part.node_states.select("start", "end").row(0) == (-0.5, 8.5)
    assert part.power["t"].to_list() == [0.5]
    counted = {note.what: note.count for note in part.manifest.cleaned}
    assert counted["rows of power not in the window"] == 1  # power belongs to no task
    assert part.manifest.epoch_ms == 1_726_128_000_500
    assert part.manifest.edits[0].parameters == {
        "start": 0.5, "end": 1.0, "by": "submit", "rebase": True
    }  # fmt: skip


def test_the_epoch_is_exact_if_a_window_begins_between_milliseconds() -> None:
    part = edit.window(recorded(), 0.49990, None)
    assert part.manifest.epoch_ms == 1_726_128_000_499
    assert part.tasks["submit"].to_list() == pytest.approx([0.001, 0.501])


def test_rows_outside_of_a_window_are_counted_with_their_lines() -> None:
    part = edit.window(recorded(), 0.25, None)
    counted = {note.what: (note.count, note.examples) for note in part.manifest.cleaned}
    assert counted["tasks not in the window"] == (1, ("invocations.jsonl.gz:1",))
    lines = tuple(f"proc_metrics.jsonl:{line}" for line in (1, 2, 3))
    assert counted["rows of usage of tasks not in the window"] == (3, lines)
    assert counted["parents not in the window"] == (1, ())
    assert part.tasks["parents"].to_list() == [[], None]
    assert check(part)["readable"].broken == 0


def test_the_think_time_after_a_removed_parent_is_removed() -> None:
    trace = change(recorded(), "tasks", 1, think_time=3.0)
    assert edit.window(trace, 0.25, None).tasks["think_time"].to_list() == [None, None]
    assert edit.window(trace, None, 0.75).tasks["think_time"].to_list() == [None, 3.0]


def test_samples_of_no_task_are_cut_by_their_own_time() -> None:
    trace = add(recorded(), "usage", pid=99, t=0.5, dt=0.25, cpu=0.1, line=40)
    assert 99 in edit.window(trace, None, 0.5).usage["pid"]
    assert 99 not in edit.window(trace, 0.5, None).usage["pid"]


@pytest.mark.parametrize(
    ("start", "end", "by"),
    [(5, 4, "submit"), (math.nan, None, "submit"), (None, math.inf, "submit"), (0, 1, "night")],
)
def test_an_impossible_window_is_an_error(start, end, by) -> None:
    with pytest.raises(InputError):
        edit.window(log(), start, end, by=by)


@few
@given(logs(), st.sets(st.sampled_from(["u", "v", "nobody"])))
def test_a_selection_and_the_others_divide_a_log(trace: Trace, users: set[str]) -> None:
    chosen = edit.select(trace, users=users)
    others = edit.select(trace, users=users, invert=True)
    assert names(chosen) == [n for n, u in trace.tasks.select("id", "user").rows() if u in users]
    assert sorted(names(chosen) + names(others)) == sorted(names(trace))
    for part in (chosen, others):
        consistent(part)
        assert part.power.equals(trace.power)
        assert part.nodes.equals(trace.nodes)


def test_conditions_of_a_selection_hold_together() -> None:
    assert names(edit.select(log(), queues=["q"])) == ["1", "3"]
    assert names(edit.select(log(), users=["u"], queues=["r"])) == []
    chosen = edit.select(log(), queues=["q"], where=pl.col("run_time") < 50)
    assert names(chosen) == ["3"]
    assert "run_time" in chosen.manifest.edits[0].parameters["where"]


@pytest.mark.parametrize(
    "where", [pl.col("nonsense") > 1, pl.col("submit"), pl.col("user") > 3, pl.lit(value=True)]
)
def test_an_invalid_condition_is_an_error(where: pl.Expr) -> None:
    with pytest.raises(InputError, match="where"):
        edit.select(log(), where=where)
    with pytest.raises(InputError, match="no condition is given"):
        edit.select(log())


def load(trace: Trace) -> float:
    """Core-seconds per second of submissions."""
    submit = trace.tasks["submit"]
    work = (trace.tasks["requested_cores"] * trace.tasks["run_time"]).sum()
    return work / (submit.max() - submit.min())


factors = st.sampled_from([0.1, 0.5, 0.75, 1.2, 2.0, 3.0, 7.0])


@few
@given(logs(), factors, st.sampled_from(["arrivals", "run-time"]))
def test_the_load_is_scaled_by_the_factor_and_back_again(trace: Trace, factor: float, by) -> None:
    scaled = edit.scale_load(trace, factor, by=by)
    consistent(scaled)
    if trace.tasks["submit"].n_unique() > 1:
        assert load(scaled) == pytest.approx(factor * load(trace))
    back = edit.scale_load(scaled, 1 / factor, by=by)
    close(back, trace.replace(power=trace.power.clear()))
    assert back.manifest.sampling_period == pytest.approx(1.0)


def joined(trace: Trace) -> pl.DataFrame:
    return trace.tasks.join(trace.placements, left_on="id", right_on="task").sort("id")


@few
@given(logs(), factors)
def test_scaled_arrivals_keep_waits_and_runs(trace: Trace, factor: float) -> None:
    before, after = joined(trace), joined(edit.scale_load(trace, factor))
    for what in (pl.col("start") - pl.col("submit"), pl.col("end") - pl.col("start")):
        expected = before.select(what).to_series().to_list()
        assert after.select(what).to_series().to_list() == pytest.approx(expected, abs=1e-9)
    # Each task was placed by a decision when it started.
    decided = edit.scale_load(trace, factor).decisions.sort("subject")["t"]
    assert decided.equals(after["start"].alias("t"))
    assert (after["start"] >= after["submit"]).all()
    assert (after["end"] >= after["start"]).all()
    assert after["submit"].min() == before["submit"].min()


@few
@given(logs(), factors)
def test_scaled_run_times_keep_submissions_waits_and_bounds(trace: Trace, factor: float) -> None:
    scaled = edit.scale_load(trace, factor, by="run-time")
    before, after = joined(trace), joined(scaled)
    for name in ("submit", "start"):
        assert after[name].equals(before[name])
    assert (after["run_time"] <= after["requested_time"]).all()
    lengths = (after["end"] - after["start"]).to_list()
    assert lengths == pytest.approx(after["run_time"].to_list(), abs=1e-9)
    ends = scaled.usage["t"].to_list()
    assert ends == pytest.approx(scaled.placements["end"].to_list())
    assert scaled.usage["dt"].to_list() == pytest.approx(after["run_time"].to_list())


def test_scaled_usage_without_executions_begins_at_the_submission() -> None:
    scaled = edit.scale_load(fragments(), 2, by="run-time")
    assert scaled.usage["t"].to_list() == [60.0, 120.0, 90.0]
    assert check(scaled).ok
    assert check(scaled)["run-time-matches-usage"].broken == 0


@pytest.mark.parametrize(("factor", "by"), [(0, "arrivals"), (math.nan, "arrivals"), (2, "x")])
def test_an_impossible_factor_is_an_error(factor, by) -> None:
    with pytest.raises(InputError):
        edit.scale_load(log(), factor, by=by)


@few
@given(logs(), st.integers(0, 60), st.integers(0, 60))
def test_trimming_by_share_and_by_seconds_agree(trace: Trace, head: int, tail: int) -> None:
    submit = trace.tasks["submit"]
    span = submit.max() - submit.min()
    first, last = submit.min() + span * head / 100, submit.max() - span * tail / 100
    expected = [
        name
        for name, t in trace.tasks.select("id", "submit").rows()
        if t >= first and (t < last or span * tail == 0)
    ]
    if not expected:
        with pytest.raises(InputError, match="no task is left"):
            edit.trim(trace, warm_up=f"{head}%", cool_down=f"{tail}%")
        return
    part = edit.trim(trace, warm_up=f"{head}%", cool_down=f"{tail}%", rebase=False)
    assert names(part) == expected
    consistent(part)
    again = edit.trim(trace, warm_up=span * head / 100, cool_down=span * tail / 100)
    assert names(again) == expected


@pytest.mark.parametrize("length", [-1, math.nan, "-5%", "much", "%"])
def test_an_impossible_length_is_an_error(length) -> None:
    with pytest.raises(InputError, match="warm_up"):
        edit.trim(log(), warm_up=length)
    with pytest.raises(InputError, match="submission time"):
        edit.trim(Trace())


@few
@given(logs(), logs("b"), logs(), st.booleans())
def test_merging_keeps_all_rows(one: Trace, two: Trace, three: Trace, same: bool) -> None:
    merged = edit.merge([one, two, three], names=["x", "y", "z"], same_site=same)
    consistent(merged)
    assert merged.tasks["id"].n_unique() == merged.tasks.height
    total = rows(one) + rows(two) + rows(three)
    for table in ("tasks", "placements", "usage", "decisions", "task_files"):
        assert merged.tables[table].height == total[table]
    assert merged.nodes.height == (1 if same else 3)
    assert merged.tasks["run_time"].sum() == pytest.approx(
        sum(trace.tasks["run_time"].sum() for trace in (one, two, three))
    )
    parents = merged.tasks["parents"].explode().drop_nulls().len()
    assert parents == sum(
        trace.tasks["parents"].explode().drop_nulls().len() for trace in (one, two, three)
    )


def test_names_in_common_are_prefixed_everywhere_and_counted() -> None:
    merged = edit.merge([recorded(), recorded()], names=["x", "y"], same_site=False)
    assert sorted(merged.tasks["id"]) == ["x/a", "x/b", "x/c", "y/a", "y/b", "y/c"]
    assert set(merged.tasks["parents"].explode().drop_nulls()) == {"x/a", "y/a"}
    assert set(merged.placements["machine"]) == {"x/n1", "x/n2", "y/n1", "y/n2"}
    assert merged.decisions.select("subject", "target").rows() == [("x/a", "x/n1"), ("y/a", "y/n1")]
    assert set(merged.tasks["user"]) == {"x/u", "x/v", "y/u", "y/v"}
    counted = {note.what: note.count for note in merged.manifest.cleaned}
    assert counted["names of tasks that several logs have, prefixed"] == 6
    assert counted["names of nodes that several logs have, prefixed"] == 4
    assert {finding.rule for finding in check(merged).errors} == set()


def test_logs_are_aligned_by_their_epochs_if_all_are_known() -> None:
    one, two = log().with_manifest(epoch_ms=5_000), log().with_manifest(epoch_ms=3_500)
    merged = edit.merge([one, two])
    assert merged.manifest.epoch_ms == 3_500
    assert merged.tasks.select("id", "submit").rows() == [
        ("2/1", 0.0), ("1/1", 1.5), ("2/2", 10.0), ("2/3", 10.0), ("1/2", 11.5), ("1/3", 11.5)
    ]  # fmt: skip
    mixed = edit.merge([log(), two])
    assert mixed.manifest.epoch_ms is None
    assert mixed.tasks["submit"].to_list() == [0.0, 0.0, 10.0, 10.0, 10.0, 10.0]
    assert mixed.manifest.cleaned[0].kind == "assumed"


def test_lines_are_kept_only_where_they_are_of_one_file() -> None:
    halves = [edit.window(log(), None, 5), edit.window(log(), 5, None)]
    assert edit.merge(halves).tasks["line"].to_list() == [5, 6, 8]
    assert edit.merge([log(), recorded()]).tasks["line"].null_count() == 6


def test_cpu_seconds_of_different_cores_are_converted() -> None:
    other = fragments().with_manifest(reference_mhz=4200.0)
    merged = edit.merge([fragments(), other])
    assert merged.manifest.reference_mhz == 4200.0
    cpu = merged.usage["cpu"].to_list()
    assert cpu == [30.0, 3.0, 120.0, 60.0, 6.0, 240.0]
    with pytest.raises(InputError, match="reference_mhz"):
        edit.merge([fragments(), recorded()])


@pytest.mark.parametrize("same_site", [False, True])
def test_a_parent_that_is_missing_is_a_task_of_another_log_only_at_one_site(
    same_site: bool,
) -> None:
    later = Trace(tasks=pl.DataFrame({"id": ["2"], "submit": [5.0], "parents": [["1"]]}))
    earlier = Trace(tasks=pl.DataFrame({"id": ["1"], "submit": [0.0]}))
    merged = edit.merge([later, earlier], same_site=same_site).tasks
    parent = merged.filter(pl.col("parents").is_not_null())["parents"][0].item()
    assert (parent in merged["id"]) is same_site


def test_impossible_merges_are_errors() -> None:
    with pytest.raises(InputError, match="no trace to merge"):
        edit.merge([])
    with pytest.raises(InputError, match="names"):
        edit.merge([log(), log()], names=["x"])
    with pytest.raises(InputError, match="names"):
        edit.merge([log(), log()], names=["x", "x"])
    clash = change(log(), "tasks", 0, id="1/2")
    with pytest.raises(InputError, match="'1/2' is used already"):
        edit.merge([clash, log()])


def test_operations_are_recorded_one_after_the_other_and_survive_the_disk(tmp_path) -> None:
    trace = edit.trim(edit.select(log(), queues=["q", "r"]), warm_up="1%")
    trace = edit.scale_load(trace, 2)
    operations = [step.operation for step in trace.manifest.edits]
    assert operations == ["select", "trim", "scale_load"]
    assert Trace.load(trace.save(tmp_path / "log")) == trace
    merged = edit.merge([trace, log()])
    steps = merged.manifest.edits[0].parameters["edits"]
    assert [[step["operation"] for step in part] for part in steps] == [operations, []]
    assert Trace.load(merged.save(tmp_path / "merged")) == merged
