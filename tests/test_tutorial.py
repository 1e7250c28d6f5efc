"""Law: the commands of the tutorials print the output that the tutorials show."""

import doctest
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

import twinloop as tl
from tests.example_scripts import load_example
from twinloop import metrics
from twinloop.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs"
#: A block with commands and their output, or a file that the reader writes.
SHOWN = re.compile(r'^```(console|yaml title="(.+?)")\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SAME = doctest.OutputChecker().check_output


def run(command: str, expected: str) -> None:
    program, *words = shlex.split(command)
    if program == "python":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", words)
            runpy.run_path(words[0], run_name="__main__")
        return
    assert program == "twinloop"
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{command}\n{result.output}"
    # A terminal shows both streams; omitted output is an ellipsis.
    got = result.stderr + result.stdout
    assert SAME(expected, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), f"{command}\n{got}"


def run_page(name: str, shorter: Mapping[str, str] | None = None) -> int:
    """Write the files and run the commands of a page in this folder; count the commands.

    Parts of commands in `shorter` are replaced, so that the commands take less time.
    """
    count = 0
    page = (PAGES / name).read_text(encoding="utf-8")
    for text, short in (shorter or {}).items():
        assert text in page
        page = page.replace(text, short)
    for kind, file, text in SHOWN.findall(page):
        if kind != "console":
            Path(file).write_text(text, encoding="utf-8")
            continue
        for part in text.split("$ ")[1:]:
            command, _, expected = part.replace("\\\n", "").partition("\n")
            run(command, expected)
            count += 1
    return count


def test_the_commands_of_the_tutorial_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page("tutorial.md") >= 9
    assert Path("run.html").stat().st_size > 1e6


def test_the_commands_of_the_cloud_tutorial_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("examples").mkdir()
    shutil.copy(ROOT / "examples" / "cloud.yaml", "examples")
    assert run_page("cloud-tutorial.md") >= 10
    assert Path("study/report.html").stat().st_size > 1e6


@pytest.mark.real  # a study of several seconds uses processes
def test_the_commands_of_the_cost_tutorial_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("examples").mkdir()
    for example in (ROOT / "examples").glob("cost*"):
        shutil.copy(example, "examples")
    assert run_page("cost-tutorial.md") >= 10
    assert Path("study/report.html").stat().st_size > 1e6
    shown = (PAGES / "assets" / "cost.svg").read_text(encoding="utf-8")
    assert Path("cost.svg").read_text(encoding="utf-8") == shown


@pytest.mark.real
def test_the_commands_of_the_workflow_tutorial_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples" / "workflow", "examples/workflow")
    shorter = {
        "describe.py 24": "describe.py 1",
        "describe.py 48": "describe.py 2",
        "--budget 1000": "--budget 200 --analysis 200",
    }
    assert run_page("workflow-tutorial.md", shorter) >= 10
    assert Path("light.html").stat().st_size > 1e6


def test_the_workflow_of_the_tutorial_is_the_described_one() -> None:
    shown = tl.load(ROOT / "examples" / "workflow" / "scenario.yaml")
    assert shown == load_example("workflow/describe").describe(24, 2)


def test_the_program_for_users_of_other_cloud_simulators_prints_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page("from-cloud-simulators.md") == 1
    figures = metrics.figures(tl.read("small"))
    # Two hosts for 100 s, and 420 + 3 x 8 core-seconds of tasks and boots.
    assert figures.energy == pytest.approx(2 * 100 * 100 + 25 * 444)


@pytest.mark.parametrize(
    ("page", "examples"),
    [("cloud", ["cloud"]), ("cost", ["cost", "cost-study"]), ("workflow", ["workflow/scenario"])],
)
def test_a_tutorial_shows_parts_of_its_examples(page: str, examples: list[str]) -> None:
    text = (PAGES / f"{page}-tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for shown, name in zip(blocks, examples, strict=True):
        lines = (ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        assert [line for line in shown.splitlines() if line not in lines] == []


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
