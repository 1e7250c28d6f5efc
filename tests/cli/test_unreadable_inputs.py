"""Law: an input that cannot be read is an error that names it, never a hang or a traceback."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.ordinary_user import ordinary_user
from twinloop.cli import app

LOG = "1 0 5 10 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1\n"
FLOW = """\
,type,ready,submit,execute_start,execute_end,post_script_end,kickstart_hostname
a,compute,0,5,6,10,15,n1
"""

#: Every command that reads, with the input at @, a good log at {log}, a good workflow at {flow}.
COMMANDS = [
    "inspect @",
    "inspect @ --format swf",
    "inspect @ --format trace",
    "inspect @ --format wfcommons",
    "inspect @ --format schlouder",
    "inspect @ --format flowbench",
    "inspect @ --format unfinished",
    "inspect {log} --format sacct --sstat @",
    "inspect {flow} --dag @",
    "check @ --format csv",
    "convert @ {out}",
    "convert {log} {out} --merge @",
    "simulate @",
    "simulate --workload @ --platform 8x1 --policy easy",
    "simulate --workload {log} --platform @ --policy easy",
    "assess @ {log}",
    "calibrate @ -o {out}",
    "explore @ @ -o {out}",
    "confirm @",
    "loop @ -o {out}",
    "report @",
    "diff {log} @",
    "execute @ -o {out}",
]


def run_refused(command: str, bad: str, folder: Path) -> str:
    """Run a command with an input that it refuses; return its output."""
    log = folder / "log.swf"
    log.write_text(LOG)
    flow = folder / "flow.csv"
    if "{flow}" in command:
        flow.write_text(FLOW)
    words = [word.format(log=log, flow=flow, out=folder / "out") for word in command.split()]
    result = CliRunner().invoke(app, [bad if word == "@" else word for word in words])
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    assert result.exit_code == 2, result.output
    assert not (folder / "out").exists()
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_an_input_that_is_no_file_is_refused_by_every_command(command: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    # Opening a pipe whose other end is open does not block; reading it would.
    end = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        for bad in (str(tmp_path / "pipe"), "/dev/zero", "/", "x" * 300, "y/" * 3000):
            assert "error" in run_refused(command, bad, tmp_path)
    finally:
        os.close(end)


def test_the_error_for_a_pipe_or_a_device_has_a_remedy(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = run_refused("inspect @", str(tmp_path / "pipe"), tmp_path)
    assert "is a pipe, not a file or a folder (save its content as a file first)" in text
    assert "/dev/zero: is a device, not a file" in run_refused("simulate @", "/dev/zero", tmp_path)
    assert "cannot be read or written: File name too long" in run_refused(
        "report @", "x" * 300, tmp_path
    )


def test_a_folder_without_a_trace_is_no_workload(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c/d/e/f"
    deep.mkdir(parents=True)
    command = "simulate --workload @ --platform 8x1 --policy easy"
    assert "error" in run_refused(command, str(tmp_path), tmp_path)


@pytest.mark.parametrize("command", ["inspect @", "check @", "diff @ @"])
def test_a_file_of_another_user_is_refused(command: str, tmp_path: Path) -> None:
    run_refused(command, str(tmp_path / "nowhere"), tmp_path)  # to load the modules of the command
    for secret in (tmp_path / "secret.swf", tmp_path / "secret"):
        if secret.suffix:
            secret.write_text(LOG)
        else:
            secret.mkdir()
        secret.chmod(0)
    (tmp_path / "log.swf").chmod(0o666)
    parents = [each for each in tmp_path.parents if each.owner() == "root"][:3]
    modes = {each: each.stat().st_mode for each in (tmp_path, *parents)}
    try:
        for each in modes:
            each.chmod(modes[each] | 0o111)
        for secret in (tmp_path / "secret.swf", tmp_path / "secret"):
            with ordinary_user():
                text = run_refused(command, str(secret), tmp_path)
            assert f"{secret.name}: cannot be read or written: Permission denied" in text.replace(
                "\n", ""
            ) or f"{secret.name}: cannot be read" in text.replace("\n", "")
    finally:
        for each, mode in modes.items():
            each.chmod(mode)
