"""Workloads: the tasks of a log that can run, conversions and checks."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop
from twinloop.description.errors import InputError, TwinloopError
from twinloop.engine import simulate
from twinloop.scenario import Scenario
from twinloop.trace.formats import opendc as opendc_reader
from twinloop.trace.formats.swf import read
from twinloop.trace.trace import Trace
from twinloop.workload import COLUMNS, Workload
from twinloop.workload.fragments import Fragments, find_rows


def log(**columns):
    count = len(next(iter(columns.values())))
    ids = [str(i + 1) for i in range(count)]
    defaults = {"id": ids, "submit": [0.0] * count, "requested_cores": [1.0] * count}
    return Trace(tasks=pl.DataFrame(defaults | {"run_time": [1.0] * count} | columns))


def described(**columns):
    count = len(next(iter(columns.values())))
    one = [1.0] * count
    defaults = {"id": [str(i) for i in range(count)], "submit": [0.0] * count}
    return Workload(
        tasks=pl.DataFrame(defaults | {"cores": one, "work": one, "limit": one} | columns)
    )


def test_a_log_without_usage_runs_on_all_its_cores():
    workload = Workload.from_trace(log(requested_cores=[8.0, 1.0], run_time=[10.0, 0.0]))
    assert workload.tasks.select("work", "limit", "requested_time").rows() == [
        (80.0, 8.0, 10.0),
        (0.0, 1.0, 0.0),
    ]
    assert workload.injected == ("run times", "requested times")


def test_processors_are_the_requested_ones_else_the_allocated_ones():
    trace = log(requested_cores=[4.0, None, 0.0, None]).replace(
        placements=pl.DataFrame({"task": ["1", "2", "3", "4"], "cores": [2.0, 2.0, 3.0, None]})
    )
    workload = Workload.from_trace(trace)
    assert workload.tasks.select("id", "cores").rows() == [("1", 4.0), ("2", 2.0), ("3", 3.0)]
    (note,) = [n for n in workload.cleaned if n.kind == "skipped"]
    assert str(note) == "skipped 1: tasks that cannot be run: no positive number of cores (4)"


def test_tasks_without_a_run_time_cannot_be_run_but_failed_and_empty_ones_can():
    trace = log(run_time=[None, -1.0, 0.0, 5.0], status=["completed"] * 3 + ["failed"])
    workload = Workload.from_trace(trace)
    assert workload.tasks["id"].to_list() == ["3", "4"]
    (note,) = [n for n in workload.cleaned if n.kind == "skipped"]
    assert (note.count, note.examples) == (2, ("1", "2"))


@pytest.mark.parametrize("kind", ["recorded", None])
def test_incomplete_tasks_of_a_recorded_run_are_reported(kind):
    ends = ["completed", "failed", "killed", "cancelled", "lost", None, "failed"]
    trace = log(status=ends, run_time=[1.0] * 6 + [None])
    if kind is not None:
        trace = trace.with_manifest(kind=kind)
    workload = Workload.from_trace(trace)
    assert workload.tasks["run_time"].to_list() == [1.0] * 6
    what = "tasks that did not complete: they are replayed with their run time"
    found = [(n.count, n.examples) for n in workload.cleaned if n.what == what]
    assert found == ([(4, ("2", "3", "4"))] if kind else [])


def test_a_requested_time_stays_and_a_missing_one_is_the_run_time():
    workload = Workload.from_trace(log(requested_time=[100.0, None], run_time=[3.0, 4.0]))
    assert workload.tasks["requested_time"].to_list() == [100.0, 4.0]
    (note,) = [n for n in workload.cleaned if n.kind == "assumed"]
    assert note.count == 1


def test_tasks_without_a_number_of_cores_get_one_core():
    workload = Workload.from_trace(log(requested_cores=[None, None], run_time=[3.0, 4.0]))
    assert workload.tasks["work"].to_list() == [3.0, 4.0]
    assert any("one core" in note.what and note.count == 2 for note in workload.cleaned)


def test_the_last_attempt_counts():
    trace = log(run_time=[None]).replace(
        placements=pl.DataFrame(
            {"task": ["1", "1"], "attempt": [0, 1], "start": [0.0, 50.0], "end": [40.0, 53.0]}
        )
    )
    assert Workload.from_trace(trace).tasks.select("run_time", "end_recorded").rows() == [
        (3.0, 53.0)
    ]


def test_a_dependency_on_a_missing_task_is_removed():
    trace = log(run_time=[None, 1.0, 1.0], parents=[None, ["1"], ["1", "2"]])
    workload = Workload.from_trace(trace)
    assert workload.tasks["parents"].to_list() == [None, ["2"]]
    (note,) = [n for n in workload.cleaned if n.kind == "ignored"]
    assert (note.count, note.examples) == (2, ("2", "3"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a", "a"]}, "such as 'a' (give each task an id of its own"),
        ({"submit": [0.0, None]}, "task '1': submit: is missing"),
        ({"submit": [0.0, float("inf")]}, "task '1': submit: inf is not a finite"),
        ({"work": [1.0, -1.0]}, "task '1': work: -1.0 is not a finite, non-negative number"),
        ({"cores": [float("nan"), 1.0]}, "task '0': cores: nan is not"),
    ],
)
def test_an_invalid_workload_is_refused_with_its_place(columns, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        described(**columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"work": [1.0, None]}, "work: is unknown for 1 tasks, such as '1'"),
        ({"limit": [1.0, 0.0]}, "limit: is 0 for task '1', so it never ends"),
        ({"parents": [["x"], None]}, "task '0': parents: 'x' is not a task"),
        ({"parents": [["0"], None]}, "cycle: '0' -> '0'"),
        ({"parents": [["1"], ["0"]]}, "cycle: '1' -> '0' -> '1'"),
    ],
)
def test_a_workload_that_cannot_run_is_refused(columns, message):
    with pytest.raises(InputError, match=message):
        described(**columns).to_arrays()


@pytest.mark.parametrize("field", ["duration", "rate"])
def test_invalid_fragments_are_refused(field):
    pieces = {"task": ["a", "a"], "duration": [1.0, 1.0], "rate": [1.0, 1.0]}
    tasks = pl.DataFrame({"id": ["a"], "submit": [0.0]})
    for wrong in (-1.0, float("nan"), float("inf"), None):
        with pytest.raises(InputError, match=f"fragment of task 'a': {field}"):
            Workload(tasks=tasks, fragments=pl.DataFrame(pieces | {field: [1.0, wrong]}))


def test_returned_tables_cannot_change_the_workload():
    pieces = pl.DataFrame({"task": ["a"], "duration": [1.0], "rate": [1.0]})
    tasks = pl.DataFrame({"id": ["a"], "submit": [0.0], "user": ["ann"]})
    workload = Workload(tasks=tasks, fragments=pieces)
    workload.tasks.drop_in_place("user")
    assert workload.tasks["user"].to_list() == ["ann"]
    with pytest.raises(ValueError, match="read-only"):
        workload.fragment_arrays.rates[0] = 3.0


def test_the_page_describes_every_column():
    page = (Path(__file__).resolve().parents[2] / "docs/workload.md").read_text(encoding="utf-8")
    for table in ("tasks", "fragments"):
        for name, column in COLUMNS[table].items():
            kind = str(column.dtype).partition("(")[0]
            assert f"| `{name}` | {kind} | {column.unit} | {column.meaning} |" in page


names = st.sampled_from(["a", "b", "c", "d", "e"])


@st.composite
def workloads(draw):
    ids = draw(st.lists(names, unique=True, min_size=1))
    pieces = draw(
        st.lists(st.tuples(st.sampled_from(ids), st.floats(0.001, 100), st.floats(0, 16)))
    )
    recorded = draw(st.booleans())
    full = draw(st.sampled_from([None, "cores", "cores * speed"]))
    tasks = [
        {
            "id": name,
            "submit": draw(st.floats(0, 1000)),
            "cores": draw(st.floats(0.5, 16)),
            "work": draw(st.just(0.0) | st.floats(1e-9, 100)),
            "limit": draw(st.floats(0.1, 16)),
            "speed": draw(st.sampled_from([None, 0.5, 1.0, 2.0])),
            "run_time": draw(st.floats(0, 100)) if recorded else None,
            "user": draw(st.sampled_from([None, "ann", "bob"])),
            "parents": draw(st.lists(st.sampled_from(ids[:i]), unique=True)) if i else [],
            "resources": draw(
                st.lists(
                    st.fixed_dictionaries(
                        {"name": st.sampled_from(["gpu", "tape"]), "amount": st.floats(0, 4)}
                    ),
                    max_size=2,
                )
            ),
        }
        for i, name in enumerate(ids)
    ]
    for task in tasks if full else []:
        task["limit"] = task["cores"] * (1.0 if full == "cores" else task["speed"] or 1.0)
    return Workload(
        tasks=pl.DataFrame(
            tasks,
            schema_overrides={
                "user": pl.String,
                "parents": pl.List(pl.String),
                "speed": pl.Float64,
                "run_time": pl.Float64,
            },
        ),
        fragments=pl.DataFrame(pieces, schema=["task", "duration", "rate"], orient="row")
        if pieces
        else None,
    )


@given(workloads())
def test_arrays_agree_with_the_tables(workload):
    arrays = workload.to_arrays()
    ids = arrays.ids.to_list()
    for row, task in enumerate(workload.tasks.iter_rows(named=True)):
        first, end = arrays.parent_offsets[row : row + 2]
        assert [ids[p] for p in arrays.parents[first:end]] == task["parents"]
        first, end = arrays.fragment_offsets[row : row + 2]
        mine = workload.fragments.filter(pl.col("task") == task["id"])
        assert arrays.fragment_duration[first:end].tolist() == mine["duration"].to_list()
        assert arrays.fragment_rate[first:end].tolist() == mine["rate"].to_list()
        code = arrays.user.codes[row]
        assert (None if code < 0 else arrays.user.names[code]) == task["user"]
        for place, resource in enumerate(arrays.resources):
            total = sum(r["amount"] for r in task["resources"] if r["name"] == resource)
            assert arrays.amounts[place, row] == pytest.approx(total)
        if mine.height:
            work = float(np.dot(mine["duration"], mine["rate"]))
            assert arrays.work[row] == pytest.approx(work)
            assert arrays.requested_time[row] == pytest.approx(mine["duration"].sum())
        else:
            assert arrays.work[row] == task["work"]


@given(workloads())
def test_a_workload_survives_the_conversion_to_a_trace(workload):
    again = Workload.from_trace(workload.to_trace())
    one, two = workload.to_arrays(), again.to_arrays()
    assert two.ids.to_list() == one.ids.to_list()
    for field in ("submit", "cores", "parents", "parent_offsets"):
        assert getattr(two, field).tolist() == getattr(one, field).tolist()
    for field in ("work", "requested_time"):
        assert getattr(two, field) == pytest.approx(getattr(one, field), rel=1e-9, abs=1e-12)
    runs = one.work > 0
    assert two.limit[runs] == pytest.approx(one.limit[runs], rel=1e-9)


def through_a_trace(workload: Workload) -> list[tuple[float, float]]:
    return Workload.from_trace(workload.to_trace()).tasks.select("work", "limit").rows()


def test_the_demand_of_faster_and_slower_cores_survives_and_their_speed_is_counted():
    fast = {"id": "a", "submit": 0.0, "cores": 1.0, "work": 60.0, "limit": 2.0, "speed": 2.0}
    workload = Workload(tasks=pl.DataFrame([fast]))
    assert through_a_trace(workload) == [(60.0, 2.0)]
    (lost,) = workload.to_trace().manifest.cleaned
    assert (lost.kind, lost.count, lost.examples) == ("ignored", 1, ("a",))
    assert "speeds" in lost.what
    record = Trace(
        tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 0.0], "requested_cores": [1.0, 1.0]}),
        placements=pl.DataFrame(
            {"task": ["a", "b"], "machine": ["m", "n"], "start": [0.0, 0.0], "end": [10.0, 10.0]}
        ),
        nodes=pl.DataFrame({"node": ["m", "n"], "mhz": [1000.0, 2000.0]}),
    )
    workload = Workload.from_trace(record)
    assert workload.tasks["work"].to_list() == [5.0, 10.0]
    assert through_a_trace(workload) == [(5.0, 0.5), (10.0, 1.0)]
    lost = workload.to_trace().manifest.cleaned[-2:]
    assert [note.count for note in lost] == [1, 2]  # speeds other than 1; ends in the record


def test_work_counts_and_not_the_run_time_of_a_record():
    tasks = {"id": ["a"], "submit": [0.0], "cores": [1.0], "work": [60.0], "limit": [1.0]}
    workload = Workload(tasks=pl.DataFrame({**tasks, "run_time": [50.0]}))
    assert through_a_trace(workload) == [(60.0, 1.0)]
    idle = Workload(tasks=pl.DataFrame({**tasks, "work": [0.0], "run_time": [50.0]}))
    assert [work for work, _ in through_a_trace(idle)] == [0.0]
    (lost,) = idle.to_trace().manifest.cleaned
    assert (lost.what, lost.count) == ("run times of tasks without work", 1)


@pytest.mark.realdata
def test_kth_has_its_published_number_of_jobs(real_data):
    workload = Workload.from_trace(read(real_data / "swf/KTH-SP2-1996-2.1-cln.swf.gz"))
    assert len(workload) == 28_475
    assert workload.tasks["user"].n_unique() == 214


@pytest.mark.realdata
def test_surf_has_its_published_numbers(real_data):
    trace = opendc_reader.read(real_data / "surf")
    workload = Workload.from_trace(trace)
    assert repr(workload) == "<Workload of 7,850 tasks, 6,295 of them in 2,323,475 fragments>"
    (made,) = [n for n in workload.cleaned if n.kind == "invented"]
    assert made.count == 1_555
    assert "303 of them of zero length" in made.what
    (differ,) = [n for n in workload.cleaned if "which are used" in n.what]
    assert differ.count == 6_295 - 101
    assert int((workload.tasks["cores"] > 16).sum()) == 9
    arrays = workload.to_arrays()
    fragments = pl.read_parquet(real_data / "surf/fragments.parquet")
    mhz_seconds = float((fragments["duration"] / 1000 * fragments["cpu_usage"]).sum())
    work = float(arrays.fragment_duration @ arrays.fragment_rate) * workload.reference_mhz
    assert work == pytest.approx(mhz_seconds, rel=1e-12)
    assert len(Workload.from_trace(trace, missing="drop")) == 6_295
    with pytest.raises(InputError, match="1555 tasks"):
        Workload.from_trace(trace, missing="leave").to_arrays()


def test_duplicate_ids_are_an_error_also_with_usage():
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a", "a"], "submit": [0.0, 1.0]}),
        usage=pl.DataFrame({"task": ["a"] * 2, "t": [1.0, 2.0], "dt": [1.0] * 2, "cpu": [1.0] * 2}),
    )
    with pytest.raises(InputError, match="'a' occurs more than once"):
        Workload.from_trace(trace)


def test_the_error_of_a_duplicate_id_names_the_file_and_the_line(tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text("id,submit,cores,run_time\na,0,1,5\nb,0,1,5\na,1,1,5\n")
    with pytest.raises(InputError, match=r"jobs\.csv:4: tasks\.id: 'a' occurs more than once"):
        Workload.from_trace(twinloop.read(log))


def test_a_wrong_type_is_an_error_with_a_remedy():
    with pytest.raises(TwinloopError, match=r"twinloop\.read"):
        Workload.from_trace("log.swf")  # type: ignore[arg-type]


def demands(workload):
    """The demand of each task, by id."""
    rows = workload.tasks.select("id", "work", "limit").rows()
    pieces = {name: [] for name, *_ in rows}
    for name, duration, rate in workload.fragments.iter_rows():
        pieces[name].append((duration, rate))
    files = {name: [] for name, *_ in rows}
    for name, file, access in workload.task_files.iter_rows():
        files[name].append((file, access))
    lengths = dict(zip((name for name, *_ in rows), workload.durations().tolist(), strict=True))
    return {
        name: (work, limit, pieces[name], files[name], lengths[name]) for name, work, limit in rows
    }


@given(workloads(), st.data())
def test_tasks_that_are_reordered_or_left_out_keep_their_demand(workload, data):
    ids = workload.tasks["id"].to_list()
    files = pl.DataFrame({"task": ids, "file": ids, "access": ["read"] * len(ids)})
    workload = Workload(
        tasks=workload.tasks, fragments=workload.fragments, task_files=files, reference_mhz=2000.0
    )
    order = data.draw(st.permutations(range(len(ids))))
    kept = order[: data.draw(st.integers(0, len(ids)))]
    changed = workload.replace(tasks=workload.tasks[kept])
    assert changed.tasks["id"].to_list() == [ids[row] for row in kept]
    before = demands(workload)
    assert demands(changed) == {ids[row]: before[ids[row]] for row in kept}
    assert changed.replace(tasks=changed.tasks) == changed


pieces = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), max_size=3)


@given(st.lists(st.tuples(pieces, st.integers(1, 9)), min_size=2, max_size=5), st.data())
def test_the_order_of_the_tasks_changes_no_simulated_task(described, data):
    ids = [f"t{row}" for row in range(len(described))]
    tasks = {"id": ids, "submit": range(len(ids)), "cores": [4.0] * len(ids)}
    constant = {"work": [work for _, work in described], "limit": [2.0] * len(ids)}
    rows = [(name, *each) for name, (mine, _) in zip(ids, described, strict=True) for each in mine]
    workload = Workload(
        tasks=pl.DataFrame({**tasks, **constant}),
        fragments=pl.DataFrame(rows, schema=["task", "duration", "rate"], orient="row")
        if rows
        else None,
    )
    shuffled = workload.tasks[data.draw(st.permutations(range(len(ids))))]
    runs = [
        simulate(Scenario(platform="1x8", policy="fcfs", workload=each))
        for each in (workload, workload.replace(tasks=shuffled))
    ]
    for table, key in (("tasks", "id"), ("placements", "task")):
        one, two = (run.tables[table].sort(key) for run in runs)
        assert one.rows() == two.rows()


def test_a_task_with_a_new_id_has_the_demand_of_its_row():
    workload = Workload(
        tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0], "cores": [4.0, 1.0]}),
        fragments=pl.DataFrame(
            {"task": ["a", "b", "b"], "duration": [1.0, 2.0, 3.0], "rate": [1.0, 2.0, 4.0]}
        ),
    )
    new = {"id": ["b", "c"], "submit": [5.0, 6.0], "cores": [1.0, 1.0], "work": [None, 7.0]}
    changed = workload.replace(tasks=pl.DataFrame({**new, "limit": [None, 1.0]}))
    assert demands(changed) == {
        "b": (16.0, 4.0, [(2.0, 2.0), (3.0, 4.0)], [], 5.0),
        "c": (7.0, 1.0, [], [], 7.0),
    }
    unknown = workload.replace(tasks=pl.DataFrame({**new, "work": [None, None]}))
    with pytest.raises(InputError, match="work: is unknown for 1 tasks, such as 'c'"):
        unknown.to_arrays()


@pytest.mark.parametrize("field", ["work", "limit"])
def test_work_that_differs_from_the_fragments_is_an_error(field):
    workload = Workload(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "cores": [4.0]}),
        fragments=pl.DataFrame({"task": ["a"], "duration": [3.0], "rate": [2.0]}),
    )
    doubled = workload.tasks.with_columns(pl.col(field) * 2)
    with pytest.raises(InputError, match=f"task 'a': {field}: .* its fragments"):
        workload.replace(tasks=doubled)


def test_fragments_of_unknown_rows_are_an_error():
    tasks = pl.DataFrame({"id": ["a"], "submit": [0.0]})
    with pytest.raises(InputError, match=r"fragments: .* row 1, .* 1 task"):
        Workload(tasks=tasks, fragments=Fragments.from_rows([0, 1], [1.0, 1.0], [1.0, 1.0]))


NAMES = st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=6)


@given(NAMES, NAMES, st.booleans())
def test_a_name_is_found_in_the_first_row_that_has_it(ids, names, equal):
    names = list(ids) if equal else names
    expected = [-1 if name is None or name not in ids else ids.index(name) for name in names]
    found = find_rows(pl.Series(ids, dtype=pl.String), pl.Series(names, dtype=pl.String))
    assert found.tolist() == expected
