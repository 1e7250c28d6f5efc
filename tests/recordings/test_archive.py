"""Archives of runs: the same bytes for the same files, and nothing outside the folder."""

import io
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from twinloop.description.errors import InputError
from twinloop.recordings.archive import extract_archive, open_runs, pack_folder

FILES = {
    "notes.json": b"{}",
    "one/manifest.json": b"first",
    "one/tasks.parquet": b"PAR1\0\0",
    "probes/two per core/manifest.json": b"",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def make_folder(folder: Path, names: list[str]) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(FILES[name])
    return folder


def make_tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member)
    return path


def make_member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size, "../outside"
    return member


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return pack_folder(make_folder(tmp_path / "runs", list(FILES)), tmp_path / "runs.tar.zst")


def test_extraction_gives_the_files_that_were_packed(archive: Path, tmp_path: Path) -> None:
    assert contents(extract_archive(archive, tmp_path / "new")) == FILES
    with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(archive.read_bytes()))) as tar:
        assert tar.getnames() == sorted(FILES)


def test_same_files_give_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    """Whatever the order of creation, the times and the modes, and without hidden files."""
    other = make_folder(tmp_path / "other", list(reversed(FILES)))
    for file in other.rglob("*.json"):
        os.utime(file, (1e9, 1e9))
        file.chmod(0o600)
    (other / "one" / ".lock").touch()
    (other / ".unfinished").mkdir()
    (other / ".unfinished" / "manifest.json").touch()
    again = pack_folder(other, tmp_path / "again.tar.zst")
    assert again.read_bytes() == archive.read_bytes()


def test_archives_of_the_tar_command_are_read(tmp_path: Path) -> None:
    """With folders as members, names that begin with `./`, and other compressions."""
    folder = make_folder(tmp_path / "runs", list(FILES))
    for mode, suffix in (("w", "tar"), ("w:gz", "tar.gz"), ("w:xz", "tar.xz")):
        path = tmp_path / f"runs.{suffix}"
        with tarfile.open(path, mode) as tar:
            tar.add(folder, ".")
        assert contents(extract_archive(path, tmp_path / suffix)) == FILES


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", "a//b", "a\\b", ""])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    path = make_tar(tmp_path / "evil.tar", make_member("fine"), make_member(name))
    with pytest.raises(InputError, match=r"evil\.tar: .* is not a valid name inside this folder"):
        extract_archive(path, tmp_path / "in" / "new")
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_only_regular_files_are_extracted(tmp_path: Path, kind: bytes) -> None:
    path = make_tar(tmp_path / "evil.tar", make_member("link", kind), make_member("link/file"))
    with pytest.raises(InputError, match=r"evil\.tar: 'link' is not a regular file"):
        extract_archive(path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def make_sparse(path: Path) -> None:
    """A file of 2 TiB, none of which is stored."""
    member = make_member("large")
    member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(2 << 40)}
    make_tar(path, member)


def make_loop(path: Path) -> None:
    """A file whose size leads from its end back to its own header."""
    make_tar(path, make_member("first"), make_member("back", size=-1536))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: path.write_bytes(b"; a log\n1 2 3\n"), "is not a tar archive, or is damaged"),
        (lambda path: path.write_bytes(b""), "is not a tar archive, or is damaged"),
        (make_loop, "'back' has -1536 bytes"),
        (make_sparse, "'large' has 2199023255552 bytes"),
        (
            lambda path: path.write_bytes(zstandard.compress(bytes(300 << 20))),
            "bytes or more when decompressed",
        ),
    ],
)
def test_what_is_no_archive_is_refused(
    tmp_path: Path, write: Callable[[Path], object], message: str
) -> None:
    path = tmp_path / "broken"
    write(path)
    with pytest.raises(InputError, match=f"broken: .*{message}"):
        extract_archive(path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_an_archive_that_was_cut_off_is_an_error(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    for length in range(len(whole)):
        archive.write_bytes(whole[:length])
        with pytest.raises(InputError, match=archive.name):
            extract_archive(archive, tmp_path / "new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["runs", archive.name]


def test_a_damaged_archive_gives_an_error_or_its_content(archive: Path, tmp_path: Path) -> None:
    """Some bits of a compressed file have no meaning; a change of any other is found."""
    whole = archive.read_bytes()
    errors = 0
    for at, byte in enumerate(whole):
        archive.write_bytes(whole[:at] + bytes([byte ^ 1]) + whole[at + 1 :])
        try:
            folder = extract_archive(archive, tmp_path / f"new{at}")
        except InputError:
            errors += 1
        else:
            assert contents(folder) == FILES
    assert errors > 0.9 * len(whole)


def test_a_folder_with_files_is_not_replaced(archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    extract_archive(archive, folder)
    (folder / "thesis.tex").touch()
    before = contents(folder)
    with pytest.raises(InputError, match="mine: exists already and contains files"):
        extract_archive(archive, folder)
    assert contents(folder) == before


def test_an_archive_is_open_as_a_temporary_folder(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with open_runs(archive) as folder:
        assert folder.is_relative_to(temporary)
        assert contents(folder) == FILES
    with pytest.raises(KeyboardInterrupt), open_runs(archive):
        raise KeyboardInterrupt
    archive.write_bytes(b"no archive")
    with pytest.raises(InputError), open_runs(archive):
        pass
    assert list(temporary.iterdir()) == []
    for path in (tmp_path / "runs", tmp_path / "nowhere"):
        with open_runs(path) as folder:
            assert folder == path
