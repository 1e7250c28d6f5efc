"""The command `twinloop simulate` from process start to end, and the parts of its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Any

from logs import finished
from measure import BUILD, BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Scenario, Trace, read, simulate
from twinloop.engine import CompiledScenario
from twinloop.metrics import figures

TASKS, QUICK_TASKS = 77_000, 10_000
PLATFORM, POLICY = "128x1", "easy"
SECONDS, IMPORT_SECONDS = 0.8, 0.35
AROUND = 3.0  # compiling, tables and figures, as a multiple of the engine's own time
TWINLOOP = ("-m", "twinloop")
# `-X importtime` would leave out the modules that packages load on the first use of a name.
LIST_MODULES = """
import runpy, sys
from contextlib import suppress
with suppress(SystemExit):
    runpy.run_module("twinloop", run_name="__main__", alter_sys=True)
print(*sys.modules, sep="\\n", file=sys.stderr)
"""
# The list also has modules that cannot be imported by their name alone.
IMPORT_ALL = """
import sys
from contextlib import suppress
from importlib import import_module
# A build that has them starts with these settings, which apply to all of its imports.
with suppress(ImportError):
    from twinloop.__main__ import reduce_garbage_collection
    reduce_garbage_collection()
with suppress(ImportError):
    from twinloop.cli.blas_threads import import_numpy_with_one_thread
    import_numpy_with_one_thread()
for name in sys.argv[1:]:
    with suppress(ImportError):
        import_module(name)
"""


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True)


def make_log(tasks: int) -> Path:
    """Generate the log once, by the command line."""
    path = BUILD / f"lublin-{tasks}.swf"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"lublin-{tasks}-{os.getpid()}.swf")
        size = ("--tasks", str(tasks), "--seed", "1")
        run_python(*TWINLOOP, "generate", "lublin", str(partial), *size)
        partial.replace(path)
    return path


def children_cpu() -> float:
    """CPU seconds of all processes that this one has started and that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class CommandRuns:
    """Processes of the command, of its imports alone, and of the interpreter alone."""

    def __init__(self, log: Path) -> None:
        self.options = ["simulate", "--workload", str(log), "--platform", PLATFORM]
        self.options += ["--policy", POLICY, "--json"]
        self.elapsed = float("inf")
        listed = run_python("-c", LIST_MODULES, *self.options).stderr.splitlines()
        self.modules = [name for name in listed if name != "__main__"]

    def simulate(self) -> Any:
        begin = perf_counter()
        answer = run_python(*TWINLOOP, *self.options)
        self.elapsed = min(self.elapsed, perf_counter() - begin)
        return json.loads(answer.stdout)

    def import_modules(self) -> None:
        run_python("-c", IMPORT_ALL, *self.modules)

    def start_interpreter(self) -> None:
        run_python("-c", "pass")


class Pipeline:
    """The steps of the command in this process, each with the result of the one before."""

    def __init__(self, log: Path) -> None:
        self.scenario = Scenario(platform=PLATFORM, workload=str(log), policy=POLICY)
        self.log = log
        self.source: Trace
        self.compiled: CompiledScenario
        self.trace: Trace

    def read(self) -> None:
        self.source = read(self.log)

    def compile(self) -> None:
        self.compiled = CompiledScenario(self.scenario, workload=self.source)

    def run_engine(self) -> None:
        finished(self.compiled, placements=True)

    def make_trace(self) -> None:
        self.trace = simulate(self.compiled)

    def compute_figures(self) -> Any:
        return figures(self.trace).to_dict()


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    tasks = QUICK_TASKS if quick else TASKS
    log = make_log(tasks)
    repetitions = 3 if quick else 7
    command, steps = CommandRuns(log), Pipeline(log)
    processes = {
        "command": command.simulate,
        "imports": command.import_modules,
        "interpreter": command.start_interpreter,
    }
    cpu, answers = side_by_side(processes, repetitions, clock=children_cpu)
    parts = {
        "read": steps.read,
        "compile": steps.compile,
        "engine": steps.run_engine,
        "simulate": steps.make_trace,
        "figures": steps.compute_figures,
    }
    seconds, results = side_by_side(parts, repetitions)
    makespan = "makespan_s"
    if answers["command"][makespan] != results["figures"][makespan]:
        result.failures.append("end_to_end: the command has another makespan than its steps")
    imports = cpu["imports"] - cpu["interpreter"]
    tables = seconds["simulate"] - seconds["engine"]
    rows: list[tuple[str, float]] = [
        ("the command, CPU", cpu["command"]),
        ("the command, elapsed", command.elapsed),
        ("  interpreter alone, CPU", cpu["interpreter"]),
        ("  imports, CPU", imports),
        ("  reading the log", seconds["read"]),
        ("  compiling", seconds["compile"]),
        ("  engine", seconds["engine"]),
        ("  tables", tables),
        ("  figures", seconds["figures"]),
    ]
    result.tables.append(
        ResultTable(
            f"`twinloop simulate`: {tasks:,} jobs on {PLATFORM}, {POLICY} (milliseconds)",
            {"part": "s", "ms": ",.1f"},
            [[name, spent * 1e3] for name, spent in rows],
            "imports: the modules that the command imports, alone in a process; the steps from "
            "reading on: in a process that has imported them, so that the parts do not add up to "
            "the command.",
            costs=["ms"],
        )
    )
    around = (seconds["compile"] + tables + seconds["figures"]) / seconds["engine"]
    result.goals += [
        Goal(
            "the command from start to end, CPU",
            f"under {SECONDS} s",
            f"{cpu['command']:.2f} s",
            None if quick else cpu["command"] < SECONDS,
        ),
        Goal(
            "imports of the command",
            f"under {IMPORT_SECONDS} s",
            f"{imports:.2f} s",
            imports < IMPORT_SECONDS,
        ),
        Goal(
            "compiling, tables and figures against the engine",
            f"under {AROUND:.0f}x",
            f"{around:.1f}x",
            None if quick else around < AROUND,
        ),
    ]
    return result
