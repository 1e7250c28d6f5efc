"""Run of all verifications: every part runs, independent of the results of the others.

    python verify/run.py              # as `make verify` does
    python verify/run.py fuzz laws    # only these parts
    python verify/run.py --list       # the parts with their descriptions

The last output is a table of the parts with their tests, times and results, which is also written
to `build/verify/summary.md`. The exit status is 1 if a part failed, else 0. A part whose tests were
all skipped (its data or a program is missing) has not failed; its result is "not shown", and the
reasons are listed.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "build" / "verify" / "summary.md"
IN_PARALLEL = ("-n", "auto", "--dist", "loadfile")


@dataclass(frozen=True)
class VerificationPart:
    """A group of verification tests."""

    name: str
    paths: tuple[str, ...]
    #: The description; "" for the first line of the docstring of the module.
    shows: str = ""
    options: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return a one-line description of this part."""
        if self.shows:
            return self.shows
        source = (ROOT / self.paths[0]).read_text(encoding="utf-8")
        return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].rstrip(".")


#: In this order: parts that need an idle machine come first. The fuzzers run in parallel, as do
#: the laws; the other parts use all cores themselves, or must run alone.
PARTS = (
    VerificationPart("trust", ("verify/test_trust.py",)),
    VerificationPart("kills", ("verify/test_kills.py",)),
    VerificationPart("studies", ("verify/test_studies.py",)),
    VerificationPart("dask", ("verify/test_dask.py",)),
    VerificationPart(
        "real",
        ("tests",),
        "Every test of real processes, including long ones",
        ("-m", "real", "-q"),
    ),
    VerificationPart(
        "simgrid",
        (
            "verify/test_simgrid.py",
            "verify/test_simgrid_files.py",
            "verify/test_simgrid_routes.py",
        ),
    ),
    VerificationPart("replay", ("verify/test_replay_with_feedback.py",)),
    VerificationPart("lab", ("verify/test_lab.py", "verify/test_lab_predictions.py")),
    VerificationPart("workflows", ("verify/test_flowbench.py", "verify/test_workflow_accuracy.py")),
    VerificationPart("detail", ("verify/test_detail_studies.py",)),
    VerificationPart("surf", ("verify/test_surf.py",)),
    VerificationPart("surf-power", ("verify/test_surf_power.py",)),
    VerificationPart("decide", ("verify/test_decide.py",)),
    VerificationPart(
        "identifiability", ("verify/test_identifiability.py",), options=IN_PARALLEL[:2]
    ),
    VerificationPart("coverage", ("verify/test_coverage.py",)),
    VerificationPart("fuzz", ("verify/test_fuzz.py",), options=IN_PARALLEL[:2]),
    VerificationPart(
        "laws",
        ("tests",),
        "Every other test, with twenty times as many new random examples",
        ("-m", "not real", "-q", *IN_PARALLEL),
    ),
)


@dataclass(frozen=True)
class PartResult:
    """Result of a part."""

    part: VerificationPart
    passed: int
    failed: int
    skipped: int
    reasons: tuple[str, ...]
    seconds: float
    status: int

    @property
    def verdict(self) -> str:
        """Return a short status."""
        if self.status != 0 or self.failed:
            return "FAILED"
        if not self.passed:
            return "not shown"
        return "passed" if not self.skipped else "passed in part"


def run_part(part: VerificationPart) -> PartResult:
    """Run the tests of a part in a separate interpreter."""
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # The output of the tests is part of the result, but not that of thousands of tests.
        shown = () if "-q" in part.options else ("-rsP",) if "-n" in part.options else ("-v", "-s")
        command = [sys.executable, "-m", "pytest", f"--junit-xml={report}", *shown]
        done = subprocess.run(
            [*command, *part.options, *part.paths],
            cwd=ROOT,
            env=os.environ | {"TWINLOOP_HYPOTHESIS_PROFILE": "thorough"},
            check=False,
        )
        counts, reasons = count_outcomes(report) if report.exists() else (Counter(), [])
    return PartResult(
        part,
        passed=counts["passed"],
        failed=counts["failed"],
        skipped=counts["skipped"],
        reasons=tuple(dict.fromkeys(reasons)),
        seconds=time.monotonic() - began,
        status=done.returncode,
    )


def count_outcomes(report: Path) -> tuple[Counter[str], list[str]]:
    """Count passed, failed and skipped tests, with the reasons for skips."""
    counts: Counter[str] = Counter()
    reasons = []
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            counts["failed"] += 1
        elif "skipped" in kinds:
            counts["skipped"] += 1
            reasons.append(next(c for c in case if c.tag == "skipped").get("message") or "")
        else:
            counts["passed"] += 1
    return counts, reasons


def tabulate(results: Sequence[PartResult]) -> str:
    """Build the Markdown table of all parts."""
    lines = [
        "| part | what it shows | passed | failed | skipped | time | result |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    lines += [
        f"| {each.part.name} | {each.part.describe()} | {each.passed:,} | {each.failed:,} "
        f"| {each.skipped:,} | {minutes(each.seconds)} | {each.verdict} |"
        for each in results
    ]
    total = sum(each.seconds for each in results)
    bad = [each.part.name for each in results if each.verdict == "FAILED"]
    lines += ["", f"{minutes(total)} in total on {os.cpu_count()} CPUs: " + conclude(bad)]
    for each in results:
        lines += [f"- {each.part.name}, skipped: {reason}" for reason in each.reasons]
    return "\n".join(lines) + "\n"


def conclude(bad: list[str]) -> str:
    """Return the summary line."""
    return f"failed: {', '.join(bad)}." if bad else "no part failed."


def minutes(seconds: float) -> str:
    """Format a time as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02} min"


def run_all(parts: Iterable[VerificationPart], summary: Path) -> int:
    """Run the parts in sequence and update the table after each."""
    results: list[PartResult] = []
    for part in parts:
        print(f"\n=== {part.name}: {part.describe()}", flush=True)
        results.append(run_part(part))
        summary.parent.mkdir(parents=True, exist_ok=True)
        summary.write_text(tabulate(results), encoding="utf-8")
    print(f"\n{tabulate(results)}\nalso in {summary}")
    return int(any(each.verdict == "FAILED" for each in results))


def main(arguments: list[str] | None = None) -> int:
    """Run the given parts, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = {part.name: part for part in PARTS}
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(known))
    parser.add_argument(
        "--list", action="store_true", help="print the parts with their descriptions"
    )
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.parts if name not in known]:
        parser.error(f"no part is called '{unknown[0]}': choose from {', '.join(known)}")
    if given.list:
        for part in PARTS:
            print(f"{part.name:16} {part.describe()}")
        return 0
    wanted = [part for part in PARTS if not given.parts or part.name in given.parts]
    return run_all(wanted, SUMMARY)


if __name__ == "__main__":
    sys.exit(main())
