"""All benchmarks in one run: `python benchmarks/run.py [--quick] [--only NAME] [--json]`.

With `--beside PYTHON`, the benchmarks of the engine with two builds of twinloop: see `beside`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from typing import Any

from beside import compare_builds
from measure import BenchmarkResult, Goal, ResultTable

TOPICS = (
    "sharing",
    "processes",
    "queueing",
    "flows",
    "memory",
    "threads",
    "traces",
    "sessions",
    "sources",
    "cluster",
    "filters",
    "surf",
    "compiled",
    "parameters",
    "metered",
    "leases",
    "machine_states",
    "forks",
    "clouds",
    "end_to_end",
    "recording",
    "optimisers",
    "calibration",
    "study",
    "executions",
    "brokers",
    "workflows",
)
# The topics that depend on the native engine, in which two builds are compared.
ENGINE_TOPICS = (
    "cluster",
    "compiled",
    "surf",
    "filters",
    "metered",
    "machine_states",
    "forks",
    "clouds",
    "sharing",
    "flows",
    "threads",
    "workflows",
    "end_to_end",
)


def cell(value: Any, form: str) -> str:
    return "-" if value is None else format(value, form)


def print_table(table: ResultTable) -> None:
    forms = list(table.columns.values())
    lines = [list(table.columns)]
    lines += [[cell(v, f) for v, f in zip(row, forms, strict=True)] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{table.title}")
    for line in lines:
        cells = zip(line, widths, forms, strict=True)
        print("  " + "  ".join(t.ljust(w) if f == "s" else t.rjust(w) for t, w, f in cells))
    if table.note:
        print(f"  ({table.note})")


def print_goals(goals: list[Goal]) -> None:
    if not goals:
        return
    verdict = {True: "met", False: "NOT met", None: "undecided"}
    print("\nGoals")
    widths = [max(len(getattr(g, key)) for g in goals) for key in ("name", "goal", "measured")]
    for goal in goals:
        print(
            f"  {goal.name.ljust(widths[0])}  goal {goal.goal.ljust(widths[1])}"
            f"  measured {goal.measured.ljust(widths[2])}  {verdict[goal.met]}"
        )


def as_json(results: dict[str, BenchmarkResult]) -> str:
    topics = {
        topic: {
            "tables": [
                {
                    "title": table.title,
                    "note": table.note,
                    "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
                }
                for table in result.tables
            ],
            "goals": [asdict(goal) for goal in result.goals],
            "failures": result.failures,
            "omitted": result.omitted,
        }
        for topic, result in results.items()
    }
    machine = {"python": platform.python_version(), "platform": platform.platform()}
    return json.dumps({"machine": machine, "topics": topics}, indent=2)


def measure_topics(topics: list[str], quick: bool) -> Iterator[tuple[str, BenchmarkResult]]:
    for topic in topics:
        yield topic, import_module(topic).run(quick)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Benchmarks of the kernel, the readers and the simulator, with ratios."
    )
    parser.add_argument("--quick", action="store_true", help="smaller loads, fewer repetitions")
    parser.add_argument("--only", choices=TOPICS, help="one topic")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument(
        "--beside",
        metavar="PYTHON",
        help="an interpreter with another build of twinloop: both in turns, with the ratio",
    )
    options = parser.parse_args()
    topics = [options.only] if options.only else [*(ENGINE_TOPICS if options.beside else TOPICS)]
    if options.beside:
        measured = compare_builds(topics, options.quick, options.beside)
    else:
        measured = measure_topics(topics, options.quick)
    if not options.json:
        print(
            "Each figure is the best of several turns, by CPU time; what is compared takes turns."
        )
        if options.beside:
            print(f"Other: {options.beside}. Ratio: speed of this build divided by the other's.")
    results: dict[str, BenchmarkResult] = {}
    for topic, result in measured:
        results[topic] = result
        if not options.json:
            for table in result.tables:
                print_table(table)
            for line in result.omitted:
                print(f"\nNOT COMPARED  {line}")
            sys.stdout.flush()
    failures = [line for result in results.values() for line in result.failures]
    if options.json:
        print(as_json(results))
    else:
        print_goals([goal for result in results.values() for goal in result.goals])
        for line in failures:
            print(f"FAIL  {line}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
