"""Laws of tasks with files: whole files, bounded bandwidths, executions that contain the copies."""

import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.cli.test_commands import run as twinloop
from tests.execution.runs import Launch, launch, read_output, statuses
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario
from twinloop.execution import execute
from twinloop.execution.staging import plan_files

__all__ = ["launch"]

MB = 10**6
#: The bandwidths of the store below (bytes per second).
READ, WRITE = 40 * MB, 20 * MB
#: Writes each output with its size, from zero bytes: arguments NAME=BYTES.
FILL = 'for each; do head -c "${{each#*=}}" /dev/zero > "${{each%=*}}"; done'


def fill(**sizes: int) -> list[str]:
    return ["sh", "-c", FILL, "sh", *(f"{name}={size}" for name, size in sizes.items())]


def scenario(tasks: list[dict[str, Any]], files: dict[str, Any], **more: Any) -> tl.Scenario:
    store = {"name": "disk", "read": READ, "write": WRITE, **more.pop("store", {})}
    described = [
        {"name": name, **(value if isinstance(value, dict) else {"size": value})}
        for name, value in files.items()
    ]
    return tl.Scenario(
        **{  # type: ignore[arg-type]
            "platform": {"clusters": [{"hosts": [{"count": 2, "cores": 1}]}], "stores": [store]},
            "workload": {"files": described, "tasks": [{"run_time": 0.1, **t} for t in tasks]},
            "policy": "fcfs",
            **more,
        }
    )


def run(given: tl.Scenario, folder: Path, **options: Any) -> tl.Trace:
    return execute(given, folder, announce=lambda _: None, **options)


def names_in(store: Path) -> set[str]:
    """The files in a folder, by their paths in it."""
    return {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()}


def reasons(trace: tl.Trace) -> str:
    return "\n".join(map(str, trace.manifest.cleaned))


# --- a workflow -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks that read the same file at once, and one that reads what they have written."""
    folder = tmp_path_factory.mktemp("workflow")
    (folder / "words").write_bytes(b"one\ntwo\n")
    head = ["sh", "-c", 'head -c 1000000 "$1" > "$2"; pwd; ls', "sh", "{reads}", "{writes}"]
    join = ["sh", "-c", 'cat "$1" "$2" "$3" > "$4"', "sh", "{reads}", "{writes}"]
    given = scenario(
        [
            {"id": "a", "command": head, "reads": ["in"], "writes": ["parts/a"]},
            {"id": "b", "command": head, "reads": ["in"], "writes": ["parts/b"]},
            {"id": "c", "command": join, "reads": ["parts/a", "parts/b", "words"],
             "writes": ["out"], "parents": ["a", "b"]},
        ],
        {"in": 4 * MB, "parts/a": MB, "parts/b": MB, "out": 2 * MB,
         "words": {"size": 3, "path": str(folder / "words")}},
    )  # fmt: skip
    run(given, folder / "run")
    return folder / "run"


@pytest.mark.real
def test_files_go_through_the_store_unchanged(workflow: Path) -> None:
    store = workflow / "stores" / "disk"
    assert names_in(store) == {"in", "parts/a", "parts/b", "out", "words"}
    first = (store / "in").read_bytes()[:MB]
    assert (store / "out").read_bytes() == 2 * first + b"one\ntwo\n"
    # Each execution had a folder of its own with its files, which is gone.
    folders = {task: read_output(workflow, task).split() for task in ("a", "b")}
    assert [folders[task][1:] for task in folders] == [["in", "parts"]] * 2
    assert folders["a"][0] != folders["b"][0]
    assert not Path(folders["a"][0]).exists()
    assert not (workflow / "recording").exists()


