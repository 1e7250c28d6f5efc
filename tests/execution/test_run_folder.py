"""Laws of run folders: an interrupted record can be read, and no foreign file is changed."""

import errno
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cli.test_commands import run as twinloop
from tests.examples import every
from tests.execution.child_processes import PATIENCE
from tests.execution.runs import scenario, statuses, task
from twinloop.description.errors import InputError
from twinloop.execution import execute
from twinloop.execution.run_folder import RunFolder, check_run_folder
from twinloop.execution.run_journal import RunJournal, read_entries
from twinloop.execution.run_trace import trace_from_journal

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
ENTRIES = st.lists(st.dictionaries(st.sampled_from("etask"), VALUES, min_size=1), max_size=5)

#: Written by `Journal` before searches, studies and real runs shared one class of journals.
EARLIER = Path(__file__).parent / "journals" / "run.jsonl"


# --- the journal ----------------------------------------------------------------------------------


@given(ENTRIES, st.data())
def test_a_truncated_journal_is_read_up_to_its_last_whole_entry(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, object]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    ends = [0]
    with RunJournal(path) as journal:
        for entry in entries:
            journal.write(**entry)
            ends.append(path.stat().st_size)
        assert journal.lines == len(entries)
    # Every value is read exactly, floats to the last bit.
    assert list(read_entries(path)) == entries
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)
    assert list(read_entries(path)) == entries[: sum(end <= cut for end in ends) - 1]
    path.unlink()


def test_a_journal_of_an_earlier_version_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    whole = EARLIER.read_bytes()
    entries = list(read_entries(EARLIER))
    assert entries == [json.loads(line) for line in whole.splitlines()]
    path = tmp_path / "journal"
    with RunJournal(path) as journal:
        for entry in entries:
            journal.write(**entry)
    assert path.read_bytes() == whole
    for cut in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:cut])
        assert list(read_entries(path)) == entries[: whole[:cut].count(b"\n")]


def test_two_runs_never_share_a_journal(tmp_path: Path) -> None:
    RunJournal(tmp_path / "journal").close()
    with pytest.raises(FileExistsError):
        RunJournal(tmp_path / "journal")


def test_an_invalid_entry_ends_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for rubbish in (b"\xff\n", b"[]\n", b"\0\0\0\n", b"{}", b"{\n"):
        path.write_bytes(b'{"e":"ask"}\n' + rubbish + b'{"e":"ask"}\n')
        assert list(read_entries(path)) == [{"e": "ask"}]


# --- an interrupted run ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The complete recording of a run with all kinds of events."""
    there = tmp_path_factory.mktemp("recording")
    file = there / "failures.csv"
    folder = there / "run"
    save = f"cp -r {folder}/recording/plan {there}; ln {folder}/recording/journal.jsonl {there}"
    # Runs until the journal has the failure of its node; if it starts later, it ends immediately.
    once = f"until grep -q close {folder}/recording/journal.jsonl; do sleep 0.02; done"
    scenario_ = scenario(
        task("saves", "sh", "-c", save),
        task("pair", "sleep", 0.1, cores=2, nodes=2),
        task("again", "sh", "-c", once, parents=["saves"]),
        task("fails", "sh", "-c", "exit 3"),
        task("child", "true", parents=["fails"]),
        task("missing", "no-such-program"),
        task("large", "true", cores=9),
        *(task(f"{number}", "true") for number in range(5)),
        policy="fcfs",
        failures={"trace": str(file)},
    )
    nodes = scenario_.platform.nodes()["node"]
    file.write_text("node,start,end\n" + "".join(f"{node},0.8,0.9\n" for node in nodes))
    execute(scenario_, folder, period=0.05, task_limit=PATIENCE)
    return there


@pytest.mark.real
def test_a_record_truncated_anywhere_is_readable(recording: Path) -> None:
    plan = tl.Trace.load(recording / "plan")
    log = list(read_entries(recording / "journal.jsonl"))
    whole = statuses(trace_from_journal(plan, log))
    assert set(whole.values()) == {"completed", "failed", "rejected"}
    assert whole["again"] == "completed"
    ids = plan.tasks["id"]
    for lines in range(0, len(log), every(3)):
        trace = trace_from_journal(plan, log[:lines])
        known = statuses(trace)
        assert trace.tasks["id"].equals(ids)
        over = {ids[e["task"]]: e["status"] for e in log[:lines] if e["e"] == "over"}
        ran = {ids[e["task"]] for e in log[:lines] if e["e"] == "start"}
        again = {ids[e["task"]] for e in log[:lines] if e["e"] in ("failed", "preempt")}
        for name, status in known.items():
            # Known results are kept, running tasks are lost, and the others were not submitted.
            expected = {
                over.get(name)
                or ("rejected" if whole[name] == "rejected" else None)
                or ("lost" if name in ran and name not in again else "cancelled")
            }
            if name not in over and name in again:
                expected |= {"lost"}
            if name not in over and status == "completed":
                ended = [e for e in log[:lines] if e["e"] == "end" and ids[e["task"]] == name]
                assert ended[-1]["code"] == 0
            elif name not in ran and status == "lost":
                placed = [e for e in log[:lines] if e["e"] == "place"]
                assert ids[placed[-1]["task"]] == name
            else:
                assert status in expected, (lines, name)
        # Every execution has an end, which is not after the last line.
        assert trace.placements["end"].null_count() == 0
        last = max((entry["t"] for entry in log[: lines + 1]), default=0.0)
        assert all(end <= last for end in trace.placements["end"])
        assert (trace.usage["cpu"] >= 0).all()
        assert trace.usage.height == 0 or trace.usage["t"].max() <= last
        # A task that runs then may not have been sampled since its start.
        if lines % 8 == 0:
            unsampled = {"sampled", "samples-reach-ends"} if "lost" in known.values() else set()
            assert {finding.rule for finding in tl.check(trace).errors} <= unsampled


