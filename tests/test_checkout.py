"""A fresh clone has no output of commands, and Git ignores their output."""

import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def git(*words: str) -> list[str]:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("git is not installed here")
    if done.returncode not in (0, 1):
        pytest.skip(f"this is no checkout: {done.stderr.strip()}")
    return done.stdout.splitlines()


def outputs() -> list[str]:
    """List the outputs of the commands in the README, in their order."""
    found = []
    for line in re.findall(r"^    (twinloop .*)$", (ROOT / "README.md").read_text(), re.M):
        words = shlex.split(line, comments=True)
        found += [b for a, b in pairwise(words) if a in ("-o", "--output")]
        if words[1] in ("generate", "convert"):
            found.append(words[3])
    assert len(found) > 4
    return found


def test_no_output_of_commands_is_tracked() -> None:
    tracked = git("ls-files")
    written = [*outputs(), "runs", "demo", "study"]
    there = [f for f in tracked if any(f == each or f.startswith(f"{each}/") for each in written)]
    assert there == [], "a fresh clone would refuse the commands of the README"


def test_outputs_of_the_commands_in_the_readme_are_ignored() -> None:
    """A checkout is still clean after these commands."""
    names = [name if Path(name).suffix else f"{name}/" for name in dict.fromkeys(outputs())]
    names += ["demo/report.html", "study/report.html", "runs/new"]
    assert git("check-ignore", "--no-index", *names) == names


def test_examples_are_descriptions_and_programs() -> None:
    """Recorded runs are archives of `twinloop.recordings` and of the tests."""
    files = git("ls-files", "examples")
    # The only table has the tasks of a scenario, without a run.
    assert [file for file in files if file.endswith(".csv")] == ["examples/cost-tasks.csv"]
    assert {Path(file).suffix for file in files} == {".yaml", ".py", ".sh", ".csv"}
