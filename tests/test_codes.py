"""Laws of the codes: every error about an input has one, from one table, and each is described."""

import ast
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinloop import InputError
from twinloop.cli import app
from twinloop.description.code_reference import find_code, format_markdown
from twinloop.description.codes import CODES, SECTIONS
from twinloop.trace.quality import RULES

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "twinloop"
#: Errors that take `kind`; `DescriptionError` and `QualityError` set it themselves.
ERRORS = {"InputError", "FormatError", "UnwritableError", "DamagedTraceError", "CodeNotAllowed"}
#: Methods that pass `kind` on: a required argument, so that mypy finds a call without it.
METHODS = {"add", "_note", "_refuse"}


def find_calls() -> Iterator[tuple[str, ast.expr | None]]:
    """Every place that makes an error, and the kind that it gives."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                where = f"{path.relative_to(SOURCE)}:{node.lineno}"
                kind = next((k.value for k in node.keywords if k.arg == "kind"), None)
                method = isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
                if ast.unparse(node.func) in ERRORS or (method and kind is not None):
                    yield where, kind


def list_names(kind: ast.expr) -> list[str]:
    """The names of codes in an expression such as `"a" if missing else "b"`."""
    return [
        node.value
        for node in ast.walk(kind)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_every_error_has_a_kind_of_the_table() -> None:
    calls = list(find_calls())
    assert len(calls) > 600
    for where, kind in calls:
        assert kind is not None, f"{where}: give kind=..., a name in description/codes.py"
        passed_on = ast.unparse(kind) == "kind" or ast.unparse(kind).endswith(".kind")
        names = list_names(kind)
        assert passed_on or names, where
        assert set(names) <= set(CODES), where


def test_every_code_is_used() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path.name != "codes.py"
    )
    unused = [name for name in CODES if f'"{name}"' not in text]
    assert unused == []


def test_codes_are_unique_and_belong_to_a_section() -> None:
    codes = [entry.code for entry in CODES.values()]
    assert len(set(codes)) == len(codes)
    assert codes == sorted(codes)
    for name, entry in CODES.items():
        assert re.fullmatch(r"TL\d{4}", entry.code)
        assert entry.code[2:4] in SECTIONS
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert name == entry.name
        assert entry.text.endswith(".")
        assert entry.remedy.endswith(".")


def test_quality_rules_are_those_of_the_table() -> None:
    assert {rule.name for rule in RULES} == {n for n, entry in CODES.items() if entry.severity}


def test_the_page_is_made_from_the_table() -> None:
    page = (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
    assert page == format_markdown(), (
        "python -m twinloop.description.code_reference > docs/codes.md"
    )


def test_a_message_ends_with_its_code_and_quotes_no_other() -> None:
    inner = InputError("is empty", kind="empty-log", file="a.swf")
    outer = InputError(f"cannot be used: {inner}", kind="not-a-result")
    assert str(inner) == "a.swf: is empty [TL0306]"
    assert str(outer) == "cannot be used: a.swf: is empty [TL0114]"
    assert (outer.kind, outer.code) == ("not-a-result", "TL0114")


def test_an_error_without_a_kind_has_the_general_code() -> None:
    assert (
        InputError("is wrong").code == InputError("is wrong", kind="of-a-plug-in").code == "TL0200"
    )


def test_kind_and_code_survive_another_process() -> None:
    error = pickle.loads(pickle.dumps(InputError("is empty", kind="empty-log", line=3)))
    assert (error.kind, error.line, str(error)) == ("empty-log", 3, "line 3: is empty [TL0306]")


def test_a_command_prints_the_code_and_explain_describes_it(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "missing.swf")])
    assert result.exit_code == 2
    code = re.search(r"\[(TL\d{4})\]$", result.stderr.strip())
    assert code is not None
    described = CliRunner().invoke(app, ["explain", code[1]])
    assert described.exit_code == 0
    assert described.stdout.startswith(f"{code[1]} file-not-found\n")


@pytest.mark.parametrize("word", ["TL0009", "tl0009", "[TL0009]", "lifecycle-order"])
def test_a_code_is_found_by_number_and_name(word: str) -> None:
    assert find_code(word) is CODES["lifecycle-order"]


def test_explain_lists_all_codes_and_refuses_an_unknown_one() -> None:
    every = CliRunner().invoke(app, ["explain"])
    assert [line.split()[0] for line in every.stdout.splitlines()] == [
        entry.code for entry in CODES.values()
    ]
    unknown = CliRunner().invoke(app, ["explain", "TL9999", "--json"])
    assert unknown.exit_code == 2
    assert json.loads(unknown.stdout)["error"]["code"] == CODES["unknown-name"].code


def test_the_audit_names_the_code_of_each_rule(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("id,submit,start,end\na,5,3,7\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(log)])
    assert "[TL0009]" in result.stdout
    rules = json.loads(CliRunner().invoke(app, ["check", str(log), "--json"]).stdout)["rules"]
    assert {rule["name"]: rule["code"] for rule in rules}["lifecycle-order"] == "TL0009"