@pytest.mark.real
def test_the_trace_has_the_transfers_and_real_sizes(workflow: Path) -> None:
    trace = tl.read(workflow)
    assert set(statuses(trace).values()) == {"completed"}
    nodes = dict(trace.placements.select("task", "machine").iter_rows())
    rows = trace.transfers.select("kind", "subject", "file", "from", "to", "bytes", "reason")
    expected = [
        *(("stage-in", task, "in", "disk", nodes[task], 4 * MB) for task in "ab"),
        *(("stage-out", task, f"parts/{task}", nodes[task], "disk", MB) for task in "ab"),
        *(("stage-in", "c", f"parts/{task}", "disk", nodes["c"], MB) for task in "ab"),
        ("stage-in", "c", "words", "disk", nodes["c"], 8),
        ("stage-out", "c", "out", nodes["c"], "disk", 2 * MB + 8),
    ]
    assert sorted(rows.rows()) == sorted((*row, "completed") for row in expected)
    sizes = dict(trace.files.select("file", "size").iter_rows())
    assert sizes == {"in": 4 * MB, "parts/a": MB, "parts/b": MB, "out": 2 * MB + 8, "words": 8}
    assert "out: 2,000,008 bytes, declared 2,000,000" in reasons(trace)
    assert trace.manifest.facts["files"]["created"] == {"files": 1, "bytes": 4 * MB}
    assert trace.manifest.facts["files"]["copied"] == {"files": 1, "bytes": 8}
    assert trace.manifest.facts["staging"]["bytes"] == rows["bytes"].sum()
    assert twinloop("check", str(workflow)).exit_code == 0


@pytest.mark.real
def test_an_execution_contains_its_copies_one_after_the_other(workflow: Path) -> None:
    trace = tl.read(workflow)
    for task, start, end in trace.placements.select("task", "start", "end").iter_rows():
        own = trace.transfers.filter(subject=task)
        times = [start, *own.select("start", "end").to_numpy().ravel().tolist(), end]
        assert times == sorted(times)
        # The samples cover the execution, and only the command uses CPU time.
        samples = trace.usage.filter(task=task)
        assert samples["dt"].sum() == pytest.approx(end - start)
        used = samples.filter(pl.col("cpu") > 0)
        assert (used["t"] - used["dt"]).min() >= own.filter(kind="stage-in")["end"].max()
        assert used["t"].max() <= own.filter(kind="stage-out")["start"].min()


@pytest.mark.real
def test_a_replay_transfers_the_files_again_and_has_the_commands_alone(workflow: Path) -> None:
    trace = tl.read(workflow)
    twin = tl.simulate(tl.replay_scenario(trace))
    moved = trace.transfers.group_by("subject").agg((pl.col("end") - pl.col("start")).sum())
    lengths = trace.placements.join(moved, left_on="task", right_on="subject")
    commands = lengths.select(pl.col("end") - pl.col("start") - pl.col("end_right")).to_series()
    work = tl.Workload.from_trace(trace)
    durations = dict(zip(work.tasks["id"], work.durations().tolist(), strict=True))
    assert durations == pytest.approx(dict(zip(lengths["task"], commands, strict=True)), abs=1e-6)
    assert twin.transfers["bytes"].sum() == trace.transfers["bytes"].sum()
    assert "file sizes" in twin.manifest.facts["injected"]


@pytest.mark.real
def test_a_bandwidth_is_never_exceeded(workflow: Path) -> None:
    moved = tl.read(workflow).transfers
    for kind, bandwidth in (("stage-in", READ), ("stage-out", WRITE)):
        own = moved.filter(kind=kind)
        assert (own["bytes"] <= bandwidth * (own["end"] - own["start"])).all()
        # Of all copies in a period, whatever they overlap.
        for start in own["start"]:
            for end in own["end"].filter(own["end"] > start):
                inside = own.filter((pl.col("start") >= start) & (pl.col("end") <= end))
                assert inside["bytes"].sum() <= bandwidth * (end - start)


# --- what exists at the start ---------------------------------------------------------------------


