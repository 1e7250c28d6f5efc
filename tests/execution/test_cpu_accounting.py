"""Laws: CPU time is conserved, and a recorded trace passes the quality gate."""

import ast
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from typer.testing import CliRunner

import twinloop as tl
from tests.execution.child_processes import PATIENCE, TICK
from twinloop.cli import app
from twinloop.execution import burn_program, execute

pytestmark = pytest.mark.real

CPUS = len(os.sched_getaffinity(0))

#: Uses CPU time itself and in a child that it waits for. It prints the CPU time of both at its
#: beginning by the kernel, the time of day, and the CPU time at its end.
ACCOUNTED = """
import os, resource, subprocess, sys, time
def used():
    accounts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in accounts)
begun = used()
while time.process_time() < float(sys.argv[1]):
    pass
subprocess.run(["twinloop-burn", "cpu", "--seconds", sys.argv[1]], check=True, stdout=sys.stderr)
os.write(1, repr((begun, time.time(), used())).encode())
os._exit(0)
"""


class Case(NamedTuple):
    platform: str
    tasks: int
    cores: int
    isolation: str


CASES = [
    Case("2x1", 5, 1, "auto"),
    pytest.param(Case("1x2", 2, 1, "auto"), marks=pytest.mark.long),
    Case("1x2", 2, 2, "auto"),
    Case("2x1", 4, 1, "affinity"),
    pytest.param(Case("2x1", 4, 1, "none"), marks=pytest.mark.long),
]


class RecordedRun(NamedTuple):
    case: Case
    folder: Path
    trace: tl.Trace

    def read_report(self, task: str) -> dict[str, Any]:
        """Read the work that the program itself reports."""
        report = json.loads((self.folder / "output" / task / "0.out").read_text())
        assert isinstance(report, dict)
        return report


