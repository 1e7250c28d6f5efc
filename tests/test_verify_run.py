"""`make verify` runs every part, also after a failed part, and reports the result of each."""

import sys
from pathlib import Path

import pytest

VERIFY = Path(__file__).resolve().parents[1] / "verify"
sys.path.append(str(VERIFY))

import run  # noqa: E402


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """The summary of a part that fails, a part that passes, and a part that is skipped."""
    folder = tmp_path_factory.mktemp("parts")
    bodies = {
        "bad": "def test_a():\n    assert False\n\ndef test_b():\n    pass\n",
        "good": "def test_a():\n    pass\n",
        "lacking": "import pytest\n\ndef test_a():\n    pytest.skip('no data')\n",
    }
    parts = []
    for name, body in bodies.items():
        path = folder / f"test_{name}.py"
        path.write_text(f'"""Shows {name} things."""\n\n{body}', encoding="utf-8")
        options = ("-q", "-p", "no:cacheprovider")
        parts.append(run.VerificationPart(name, (str(path),), options=options))
    path = folder / "build" / "summary.md"
    return run.run_all(parts, path), path.read_text(encoding="utf-8")


def test_all_parts_run_and_the_whole_fails(summary: tuple[int, str]) -> None:
    status, text = summary
    assert status == 1
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:5]]
    assert [row[:5] + row[6:] for row in rows] == [
        ["bad", "Shows bad things", "1", "1", "0", "FAILED"],
        ["good", "Shows good things", "1", "0", "0", "passed"],
        ["lacking", "Shows lacking things", "0", "0", "1", "not shown"],
    ]
    assert "failed: bad." in text
    assert "- lacking, skipped: no data" in text


def test_every_test_file_of_verify_is_a_part() -> None:
    listed = [path for part in run.PARTS for path in part.paths if path.startswith("verify/")]
    assert sorted(listed) == sorted(f"verify/{path.name}" for path in VERIFY.glob("test_*.py"))
    assert len({part.name for part in run.PARTS}) == len(run.PARTS)


def test_parts_that_need_an_idle_machine_come_first() -> None:
    assert run.PARTS[0].paths == ("verify/test_trust.py",)


def test_every_part_has_a_description() -> None:
    assert all(part.describe() for part in run.PARTS)
    with pytest.raises(SystemExit):
        run.main(["nothing"])
