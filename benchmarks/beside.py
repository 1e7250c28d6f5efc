"""Two builds of twinloop in one run: the same benchmarks under this interpreter and another one.

Each interpreter runs a topic in a process of its own. Only one of the two works at any time: before
each timed piece of work a process passes its turn to the other one, so that the same pieces are
measured alternately (A, B, A, B, ...), and a slow period of the machine affects both builds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from typing import Any

from measure import HERE, BenchmarkResult, Goal, ResultTable, turn_hooks

TURN = "turn"  # a line of the worker; every other line is a result


class Worker:
    """A process of one interpreter that runs topics, a turn at a time."""

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
        """Send a line, and wait until the process passes its turn or has a result."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a worker has no pipes")
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.python}: the benchmark ended with an error (see above)")
        return answer.strip()

    def turns(self, topic: str, quick: bool) -> Iterator[BenchmarkResult | None]:
        """Yield None at the end of each turn, and the result of the topic at last."""
        answer = self.exchange(json.dumps([topic, quick]))
        while answer == TURN:
            yield None
            answer = self.exchange(TURN)
        found: dict[str, Any] = json.loads(answer)
        yield BenchmarkResult(
            [ResultTable(**table) for table in found["tables"]],
            [Goal(**goal) for goal in found["goals"]],
            found["failures"],
        )


def in_turns(workers: list[Worker], topic: str, quick: bool) -> list[BenchmarkResult]:
    """Run a topic on all workers, one turn of each after the other."""
    pending = {number: worker.turns(topic, quick) for number, worker in enumerate(workers)}
    results: dict[int, BenchmarkResult] = {}
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


def compare_results(topic: str, this: BenchmarkResult, other: BenchmarkResult) -> BenchmarkResult:
    """Join the results of two builds: the goals are those of this one, the failures of both."""
    failures = this.failures + [f"the other build: {line}" for line in other.failures]
    if [table.title for table in this.tables] != [table.title for table in other.tables]:
        return BenchmarkResult(failures=[*failures, f"{topic}: the builds have different tables"])
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
            yield topic, compare_results(topic, *in_turns([here, there], topic, quick))


def work() -> None:
    """Run the topics that arrive on the standard input, each line a topic and its size."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # the pipe is for answers only

    def pass_turn() -> None:
        print(TURN, file=answers, flush=True)
        if not sys.stdin.readline():
            sys.exit("the benchmark that started this process has ended")

    turn_hooks.append(pass_turn)
    for line in iter(sys.stdin.readline, ""):
        topic, quick = json.loads(line)
        result = import_module(topic).run(quick)
        print(json.dumps(asdict(result)), file=answers, flush=True)


if __name__ == "__main__":
    work()