@pytest.mark.real
def test_the_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    given = scenario([{"id": "a", "command": ["true"], "reads": ["x", "y"]}], {"x": MB, "y": MB})
    contents = []
    for number, seed in enumerate((1, 1, 2)):
        run(given.replace(seed=seed), tmp_path / str(number))
        store = tmp_path / str(number) / "stores" / "disk"
        contents.append([(store / name).read_bytes() for name in "xy"])
    assert contents[0] == contents[1]
    assert len({content for made in contents for content in made}) == 4


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"x": {"size": 1, "path": "nowhere"}}, "nowhere: workload.files: cannot be read"),
        ({"../x": 1}, "'../x' is not the name of a file in the working folder"),
        ({"x": "4000000 TB"}, "the files of the tasks need 4,000,000,000,000,000,000 bytes"),
    ],
)
@pytest.mark.real
def test_files_that_cannot_be_made_are_an_error_before_anything_runs(
    files: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    given = scenario([{"id": "a", "command": ["true"], "reads": list(files)}], files, store={})
    with pytest.raises(InputError) as caught:
        run(given, tmp_path / "run")
    assert problem in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_file_with_a_path_is_not_written_by_a_task() -> None:
    given = scenario(
        [{"id": "a", "command": ["true"], "writes": ["x"]}], {"x": {"size": 1, "path": "y"}}
    )
    with pytest.raises(InputError, match="'x' has a path, and a task writes it"):
        plan_files(CompiledScenario(given))


def test_space_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2))
    given = scenario([{"id": "a", "command": ["true"], "reads": ["x"]}], {"x": 3})
    plan = plan_files(CompiledScenario(given))
    assert plan is not None
    with pytest.raises(InputError, match="need 3 bytes, and 2 are free"):
        plan.with_paths_checked(tmp_path / "not" / "there")


def test_initial_files_are_announced_before_anything_is_made(tmp_path: Path) -> None:
    given = scenario([{"id": "a", "command": ["true"], "reads": ["x"]}], {"x": 3 * MB})
    file = given.save(tmp_path / "s.yaml")
    shown = twinloop("execute", str(file), "--dry-run").stdout
    assert "# first: create 1 file, 3,000,000 bytes, pseudo-random bytes" in shown


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.real
def test_a_task_whose_files_are_not_there_fails_alone(tmp_path: Path) -> None:
    given = scenario(
        [
            {"id": "silent", "command": ["true"], "writes": ["x", "y"]},
            {"id": "child", "command": ["true"], "reads": ["x"], "parents": ["silent"]},
            {"id": "early", "command": ["true"], "reads": ["x"]},
            {"id": "exit", "command": ["sh", "-c", "echo > z; exit 3"], "writes": ["z"]},
            {"id": "large", "command": fill(big=30_000), "writes": ["big"]},
            {"id": "none", "command": ["/no/such"], "reads": ["in"], "writes": ["never"]},
            {"id": "good", "command": fill(ok=10), "writes": ["ok"]},
        ],
        {"x": 10, "y": 10, "z": 10, "big": 10, "never": 10, "in": 10, "ok": 10},
        store={"capacity": 20_000},
    )
    trace = run(given, tmp_path / "run")
    failed = dict.fromkeys(("silent", "child", "early", "exit", "large", "none"), "failed")
    assert statuses(trace) == failed | {"good": "completed"}
    assert names_in(tmp_path / "run" / "stores" / "disk") == {"in", "ok"}
    said = reasons(trace)
    assert "its command did not write its outputs: 'x', 'y' (silent)" in said
    assert "it reads 'x', which has not been written yet" in said
    assert "its output 'big' of 30,000 bytes does not fit" in said
    assert "ended with exit code 3 (exit)" in said
    assert "could not be started: /no/such: No such file or directory (none)" in said
    ended = dict(trace.placements.select("task", "reason").iter_rows())
    assert ended == {name: status for name, status in statuses(trace).items() if name != "child"}
    assert twinloop("check", str(tmp_path / "run")).exit_code == 0


@pytest.mark.long
@pytest.mark.real
@pytest.mark.parametrize("phase", ["stage-in", "stage-out"])
def test_a_time_limit_ends_copies(phase: str, tmp_path: Path) -> None:
    files = {"reads": ["in"]} if phase == "stage-in" else {"writes": ["out"]}
    given = scenario(
        [{"id": "a", "command": fill(**({"out": 2 * MB} if "writes" in files else {})), **files}],
        {"in": 2 * MB, "out": 2 * MB},
        store={"read": 2 * MB, "write": 2 * MB},
    )
    trace = run(given, tmp_path / "run", task_limit=0.7)
    assert statuses(trace) == {"a": "killed"}
    (row,) = trace.transfers.rows(named=True)
    assert (row["kind"], row["reason"]) == (phase, "cancelled")
    assert 0 < row["bytes"] < 2 * MB
    assert trace.placements["end"][0] >= row["end"]
    assert names_in(tmp_path / "run" / "stores" / "disk") == {"in"} & set(files.get("reads", []))
    assert "exceeded their time limit (a)" in reasons(trace)


