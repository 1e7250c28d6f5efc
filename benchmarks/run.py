"""All benchmarks in one run: `python benchmarks/run.py [--quick] [--only NAME] [--json]`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from importlib import import_module
from typing import Any

from measure import BenchmarkResult, Goal, ResultTable

TOPICS = (
    "sharing",
    "processes",
    "flows",
    "memory",
    "threads",
    "traces",
    "sessions",
    "cluster",
    "filters",
    "surf",
    "compiled",
    "recording",
    "optimisers",
    "calibration",
    "study",
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
        }
        for topic, result in results.items()
    }
    machine = {"python": platform.python_version(), "platform": platform.platform()}
    return json.dumps({"machine": machine, "topics": topics}, indent=2)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Benchmarks of the kernel, the readers and the simulator, with ratios."
    )
    parser.add_argument("--quick", action="store_true", help="smaller loads, fewer repetitions")
    parser.add_argument("--only", choices=TOPICS, help="one topic")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args()
    if not options.json:
        print(
            "Each figure is the best of several turns, by CPU time; what is compared takes turns."
        )
    results: dict[str, BenchmarkResult] = {}
    for topic in [options.only] if options.only else TOPICS:
        results[topic] = import_module(topic).run(options.quick)
        if not options.json:
            for table in results[topic].tables:
                print_table(table)
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
