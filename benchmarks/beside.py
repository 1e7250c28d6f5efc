"""Two builds of twinloop in one run: the same benchmarks under this interpreter and another one.

Each interpreter runs a topic in a process of its own. Only one of the two works at any time: before
each timed piece of work a process passes its turn to the other one, so that the same pieces are
measured alternately (A, B, A, B, ...), and a slow period of the machine affects both builds. Both
begin a part of a topic together. A part that the other build cannot run, for example because it
uses a newer interface, is reported and not compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from typing import Any

from measure import HERE, BenchmarkResult, Goal, ResultTable, turn_hooks

TURN = "turn"  # a line of the worker; every other line is the answer to a request


@dataclass
class PartError:
    """The error of a part of a topic: its message in one line, and its traceback."""

    message: str
    details: str


class Worker:
    """A process of one interpreter that runs parts of topics, a turn at a time."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.process = subprocess.Popen(
            [python, str(HERE / "beside.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def exchange(self, line: str) -> str:
        """Send a line, and wait until the process passes its turn or has an answer."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a worker has no pipes")
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.python}: the benchmark ended with an error (see above)")
        return answer.strip()

    def list_parts(self, topic: str) -> list[str] | PartError:
        """Return the names of the parts of a topic."""
        found = json.loads(self.exchange(json.dumps({"topic": topic})))
        return found["parts"] if "parts" in found else PartError(**found["error"])

    def turns(
        self, topic: str, part: str, quick: bool
    ) -> Iterator[BenchmarkResult | PartError | None]:
        """Yield None at the end of each turn, and the result of the part or its error at last."""
        answer = self.exchange(json.dumps({"topic": topic, "part": part, "quick": quick}))
        while answer == TURN:
            yield None
            answer = self.exchange(TURN)
        found: dict[str, Any] = json.loads(answer)
        if "error" in found:
            yield PartError(**found["error"])
            return
        result = found["result"]
        yield BenchmarkResult(
            [ResultTable(**table) for table in result["tables"]],
            [Goal(**goal) for goal in result["goals"]],
            result["failures"],
        )


def in_turns(
    workers: list[Worker], topic: str, part: str, quick: bool
) -> list[BenchmarkResult | PartError]:
    """Run a part of a topic on all workers, one turn of each after the other.

    After the end of one worker, or its error, the others go on alone.
    """
    pending = {number: worker.turns(topic, part, quick) for number, worker in enumerate(workers)}
    results: dict[int, BenchmarkResult | PartError] = {}
    while pending:
        for number, turns in list(pending.items()):
            result = next(turns)
            if result is not None:
                results[number] = result
                del pending[number]
    return [results[number] for number in range(len(workers))]


def speed_ratio(heading: str, table: ResultTable, this: Any, other: Any) -> float | None:
    """Return the speed of this build divided by that of the other one."""
    if not this or not other:
        return None
    return float(this / other if heading in table.rates else other / this)


def compare_tables(this: ResultTable, other: ResultTable) -> ResultTable:
    """Join two tables: the labels of each row, then both figures and their ratio.

    Labels are texts and counts, which are the same for both builds.

    >>> columns = {"case": "s", "ms": ".1f", "bare loop": ".1f"}
    >>> one, two = (ResultTable("Runs", columns, [["a", ms, 9.0]], costs=["ms"]) for ms in (1, 3))
    >>> compare_tables(one, two).rows
    [['a', 1, 3, 3.0]]
    """
    headings = list(this.columns)
    figures = [*this.rates, *this.costs]
    labels = [h for h in headings if this.columns[h] in ("s", ",d") and h not in figures]
    columns = {heading: this.columns[heading] for heading in labels}
    for heading in figures:
        form = this.columns[heading]
        columns |= {heading: form, f"{heading}, other": form, f"{heading}, ratio": ".2f"}
    table = ResultTable(this.title, columns, note=this.note)
    for own, its in zip(this.rows, other.rows, strict=True):
        left, right = (dict(zip(headings, row, strict=True)) for row in (own, its))
        row = [left[heading] for heading in labels]
        for heading in figures:
            pair = left[heading], right[heading]
            row += [*pair, speed_ratio(heading, this, *pair)]
        table.rows.append(row)
    return table


def compare_results(
    name: str, this: BenchmarkResult, other: BenchmarkResult | PartError
) -> BenchmarkResult:
    """Join the results of two builds: the goals are those of this one, the failures of both.

    >>> error = PartError("InputError: controllers: unknown field", "Traceback...")
    >>> compare_results("machine_states.saving", BenchmarkResult(), error).omitted
    ['machine_states.saving: the other build cannot run it: InputError: controllers: unknown field']
    """
    if isinstance(other, PartError):
        line = f"{name}: the other build cannot run it: {other.message}"
        return BenchmarkResult([], this.goals, this.failures, [line])
    failures = this.failures + [f"the other build: {line}" for line in other.failures]
    if [table.title for table in this.tables] != [table.title for table in other.tables]:
        return BenchmarkResult(failures=[*failures, f"{name}: the builds have different tables"])
    tables = [
        compare_tables(*pair)
        for pair in zip(this.tables, other.tables, strict=True)
        if pair[0].rates or pair[0].costs
    ]
    return BenchmarkResult(tables, this.goals, failures)


def compare_builds(
    topics: list[str], quick: bool, other: str
) -> Iterator[tuple[str, BenchmarkResult]]:
    """Measure each topic with this interpreter and the other one; yield the joined results."""
    with Worker(sys.executable) as here, Worker(other) as there:
        for topic in topics:
            yield topic, compare_topic(here, there, topic, quick)


def compare_topic(here: Worker, there: Worker, topic: str, quick: bool) -> BenchmarkResult:
    """Measure the parts of a topic with two workers; an error of the first one ends the run."""
    joined = BenchmarkResult()
    parts = here.list_parts(topic)
    if isinstance(parts, PartError):
        sys.exit(f"{topic}: this build cannot run it:\n{parts.details}")
    for part in parts:
        name = f"{topic}.{part}" if part else topic
        this, other = in_turns([here, there], topic, part, quick)
        if isinstance(this, PartError):
            sys.exit(f"{name}: this build cannot run it:\n{this.details}")
        joined.extend(compare_results(name, this, other))
    return joined


def get_parts(topic: str) -> dict[str, Callable[[bool], BenchmarkResult]]:
    """Return the parts of a topic by name; a topic without PARTS is one part without a name."""
    module = import_module(topic)
    parts = getattr(module, "PARTS", None)
    if parts is None:
        return {"": module.run}
    return {part.__name__: partial(run_part, part) for part in parts}


def run_part(part: Callable[[BenchmarkResult, bool], None], quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    part(result, quick)
    return result


def answer_request(topic: str, part: str | None = None, quick: bool = False) -> dict[str, Any]:
    """Return the names of the parts of a topic, or the result of one of them, or the error."""
    try:
        parts = get_parts(topic)
        if part is None:
            return {"parts": list(parts)}
        return {"result": asdict(parts[part](quick))}
    except Exception as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {"error": asdict(PartError(message, traceback.format_exc()))}


def work() -> None:
    """Answer the requests that arrive on the standard input, one per line."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # the pipe is for answers only

    def pass_turn() -> None:
        print(TURN, file=answers, flush=True)
        if not sys.stdin.readline():
            sys.exit("the benchmark that started this process has ended")

    turn_hooks.append(pass_turn)
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(answer_request(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    work()
