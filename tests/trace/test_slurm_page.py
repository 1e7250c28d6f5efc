"""Law: the commands of the page on SLURM print the output that the page shows."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.test_tutorial import PAGES, SHOWN, run
from twinloop.trace.formats.sacct import reader, samples

PAGE = (PAGES / "from-slurm.md").read_text(encoding="utf-8")


def files() -> dict[str, str]:
    return dict(re.findall(r'^```text title="(.+?)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))


def test_the_commands_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files().items():
        Path(name).write_text(text, encoding="utf-8")
    commands = 0
    for _, _, text in SHOWN.findall(PAGE):
        for part in text.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            run(command, expected)
            commands += 1
    assert commands == 2


def test_every_field_on_the_page_is_read() -> None:
    [asked] = re.findall(r"--format=(JobID,JobIDRaw,\S+)", PAGE)
    assert set(asked.split(",")) <= set(reader._FIELDS)
    header = files()["jobs.txt"].splitlines()[0].split("|")
    assert set(header) <= set(asked.split(","))


def test_the_output_of_the_script_is_read(tmp_path: Path) -> None:
    """Run with programs that print the output of squeue and sstat of SLURM."""
    text = files()["sample.sh"]
    [asked] = re.findall(r"--format=(JobID\S+)", text)
    assert tuple(asked.split(",")) == samples.FIELDS[1:]
    for program, script in (
        ("squeue", "printf '100\\n102\\n'"),
        ("sstat", 'case "$*" in *--jobs=100,102*) echo "100.0|07:30.000|1K|2K|4";; esac'),
    ):
        file = tmp_path / program
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    (tmp_path / "sample.sh").write_text(text)
    for _ in range(2):
        subprocess.run(
            ["sh", "sample.sh"],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            check=True,
            timeout=30,
        )
    lines = (tmp_path / "samples.txt").read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert re.fullmatch(r"[0-9]{10}\|100\.0\|07:30\.000\|1K\|2K\|4", line)
