"""Law: a reader who types what the tutorial shows sees what the tutorial shows."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinloop.cli import app

PAGES = Path(__file__).resolve().parents[1] / "docs"
SHOWN = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[tuple[str, str]]:
    """Each command of a page, and what the page says that it prints."""
    found = []
    for block in SHOWN.findall((PAGES / page).read_text(encoding="utf-8")):
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            found.append((command, expected))
    return found


def test_the_commands_of_the_tutorial_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = commands("tutorial.md")
    assert len(shown) >= 6
    same = doctest.OutputChecker().check_output
    for command, expected in shown:
        program, *words = shlex.split(command)
        assert program == "twinloop"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{command}\n{result.output}"
        # A terminal shows both streams; what a page leaves out is an ellipsis.
        got = result.stderr + result.stdout
        assert same(expected, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), (
            f"{command}\n{got}"
        )
