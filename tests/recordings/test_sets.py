"""The sets of recorded runs: every archive holds whole runs, and nothing else."""

import re
from pathlib import Path

import pytest

import twinloop as tl
from twinloop import recordings
from twinloop.description.files import iterate_chunks
from twinloop.recordings import __main__ as command
from twinloop.recordings.archive import SUFFIX, extract_archive, open_runs, pack_folder

ROOT = Path(__file__).resolve().parents[2]
ARCHIVES = {
    **{name: recordings.archive_path(name) for name in recordings.SETS},
    "decide": Path(__file__).with_name(f"decide{SUFFIX}"),
}
#: How many runs and files each archive holds, and the files that belong to no run.
CONTENTS = {
    "demo": (14, 84, set()),
    "trust": (4, 24, set()),
    "decide": (44, 222, {"notes.json", "rates.json"}),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_an_archive_holds_whole_runs_and_nothing_else(name: str) -> None:
    """The manifest of each run names its tables with their hashes, which `load` compares."""
    runs, count, beside = CONTENTS[name]
    with open_runs(ARCHIVES[name]) as folder:
        files = {path for path in folder.rglob("*") if path.is_file()}
        manifests = [path for path in files if path.name == "manifest.json"]
        assert (len(manifests), len(files)) == (runs, count)
        named = {folder / each for each in beside}
        for manifest in manifests:
            trace = tl.Trace.load(manifest.parent)
            assert trace.manifest.kind == "recorded"
            assert not re.search(r"[\"' ]/\w", manifest.read_text()), "an absolute path"
            tables = [each for each, frame in trace.tables.items() if frame.height]
            named |= {manifest, *(manifest.with_name(f"{each}.parquet") for each in tables)}
        assert files == named


@pytest.mark.parametrize("name", CONTENTS)
def test_an_archive_is_what_packing_its_files_writes(name: str, tmp_path: Path) -> None:
    """Apart from the compression, whose bytes may differ between versions of the library."""
    folder = extract_archive(ARCHIVES[name], tmp_path / "runs")
    again = pack_folder(folder, tmp_path / "again.tar.zst")
    assert b"".join(iterate_chunks(again)) == b"".join(iterate_chunks(ARCHIVES[name]))


def test_every_archive_is_a_set() -> None:
    folder = Path(recordings.__file__).parent
    assert {path.name for path in folder.glob(f"*{SUFFIX}")} == {
        f"{name}{SUFFIX}" for name in recordings.SETS
    }


def test_the_record_scripts_write_the_archives() -> None:
    for name in recordings.SETS:
        script = (ROOT / "examples" / name / "record.sh").read_text()
        packed = re.search(r"^python -m twinloop\.recordings pack recorded (.+)$", script, re.M)
        assert packed is not None
        written = ROOT / "examples" / name / packed[1]
        assert written.resolve() == (ROOT / "src/twinloop/recordings" / f"{name}{SUFFIX}").resolve()


def test_the_command_lists_extracts_and_packs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["demo", "trust"]
    folder, archive = str(tmp_path / "runs"), str(tmp_path / "trust.tar.zst")
    assert command.main(["extract", "trust", folder]) == 0
    assert command.main(["pack", folder, archive]) == 0
    assert capsys.readouterr().out == f"wrote {folder}\nwrote {archive}\n"
    assert sorted(path.name for path in Path(folder).iterdir()) == [
        *("one", "one-again", "two", "two-again"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["extract", "nosuch", "new"], "no set of recorded runs is called 'nosuch' (one of: demo"),
        (["extract", "trust", "full"], "full: exists already and contains files"),
        (["pack", "nowhere", "new.tar.zst"], "nowhere: does not exist"),
        (["pack", "full", "nowhere/new.tar.zst"], "nowhere/new.tar.zst: cannot be written"),
    ],
)
def test_errors_of_the_command_name_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full", "thesis.tex").touch()
    assert command.main(words) == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [
        *("full", "full/thesis.tex"),
    ]