@pytest.fixture(scope="module", autouse=True)
def rates() -> Iterator[None]:
    """Measure the speed of this machine once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            burn_program.RATES_VARIABLE, f"cpu={burn_program.measure_rates(['cpu'])['cpu']!r}"
        )
        yield


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def run(
    request: pytest.FixtureRequest, rates: None, tmp_path_factory: pytest.TempPathFactory
) -> RecordedRun:
    case: Case = request.param
    if CPUS < 2:
        pytest.skip("two cores are needed, and this machine gives fewer")
    sizes = {"tasks": case.tasks, "cores": case.cores, "shortest": 0.1, "longest": 0.4}
    scenario = tl.Scenario(
        platform=case.platform,
        policy="fcfs",
        workload={"generate": {"name": "burn", "parameters": {"shape": "bag", **sizes}}},
    )
    folder = tmp_path_factory.mktemp("run") / "run"
    trace = execute(scenario, folder, period=0.05, isolation=case.isolation)
    return RecordedRun(case, folder, trace)


def test_all_complete_one_on_each_core(run: RecordedRun) -> None:
    assert set(run.trace.tasks["status"]) == {"completed"}
    assert set(run.trace.tasks["exit_code"]) == {0}
    isolation = run.trace.manifest.facts["nodes"]["isolation"]
    assert run.case.isolation in ("auto", isolation)
    events = pl.concat(
        [
            run.trace.placements.select("machine", t="start", by="cores"),
            run.trace.placements.select("machine", t="end", by=-pl.col("cores")),
        ]
    ).sort("t", "by")
    most = events.group_by("machine").agg(pl.col("by").cum_sum().max())
    sizes = dict(run.trace.nodes.select("node", "cores").iter_rows())
    assert all(by <= sizes[node] for node, by in most.iter_rows())


def test_cpu_time_equals_the_report_of_the_program(run: RecordedRun) -> None:
    """The program measures from its first line to its last; loading it is not included.

    Loading has one thread, so its CPU time is at most its elapsed time.
    """
    for task, cpu, seconds in run.trace.tasks.select("id", "cpu_time", "run_time").iter_rows():
        report = run.read_report(task)
        assert report["cpu_s"] - TICK <= cpu
        assert cpu <= report["cpu_s"] + (seconds - report["wall_s"]) + 2 * TICK


def test_the_work_equals_the_requested_work(run: RecordedRun) -> None:
    """The units of work do not depend on the machine; only their CPU time varies."""
    rate = float(os.environ[burn_program.RATES_VARIABLE].partition("=")[2])
    for task, seconds in run.trace.tasks.select("id", "run_time").iter_rows():
        report = run.read_report(task)
        asked = run.trace.tasks.filter(id=task)["command"][0].to_list()
        wanted = float(asked[asked.index("--seconds") + 1]) * rate
        assert report["units"] == pytest.approx(wanted, rel=1e-3)
        assert report["threads"] == run.case.cores
        assert seconds >= report["wall_s"] - TICK


def test_the_samples_add_up_to_the_cpu_time(run: RecordedRun) -> None:
    totals = run.trace.usage.group_by("task").agg(pl.sum("cpu"))
    both = run.trace.tasks.join(totals, left_on="id", right_on="task", how="left")
    assert both["cpu"].to_list() == pytest.approx(both["cpu_time"].to_list(), rel=1e-12, abs=1e-12)
    assert run.trace.usage["cpu"].min() >= 0


def test_no_task_uses_more_than_its_cores(run: RecordedRun) -> None:
    """CPU time <= wall time x cores, apart from the tick of the start time of a process."""
    slack = TICK * (1 + run.case.cores)
    for wall, cpu in run.trace.tasks.select("run_time", "cpu_time").iter_rows():
        assert cpu <= wall * run.case.cores + slack
    # A delayed sample may have an inexact time: the bound of its window is the cores of the node,
    # or those of the machine if tasks are not confined to a node.
    cores = {"auto": int(run.case.platform.partition("x")[2])}.get(run.case.isolation, CPUS)
    for dt, cpu in run.trace.usage.select("dt", "cpu").iter_rows():
        assert cpu <= dt * cores + slack


def test_the_windows_of_the_samples_tile_the_execution(run: RecordedRun) -> None:
    for task, machine, start, end in run.trace.placements.select(
        "task", "machine", "start", "end"
    ).iter_rows():
        mine = run.trace.usage.filter(task=task, machine=machine).sort("t")
        assert mine["t"][-1] == end
        begins = (mine["t"] - mine["dt"]).to_list()
        assert begins == pytest.approx([start, *mine["t"][:-1]], abs=1e-9)
        assert mine["dt"].min() > 0


def test_the_number_of_samples_is_bounded_by_the_passes(run: RecordedRun) -> None:
    """One sample for the end of each execution, and one for each pass."""
    taken = run.trace.manifest.facts["recording"]["samples"]
    assert 0 <= run.trace.usage.height - run.trace.placements.height <= taken


@pytest.mark.parametrize("isolation", ["auto", "affinity", "none"])
def test_a_long_task_is_sampled_while_it_runs(isolation: str, tmp_path: Path) -> None:
    journal = tmp_path / "run" / "recording" / "journal.jsonl"
    looks = f"until test $(grep -c '\"use\"' {journal}) -ge 8; do sleep 0.02; done"
    scenario = tl.Scenario(
        platform="1x1",
        policy="fcfs",
        workload={"tasks": [{"id": "a", "command": ["sh", "-c", looks], "run_time": 0.3}]},
    )
    trace = execute(
        scenario, tmp_path / "run", period=0.05, isolation=isolation, task_limit=PATIENCE
    )
    assert trace.manifest.facts["recording"]["samples"] >= 8
    # Samples close to the start, the end or each other are merged.
    assert trace.usage.height >= 2


def test_times_are_in_order(run: RecordedRun) -> None:
    tasks = run.trace.tasks.join(
        run.trace.placements, left_on="id", right_on="task", maintain_order="left"
    )
    order = tasks.select("submit", "ready", "start", "end")
    for submit, ready, start, end in order.iter_rows():
        assert 0 <= submit <= ready <= start < end
    assert run.trace.manifest.epoch_ms is not None


@pytest.mark.parametrize("form", ["folder", "cts"])
def test_a_recorded_run_passes_the_gate(run: RecordedRun, form: str, tmp_path: Path) -> None:
    path, unsized = run.folder, 0
    if form == "cts":
        path = tmp_path / "run.jsonl"
        tl.write(run.trace, path, format="cts")
        again = tl.read(path)
        # A required size may be unknown, for a task that was observed only at its end.
        unsized = again.usage["rss"].null_count()
        known = run.trace.usage.drop_nulls("rss")["task"]
        peaks = run.trace.tasks.drop_nulls("memory_used")["id"]
        samples = run.trace.usage["task"]
        assert unsized == (~samples.is_in([*known, *peaks])).sum()
        assert again.tasks["id"].equals(run.trace.tasks["id"])
        assert again.usage.height == run.trace.usage.height
        # CTS has milliseconds.
        assert again.usage["cpu"].to_list() == pytest.approx(
            run.trace.usage["cpu"].to_list(), abs=0.00051
        )
    assert [each.rule for each in tl.check(tl.read(path)).errors] == ["complete"] * bool(unsized)
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.exit_code == bool(unsized), done.output


@pytest.mark.parametrize("isolation", ["auto", "affinity", "none"])
def test_the_cpu_time_equals_that_of_getrusage_within_a_tick(
    isolation: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-I", "-S", "-c", ACCOUNTED, "0.15"]
    scenario = tl.Scenario(
        platform="1x1",
        policy="fcfs",
        workload={"tasks": [{"id": "a", "command": command, "run_time": 0.3}]},
    )
    trace = execute(scenario, tmp_path / "run", isolation=isolation)
    assert trace.tasks["status"].to_list() == ["completed"]
    output = tmp_path / "run" / "output" / "a"
    begun, when, used = ast.literal_eval((output / "0.out").read_text())
    child = json.loads((output / "0.err").read_text())["cpu_s"]
    assert used >= 0.15 + child - 1e-4
    # It is in its group before its first line. The CPU time after its report, to write it and to
    # end, is at most the time until it was waited for.
    assert trace.manifest.epoch_ms is not None
    rest = trace.manifest.epoch_ms / 1000 + trace.placements["end"][0] - when
    assert used - begun - 1e-4 <= trace.tasks["cpu_time"][0] <= used + rest + TICK