@pytest.mark.real
def test_a_truncated_record_is_read_by_all_commands(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(recording / "plan", folder / "recording" / "plan")
    text = (recording / "journal.jsonl").read_bytes()
    (folder / "recording" / "journal.jsonl").write_bytes(text[: len(text) // 2])
    trace = tl.read(folder)
    assert trace.manifest.facts["run"]["complete"] is False
    assert "12 tasks" in twinloop("inspect", folder).stdout
    twinloop("convert", folder, tmp_path / "kept.trace")
    assert statuses(tl.read(tmp_path / "kept.trace")) == statuses(trace)
    # A recording without a journal did not begin.
    (folder / "recording" / "journal.jsonl").unlink()
    with pytest.raises(InputError):
        tl.read(folder)


@pytest.mark.real
def test_a_run_killed_during_its_cleanup_is_complete(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(recording / "run", folder)
    shutil.copytree(recording / "plan", folder / "recording" / "plan")
    (folder / "recording" / "journal.jsonl").write_text("")
    assert statuses(tl.read(folder)) == statuses(tl.read(recording / "run"))


# --- the folder -----------------------------------------------------------------------------------


@pytest.mark.real
def test_the_folder_of_a_finished_run_is_a_trace_with_the_output_of_tasks(recording: Path) -> None:
    names = {path.name for path in (recording / "run").iterdir()}
    assert {"manifest.json", "tasks.parquet", "output"} <= names
    assert "recording" not in names
    document = json.loads((recording / "run" / "manifest.json").read_text())
    assert document["kind"] == "recorded"
    assert document["facts"]["run"]["complete"] is True
    assert document["facts"]["run"]["events"] > 0


@pytest.mark.real
def test_only_a_run_is_replaced_and_only_with_overwrite(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first, second = scenario(task("a", "true")), scenario(task("b", "echo", "b"))
    execute(first, folder)
    with pytest.raises(InputError, match="exists already") as error:
        execute(second, folder)
    assert error.value.remedy == "--overwrite replaces it"
    assert statuses(tl.read(folder)) == {"a": "completed"}
    execute(second, folder, overwrite=True)
    assert statuses(tl.read(folder)) == {"b": "completed"}
    # Also an interrupted run.
    shutil.rmtree(folder)
    RunFolder.create(folder, tl.Trace()).journal.close()
    execute(first, folder, overwrite=True)
    assert statuses(tl.read(folder)) == {"a": "completed"}
    assert [path.name for path in (folder / "output").iterdir()] == ["a"]
    (folder / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"so it is not replaced: thesis\.txt"):
            execute(second, folder, overwrite=overwrite)
    assert (folder / "thesis.txt").read_text() == "mine"


@pytest.mark.real
def test_a_folder_that_cannot_be_made_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    given = scenario(task("a", "touch", f"{tmp_path}/ran"))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for place in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "dangling"):
        with pytest.raises(InputError) as error:
            execute(given, place, overwrite=True)
        assert str(place) in str(error.value)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_and_a_new_nested_folder_are_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        check_run_folder(place, overwrite=False)
        kept = RunFolder.create(place, tl.Trace())
        kept.journal.write(e="begin", t=0.0, epoch_ms=0)
        assert tl.read(place).tasks.height == 0
        kept.finish(tl.Trace())
        # Without output there is no folder for it.
        assert [path.name for path in place.iterdir()] == ["manifest.json"]


def test_a_run_killed_at_its_beginning_is_replaced(tmp_path: Path) -> None:
    """After each step of its beginning; foreign files are kept."""
    old = tmp_path / "run" / ".replaced-999999999-0123abcd"
    unsaved = tmp_path / "run" / "recording" / ".plan-999999999-0123abcd" / "new"
    for place in (old, tmp_path / "run" / "recording", tmp_path / "run" / "output", unsaved):
        place.mkdir(parents=True)
        (old / "manifest.json").write_text("{}")
        check_run_folder(tmp_path / "run", overwrite=True)
    thesis = tmp_path / "run" / "output" / "thesis.tex"
    thesis.write_text("years of work")
    with pytest.raises(InputError, match=r"not replaced: output/thesis\.tex"):
        check_run_folder(tmp_path / "run", overwrite=True)
    thesis.unlink()
    RunFolder.create(tmp_path / "run", tl.Trace(), overwrite=True).close()
    assert sorted(entry.name for entry in (tmp_path / "run").iterdir()) == ["output", "recording"]


def test_a_file_system_without_locks_is_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    RunFolder.create(tmp_path / "run", tl.Trace()).close()
    check_run_folder(tmp_path / "run", overwrite=True)
