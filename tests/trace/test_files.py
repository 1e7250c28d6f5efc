"""Reading and writing of files: compression, damage, decompression bombs, atomic writes."""

import bz2
import contextlib
import gzip
import lzma
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import InputError, files, input_limit
from twinloop.trace import Trace

# Text with several blocks in every compression.
CONTENT = "".join(f"{i} {random.Random(i).random()}\n" for i in range(20_000)).encode()


def zstd_stream(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "zstd of unknown size": zstd_stream,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
PACKED = {name: pack(CONTENT) for name, pack in PACKERS.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize("name", PACKERS)
def test_every_compression_is_detected_by_its_content(path: Path, name: str) -> None:
    path.write_bytes(PACKED[name])
    assert b"".join(files.iterate_chunks(path)) == CONTENT
    assert files.read_first_bytes(path, 100) == CONTENT[:100]
    assert files.read_text(path) == CONTENT.decode()
    assert max(len(chunk) for chunk in files.iterate_chunks(path)) <= files.CHUNK_BYTES


@pytest.mark.parametrize("name", [name for name in PACKERS if name != "plain"])
def test_several_parts_in_one_file_are_read_one_after_the_other(path: Path, name: str) -> None:
    path.write_bytes(PACKED[name] * 2)
    assert b"".join(files.iterate_chunks(path)) == CONTENT * 2


@given(st.sampled_from([name for name in PACKERS if name != "plain"]), st.data())
def test_a_file_truncated_anywhere_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut"
    packed = PACKED[name]
    # A prefix shorter than the magic bytes of the compression is ambiguous.
    length = data.draw(
        st.one_of(st.integers(6, len(packed) - 1), st.integers(len(packed) - 12, len(packed) - 1))
    )
    path.write_bytes(packed[:length])
    with pytest.raises(InputError, match="cut: cannot be read to its end"):
        for _ in files.iterate_chunks(path):
            pass


@given(st.sampled_from(["gzip", "zstd of unknown size", "bzip2", "xz"]), st.data())
def test_a_damaged_file_gives_an_error_or_its_content(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    packed = bytearray(PACKED[name])
    place = data.draw(st.integers(6, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(packed)
    try:
        content = b"".join(files.iterate_chunks(path))
    except InputError:
        return
    assert content == CONTENT  # the damaged bytes have no meaning


@pytest.mark.parametrize("name", ["gzip", "zstd", "bzip2", "xz"])
def test_a_bomb_is_refused_before_it_fills_the_memory(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_limit, "SMALL_INPUT_BYTES", 8 << 20)
    packed = PACKERS[name](bytes(64 << 20))
    path.write_bytes(packed)
    seen: list[int] = []
    with pytest.raises(
        InputError,
        match=r"or more when decompressed.* limit .*TWINLOOP_MAX_INPUT",
    ):
        seen.extend(len(chunk) for chunk in files.iterate_chunks(path))
    assert sum(seen) <= max(8 << 20, 250 * len(packed))


def test_a_zstd_window_that_would_take_gigabytes_is_refused(path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(compressor.compress(CONTENT) + compressor.flush())
    with pytest.raises(InputError, match="cannot be read to its end"):
        list(files.iterate_chunks(path))


def test_text_has_bounds_and_an_encoding(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfab")
    assert files.read_text(path) == "ab"
    path.write_bytes(b"a\nb\xff")
    with pytest.raises(InputError, match="file:2: is not UTF-8"):
        files.read_text(path)
    with pytest.raises(InputError, match="is larger than 2 bytes"):
        files.read_text(path, limit=2)


@pytest.mark.parametrize("there", ["nothing", "a folder"])
def test_a_path_that_is_no_file_is_an_input_error(path: Path, there: str) -> None:
    if there == "a folder":
        path.mkdir()
    with pytest.raises(InputError, match=r"does not exist|is a folder, not a file"):
        list(files.iterate_chunks(path))


@pytest.mark.parametrize("end", ["", ".gz", ".zst"])
def test_a_file_is_written_completely_and_always_with_the_same_bytes(
    tmp_path: Path, end: str
) -> None:
    written = []
    for name in ("one", "two"):
        path = tmp_path / "deep" / f"{name}{end}"
        with files.write_atomically(path) as stream:
            stream.write(CONTENT)
            assert not path.exists()
        assert b"".join(files.iterate_chunks(path)) == CONTENT
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert len(written[0]) == len(CONTENT) if not end else len(written[0]) < len(CONTENT)


@pytest.mark.parametrize("end", ["", ".gz", ".zst"])
def test_a_failed_write_keeps_the_old_file_and_nothing_else(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"file{end}"
    path.write_bytes(b"old")
    with contextlib.suppress(ZeroDivisionError), files.write_atomically(path) as stream:
        stream.write(CONTENT)
        _ = 1 / 0
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"old"


def test_a_place_that_cannot_be_written_to_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(InputError, match="cannot be written"),
        files.write_atomically(tmp_path / "file" / "below"),
    ):
        pass


@pytest.mark.real
def test_leftovers_of_a_killed_process_are_removed_by_the_next(tmp_path: Path) -> None:
    """A process is killed after each step; the folder is the old or the new version."""
    script = (
        "import sys, polars as pl\n"
        "from twinloop.trace import Trace\n"
        "for size in range(1, 10_000):\n"
        "    tasks = pl.DataFrame({'id': [str(i) for i in range(size)]})\n"
        "    Trace(tasks=tasks).save(sys.argv[1], overwrite=True)\n"
    )
    path = tmp_path / "run"
    Trace(tasks=pl.DataFrame({"id": ["first"]})).save(path)
    for pause in (0.0, 0.05, 0.11, 0.02):
        before = path.stat().st_ino
        child = subprocess.Popen([sys.executable, "-c", script, str(path)])
        while path.stat().st_ino == before and child.poll() is None:
            time.sleep(0.01)
        time.sleep(pause)
        child.kill()
        child.wait()
        assert Trace.load(path).tasks.height >= 1
        Trace(tasks=pl.DataFrame({"id": ["first"]})).save(path, overwrite=True)
        assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
