"""Static checks that find tests without effective assertions."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from tests.examples import USUAL, every, examples

ROOT = Path(__file__).resolve().parents[1]
FILES = [*sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "verify").glob("*.py"))]
#: Functions of libraries, besides those that begin with "assert", that raise on a failure.
CHECKS = {"raises", "warns", "fail", "validate"}


class Function(NamedTuple):
    """The checks and calls of a function of the tests."""

    place: str
    name: str
    #: Whether it asserts, calls a function that raises, or runs a checked child process.
    checks: bool
    #: The names that it calls, without their modules and objects.
    calls: frozenset[str]


class Source(NamedTuple):
    """A file, read once for all tests here."""

    functions: list[Function]
    asserts: list[tuple[str, ast.expr]]
    handlers: list[tuple[str, ast.ExceptHandler]]


def described(place: str, nodes: list[ast.AST], name: str) -> Function:
    calls = set()
    checks = False
    for node in nodes:
        if isinstance(node, ast.Call):
            function = node.func
            calls.add(
                function.attr
                if isinstance(function, ast.Attribute)
                else getattr(function, "id", "")
            )
        elif isinstance(node, ast.Assert):
            checks = True
        elif isinstance(node, ast.keyword) and node.arg == "check":
            checks |= isinstance(node.value, ast.Constant) and node.value.value is True
    checks |= any(each in CHECKS or each.startswith("assert") for each in calls)
    return Function(place, name, checks, frozenset(calls))


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    found = []
    for path in FILES:
        source = Source([], [], [])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                source.functions.append(described(where, list(ast.walk(node)), node.name))
            elif isinstance(node, ast.Assert):
                source.asserts.append((f"{path.relative_to(ROOT)}:{node.lineno}", node.test))
            elif isinstance(node, ast.ExceptHandler):
                source.handlers.append((f"{path.relative_to(ROOT)}:{node.lineno}", node))
        found.append(source)
    assert len(found) > 200
    return found


def test_every_test_checks_something(sources: list[Source]) -> None:
    """A test asserts itself, or calls a function of the tests that asserts."""
    every_one = [each for source in sources for each in source.functions]
    helpers = [each for each in every_one if not each.name.startswith("test")]
    known = {each.name for each in helpers if each.checks}
    while more := {each.name for each in helpers if each.calls & known} - known:
        known |= more
    silent = [
        each.place
        for each in every_one
        if each.name.startswith("test") and not each.checks and not each.calls & known
    ]
    assert [each for each in silent if each.split()[1] not in ALLOWED] == []


#: These call laws out of a list, and the laws assert.
ALLOWED = {"test_every_run_keeps_the_laws", "test_runs_that_share_machines_keep_the_laws"}


def test_no_assertion_is_always_true(sources: list[Source]) -> None:
    """Such as a constant, a tuple, or an alternative that is always true."""
    for source in sources:
        for where, asserted in source.asserts:
            parts = asserted.values if isinstance(asserted, ast.BoolOp) else [asserted]
            assert not any(isinstance(part, ast.Constant | ast.Tuple) for part in parts), where


def test_no_test_ignores_every_exception(sources: list[Source]) -> None:
    """`except Exception: pass` would hide the failure of an assertion."""
    for source in sources:
        for where, handler in source.handlers:
            caught = "" if handler.type is None else ast.unparse(handler.type)
            nothing = all(isinstance(each, ast.Pass) for each in handler.body)
            assert not (nothing and caught in ("", "Exception", "AssertionError")), where


def test_the_long_profile_draws_more_examples() -> None:
    scale = settings.default.max_examples // USUAL
    assert examples(12).max_examples == 12 * scale
    assert every(3) == (3 if scale == 1 else 1)
    assert settings.default.print_blob