@pytest.mark.long
@pytest.mark.real
def test_a_task_reads_again_after_its_node_has_failed(tmp_path: Path) -> None:
    outages = tmp_path / "outages.csv"
    outages.write_text("node,start,end\nC01-H01-001,0.2,60\n")
    given = scenario(
        [{"id": "a", "command": ["ls"], "reads": ["in"]}],
        {"in": 4 * MB},
        store={"read": 8 * MB},
        failures={"trace": str(outages)},
    )
    trace = run(given, tmp_path / "run")
    assert statuses(trace) == {"a": "completed"}
    assert trace.placements.select("machine", "reason").rows() == [
        ("C01-H01-001", "failed"), ("C01-H01-002", "completed")
    ]  # fmt: skip
    assert trace.transfers["reason"].to_list() == ["cancelled", "completed"]
    assert trace.transfers["bytes"][1] == 4 * MB


@pytest.mark.long
@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_whole_files_alone(
    number: signal.Signals, launch: Launch
) -> None:
    given = scenario(
        [
            {"id": "a", "command": fill(first=1000, second=MB), "writes": ["first", "second"]},
            {"id": "b", "command": ["true"], "reads": ["in"]},
        ],
        {"in": MB, "first": 1000, "second": MB},
        store={"read": MB // 50, "write": MB // 10},
    )
    started = launch(given)
    store = started.folder / "stores" / "disk"
    # The second output is being written, and the input of the other task is being read.
    started.until((store / "first").exists)
    partial = started.folder / "recording" / "partial"
    started.until(lambda: any(path.stat().st_size for path in partial.iterdir()))
    started.kill(number)
    started.ends(130 if number == signal.SIGINT else -number)
    assert names_in(store) == {"in", "first"}
    trace = tl.read(started.folder)
    status = "cancelled" if number == signal.SIGINT else "lost"
    assert statuses(trace) == {"a": status, "b": status}
    assert set(trace.placements["reason"]) == {status}
    # Nothing of the killed run prevents the next one from replacing it.
    assert (started.folder / "recording").exists() == (number == signal.SIGKILL)
    again = scenario([{"id": "a", "command": ["true"], "reads": ["in"]}], {"in": 10})
    run(again, started.folder, overwrite=True)
    assert names_in(started.folder / "stores" / "disk") == {"in"}


# --- stores of hosts, streams, calibration --------------------------------------------------------


@pytest.mark.real
def test_local_files_are_read_from_the_host_that_wrote_them(tmp_path: Path) -> None:
    host = {"names": ["one", "two"], "count": 2, "cores": 1, "ports": "20 MB/s", "store": {}}
    given = scenario(
        [
            {"id": "make", "command": fill(mesh=2 * MB), "writes": ["mesh"]},
            {"id": "here", "command": ["sleep", 0.2], "reads": ["mesh"], "parents": ["make"]},
            {"id": "there", "command": ["true"], "reads": ["mesh"], "parents": ["make"]},
        ],
        {"mesh": {"size": 2 * MB, "store": "local"}},
        platform={"clusters": [{"hosts": [host]}]},
    )
    trace = run(given, tmp_path / "run")
    assert set(statuses(trace).values()) == {"completed"}
    assert names_in(tmp_path / "run" / "stores") == {"one/mesh"}
    rows = trace.transfers.sort("subject").select("subject", "from", "to").rows()
    assert rows == [("here", "one", "one"), ("make", "one", "one"), ("there", "one", "two")]
    # Only the copy to the other host passes the ports.
    far = trace.transfers.filter(subject="there")
    assert (far["end"] - far["start"])[0] >= 2 * MB / 20e6


@pytest.mark.real
def test_a_task_on_two_nodes_copies_its_files_once(tmp_path: Path) -> None:
    wide = {"nodes": 2, "cores": 2, "reads": ["in"]}
    given = scenario(
        [
            {"id": "a", "command": ["sh", "-c", "cat in > out$TWINLOOP_RANK"],
             "writes": ["out0", "out1"], **wide},
            # One of its parts fails, so that nothing is copied.
            {"id": "b", "command": ["sh", "-c", "cat in > never; exit $TWINLOOP_RANK"],
             "writes": ["never"], **wide},
        ],
        {"in": 1000, "out0": 1000, "out1": 1000, "never": 1000},
    )  # fmt: skip
    trace = run(given, tmp_path / "run")
    assert statuses(trace) == {"a": "completed", "b": "failed"}
    assert names_in(tmp_path / "run" / "stores" / "disk") == {"in", "out0", "out1"}
    moved = trace.transfers.select("subject", "file").rows()
    assert sorted(moved) == [("a", "in"), ("a", "out0"), ("a", "out1"), ("b", "in")]
    assert trace.placements["reason"].to_list() == ["completed"] * 2 + ["failed"] * 2
    (first,) = trace.placements.filter(task="a").group_by("task").agg("machine")["machine"]
    assert set(trace.transfers.filter(kind="stage-in")["to"]) == {first[0]}


@pytest.mark.real
def test_one_stream_serves_one_copy_at_a_time(tmp_path: Path) -> None:
    tasks = [{"id": name, "command": ["true"], "reads": ["x", "y"]} for name in "ab"]
    given = scenario(tasks, {"x": MB, "y": MB}, store={"streams": 1})
    moved = run(given, tmp_path / "run").transfers
    assert moved.height == 4
    # A copy waits for its stream from its request on, so that each takes its own time in turn.
    for before, after in zip(moved["end"], moved["end"][1:], strict=False):
        assert after - before >= MB / READ
    # First come, first served.
    assert moved.sort("start")["end"].is_sorted()


@pytest.mark.real
def test_calibration_finds_what_was_measured(tmp_path: Path) -> None:
    overhead = 0.15  # not declared
    size = 8 * MB
    slow = ["sh", "-c", f"sleep {0.1 + overhead}; {FILL}", "sh"]
    given = scenario(
        [
            {"id": "reader", "command": slow, "reads": ["in"]},
            {"id": "writer", "command": [*slow, f"out={size}"], "writes": ["out"]},
            {"id": "neither", "command": slow},
        ],
        {"in": size, "out": size},
        store={"read": 10 * MB, "write": 12 * MB},
    )
    real = run(given, tmp_path / "run")
    store = "platform.stores[0]"
    fit = tl.calibrate(
        real,
        scenario=given.replace(**{f"{store}.read": "300 MB/s", f"{store}.write": "300 MB/s"}),
        parameters={
            f"{store}.read": {"exponential": ["5 MB/s", "500 MB/s"]},
            f"{store}.write": {"exponential": ["5 MB/s", "500 MB/s"]},
            "startup_overhead": {"linear": [0, 2]},
        },
        budget=1000,
        analysis=0,
    )
    commands = tl.Workload.from_trace(real).durations() - 0.1
    assert commands.min() >= overhead
    # 3 % is for the resolution of the search. The run has latencies, which are not fitted.
    latency = sum(real.manifest.facts["latency"][name]["max_s"] for name in ("start", "release"))
    found = fit.values["startup_overhead"]
    assert 0.97 * commands.min() - latency <= found <= 1.03 * commands.max() + latency
    # On a machine with other load, one command starts later than another, and a late start cannot
    # be told from a slower copy.
    late = commands.max() - commands.min() + latency
    for name, kind in (("read", "stage-in"), ("write", "stage-out")):
        (copy,) = real.transfers.filter(kind=kind).rows(named=True)
        seconds = copy["end"] - copy["start"]
        error = 0.03 + late / (seconds - late)
        assert fit.values[f"{store}.{name}"] == pytest.approx(size / seconds, rel=error)
