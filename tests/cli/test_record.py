"""The command `twinloop record`: the recorded program is unchanged, and its record is complete."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import twinloop as tl
from tests.execution.child_processes import PATIENCE, Start, ended, start, until
from twinloop.cli.record import SETTINGS, _show
from twinloop.cli.record import record as record_command
from twinloop.trace import Manifest

pytestmark = pytest.mark.real

__all__ = ["start"]  # a fixture

RECORD = [sys.executable, "-m", "twinloop", "record"]


def record(*words: object, ends_with: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*RECORD, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **options,
    )
    assert done.returncode == ends_with, done.stdout + done.stderr
    return done


def test_a_recorded_command_has_the_same_input_output_and_exit_status(tmp_path: Path) -> None:
    script = 'cat; echo "{$1}"; echo oops >&2; pwd; exit 7'
    command = ["sh", "-c", script, "sh", "a b"]
    alone = subprocess.run(
        command, input="in\n", capture_output=True, text=True, cwd=tmp_path, check=False
    )
    done = record("-o", "run", "--", *command, ends_with=7, input="in\n", cwd=tmp_path)
    assert done.stdout == alone.stdout == f"in\n{{a b}}\noops\n{tmp_path}\n".replace("oops\n", "")
    assert "oops\n" in done.stderr
    lines = done.stderr.splitlines()
    # The command is announced first.
    assert "sh -c" in lines[0]
    assert lines.index("oops") > 0
    trace = tl.read(tmp_path / "run")
    assert tl.check(trace).errors == ()
    task = trace.tasks.row(0, named=True)
    assert (task["status"], task["exit_code"], task["id"]) == ("failed", 7, "sh")
    assert trace.manifest.kind == "recorded"


def test_the_summary_has_the_values_of_getrusage(tmp_path: Path) -> None:
    code = (
        "import os, time, resource\n"
        "while time.process_time() < 0.3: pass\n"
        "u = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('own', u.ru_utime + u.ru_stime, flush=True)\n"
        "os._exit(0)"
    )
    done = record(
        *("-o", tmp_path / "run", "--interval", "50ms", "--json", "--power", "none"),
        *("--", sys.executable, "-c", code),
    )
    document = json.loads(done.stdout)
    assert set(document) == {"output", "tasks", "samples", "recording", "cleaned"}
    (own,) = (float(line[4:]) for line in done.stderr.splitlines() if line.startswith("own "))
    (task,) = document["tasks"]
    # The command cannot measure its own end; it has one thread.
    assert own <= task["cpu_s"] <= task["run_time_s"] + 0.01
    trace = tl.read(tmp_path / "run")
    assert trace.usage["cpu"].sum() == pytest.approx(task["cpu_s"], abs=1e-6)
    assert trace.usage.height == document["samples"]
    assert trace.manifest.sampling_period == 0.05
    assert tl.check(trace).errors == ()
    assert trace.power.height == 0


def test_a_signal_and_a_missing_program_have_the_exit_status_of_shells(tmp_path: Path) -> None:
    record("-o", tmp_path / "a", "sh", "-c", "kill -9 $$", ends_with=128 + 9)
    assert tl.read(tmp_path / "a").tasks["exit_code"].to_list() == [-9]
    done = record("-o", tmp_path / "b", "--", "no-such-program", ends_with=127)
    assert "no-such-program" in done.stderr


def test_unknown_values_are_reported_as_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = pl.DataFrame(
        {"id": ["short", "long"], "run_time": [None, 2.0], "memory_used": [None, 2.0**20]},
        schema_overrides={"run_time": pl.Float64},
    ).with_columns(cpu_time=pl.col("run_time"))
    facts = {"recording": {"share_of_core": None}}
    _show(tl.Trace(manifest=Manifest(kind="recorded", facts=facts), tasks=tasks), tmp_path)
    printed = capsys.readouterr().err
    assert "short: recorded, run time unknown, CPU time unknown, memory unknown" in printed
    assert "long: recorded, 2.000 s, 2.000 CPU s, at most 1.0 MiB" in printed


def test_ctrl_c_ends_the_command_and_keeps_the_record(tmp_path: Path, start: Start) -> None:
    pid = tmp_path / "pid"
    recording = start(
        *RECORD, "-o", tmp_path / "run", "--", "sh", "-c", f"echo $$ > {pid}; exec sleep 600"
    )
    until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    recording.send_signal(signal.SIGINT)
    assert recording.wait(PATIENCE) == 130
    assert ended(int(pid.read_text()))
    trace = tl.read(tmp_path / "run")
    assert trace.tasks["status"].to_list() == ["cancelled"]
    assert tl.check(trace).errors == ()


def test_a_running_process_is_recorded_and_continues(tmp_path: Path, start: Start) -> None:
    child = start("sleep", "600")
    done = record(
        *("-o", tmp_path / "run", "--pid", child.pid, "--for", "300ms", "--interval", "100ms"),
        "--json",
    )
    (task,) = json.loads(done.stdout)["tasks"]
    assert (task["pid"], task["status"], task["exit_code"]) == (child.pid, None, None)
    assert tl.check(tl.read(tmp_path / "run")).errors == ()
    assert child.poll() is None


def test_a_control_group_is_recorded(tmp_path: Path, start: Start) -> None:
    group = Path(f"/sys/fs/cgroup/cpuacct/twinloop-test-{os.getpid()}-{time.time_ns()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group of version 1 that counts CPU time can be made here: {error}")
    child = start("sleep", "600")
    try:
        (group / "cgroup.procs").write_text(str(child.pid))
        done = record("-o", tmp_path / "run", "--cgroup", group, "--for", "200ms", "--json")
        assert json.loads(done.stdout)["tasks"][0]["id"] == group.name
        assert tl.check(tl.read(tmp_path / "run")).errors == ()
    finally:
        child.kill()
        child.wait(PATIENCE)
        until(lambda: _remove_group(group))


def _remove_group(group: Path) -> bool:
    """Try to remove a group; the kernel may still be releasing its processes."""
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command(context_settings=SETTINGS)(record_command)

    def read_error(*words: object) -> str:
        found = CliRunner().invoke(app, [str(word) for word in ("-o", run, *words)])
        assert found.exit_code == 2, found.output
        return found.stderr

    run = tmp_path / "run"
    for words, problem in (
        ((), "is needed"),
        (("--pid", os.getpid(), "--", "true"), "is needed"),
        (("--interval", "1ms", "--", "true"), "too short"),
        (("--interval", "soon", "--", "true"), "--interval"),
        (("--for", "1s", "--", "true"), "--for"),
        (("--pid", 2**40), "there is no process"),
        (("--cgroup", "no/such"), "there is no control group"),
    ):
        assert problem in read_error(*words)
        assert not run.exists()
    run.mkdir()
    (run / "mine").touch()
    assert "is not a run" in read_error("--", "true")
