"""Comparison of two builds by the benchmarks: pieces of work alternate, and no error stops them."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.real

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

#: A topic that writes the build to a file for each piece of work. Its part `newer` needs something
#: that the other build does not have, and notices it after its second piece of work.
TOPIC = """
import os
from pathlib import Path
from measure import Goal, ResultTable, side_by_side

BUILD = os.environ.get("BUILD", "this")

def work():
    with Path(__file__).with_name("order").open("a") as stream:
        stream.write(f"{BUILD} ")

def measure(result, title):
    seconds, _ = side_by_side({"work": work}, 3)
    result.tables.append(ResultTable(title, {"s": ".3f"}, [[seconds["work"]]], costs=["s"]))
    result.goals.append(Goal(title, "any", BUILD, True))

def first(result, quick):
    measure(result, "First")

def newer(result, quick):
    result.tables.append(ResultTable("Newer", {"s": ".3f"}, costs=["s"]))
    side_by_side({"work": work}, 2)
    if BUILD == "BROKEN":
        raise ValueError("there is no\\n  such field")
    side_by_side({"work": work}, 2)
    result.goals.append(Goal("Newer", "any", BUILD, True))

def last(result, quick):
    measure(result, "Last")

PARTS = (first, newer, last)
"""


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of comparisons, with the topic above."""
    (tmp_path / "parted.py").write_text(TOPIC)
    (tmp_path / "unknown.py").write_text("from measure import no_such_name\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(BENCHMARKS)
    import beside

    return beside


def make_build(folder: Path, name: str) -> str:
    """Make an interpreter whose build has a name."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nBUILD={name} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_a_part_that_the_other_build_cannot_run_is_reported(
    beside: ModuleType, tmp_path: Path
) -> None:
    ((topic, result),) = beside.compare_builds(["parted"], True, make_build(tmp_path, "BROKEN"))
    assert topic == "parted"
    assert [table.title for table in result.tables] == ["First", "Last"]
    assert result.omitted == [
        "parted.newer: the other build cannot run it: ValueError: there is no such field"
    ]
    assert result.failures == []
    assert [(goal.name, goal.measured) for goal in result.goals] == [
        *(("First", "this"), ("Newer", "this"), ("Last", "this")),
    ]
    pair = ["this", "BROKEN"]
    order = (tmp_path / "order").read_text().split()
    assert order == [*pair * 3, *pair * 2, *["this"] * 2, *pair * 3]


def test_an_error_of_this_build_ends_the_comparison(
    beside: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_build(tmp_path, "other")
    monkeypatch.setenv("BUILD", "BROKEN")
    with pytest.raises(SystemExit, match=r"(?s)parted.newer: this build cannot.*no\n  such field"):
        list(beside.compare_builds(["parted"], True, other))
    with pytest.raises(SystemExit, match="unknown: this build cannot run it"):
        list(beside.compare_builds(["unknown"], True, other))
