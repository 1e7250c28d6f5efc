"""Law: the commands of the tutorial print the output that the tutorial shows."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinloop.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs"
#: A block with commands and their output, or a file that the reader writes.
SHOWN = re.compile(r'^```(console|yaml title="(.+?)")\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SAME = doctest.OutputChecker().check_output


def run(command: str, expected: str) -> None:
    program, *words = shlex.split(command)
    assert program == "twinloop"
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{command}\n{result.output}"
    # A terminal shows both streams; omitted output is an ellipsis.
    got = result.stderr + result.stdout
    assert SAME(expected, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command}\n{got}"


def test_the_commands_of_the_tutorial_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    count = 0
    page = (PAGES / "tutorial.md").read_text(encoding="utf-8")
    for kind, file, text in SHOWN.findall(page):
        if kind != "console":
            Path(file).write_text(text, encoding="utf-8")
            continue
        for part in text.split("$ ")[1:]:
            command, _, expected = part.replace("\\\n", "").partition("\n")
            run(command, expected)
            count += 1
    assert count >= 9
    assert Path("run.html").stat().st_size > 1e6


@pytest.mark.parametrize("example", ["kernel.py", "policy.py", "week.py"])
def test_the_examples_run(example: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / example],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
