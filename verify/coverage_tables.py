"""Tables of test coverage by package, from the data of `make coverage`.

python verify/coverage_tables.py                          # prints the tables
python verify/coverage_tables.py --page docs/coverage.md  # and writes them into the page
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Number of listed files with the lowest coverage, and the least number of lines of such a file.
LISTED, FEWEST = 15, 20


def read_measured() -> dict[str, Any]:
    """The figures of coverage.py for every file below src/twinloop."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(report)]
        subprocess.run(command, cwd=ROOT, check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["files"]
    return {path.partition("src/twinloop/")[2]: each["summary"] for path, each in found.items()}


def share(covered: int, lines: int) -> str:
    """Format a share in percent, rounded down, so that 100 % means complete."""
    return f"{1000 * covered // lines / 10:.1f} %" if lines else "-"


def tabulate_packages(files: dict[str, Any]) -> str:
    """Return lines and covered lines of each package and in total."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, summary in files.items():
        package = path.partition("/")[0] if "/" in path else "(top)"
        for name in (package, "all"):
            sums[name][0] += summary["num_statements"]
            sums[name][1] += summary["covered_lines"]
    rows = [
        f"| {name} | {lines:,} | {hit:,} | {share(hit, lines)} |"
        for name, (lines, hit) in sorted(sums.items(), key=lambda item: (item[0] == "all", item[0]))
    ]
    return "\n".join(["| package | lines | covered | coverage |", "|---|--:|--:|--:|", *rows])


def tabulate_files(files: dict[str, Any]) -> str:
    """Return the files with the lowest coverage."""
    large = {path: each for path, each in files.items() if each["num_statements"] >= FEWEST}
    least = sorted(large.items(), key=lambda item: item[1]["percent_covered"])[:LISTED]
    rows = [
        f"| {path} | {each['num_statements']:,} | {each['missing_lines']:,} "
        f"| {share(each['covered_lines'], each['num_statements'])} |"
        for path, each in least
    ]
    return "\n".join(["| file | lines | not covered | coverage |", "|---|--:|--:|--:|", *rows])


def main(arguments: list[str] | None = None) -> int:
    """Print the tables and write them into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", type=Path, help="page to write the tables into")
    given = parser.parse_args(arguments)
    files = read_measured()
    tables = {"table packages": tabulate_packages(files), "table files": tabulate_files(files)}
    print("\n\n".join(tables.values()))
    if given.page:
        from replay_page import fill_page

        page = given.page.read_text(encoding="utf-8")
        given.page.write_text(fill_page(page, tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
