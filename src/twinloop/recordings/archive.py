"""Archives of recorded runs: a folder of runs as one compressed tar file.

A set of recordings is many small files with similar content: one archive takes a fifth of their
size or less, and version control holds one file. The same files give the same bytes, because names
are sorted, and times, owners and modes are fixed.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

import zstandard

from twinloop.description.errors import InputError
from twinloop.description.file_names import join_below
from twinloop.description.files import (
    is_file,
    iterate_chunks,
    list_input_files,
    make_write_error,
    require_input,
    write_folder_atomically,
)
from twinloop.description.replacement import OwnedFiles

#: The suffix of the name of an archive.
SUFFIX: Final = ".tar.zst"
#: The highest level of compression with a window that every decompressor accepts.
_LEVEL: Final = 19


def pack_folder(folder: str | Path, archive: str | Path) -> Path:
    """Write the files of a folder as one archive; an archive of this name is replaced.

    Hidden files, such as locks, are left out.

    Args:
        folder: The folder of runs.
        archive: The file to write, by convention with the suffix `.tar.zst`.

    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     runs = Path(temporary, "runs")
    ...     runs.mkdir()
    ...     _ = (runs / "notes.json").write_text("{}")
    ...     archive = pack_folder(runs, Path(temporary, "runs.tar.zst"))
    ...     (extract_archive(archive, Path(temporary, "copy")) / "notes.json").read_text()
    '{}'
    """
    folder, archive = Path(folder), Path(archive)
    require_input(folder, folder=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in list_input_files(folder):
            name = file.relative_to(folder)
            if any(part.startswith(".") for part in name.parts):
                continue
            content = file.read_bytes()
            member = tarfile.TarInfo(name.as_posix())  # time 0, owner 0, mode 0644
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    try:
        archive.write_bytes(compressor.compress(packed.getvalue()))
    except OSError as error:
        raise make_write_error(archive, error) from None
    return archive


def extract_archive(archive: str | Path, folder: str | Path) -> Path:
    """Extract the files of an archive into a new folder, all of them or none.

    Only regular files with plain names are accepted, up to the size limit of every input. The files
    are written by this function instead of `tarfile`, so modes, owners and links of the archive
    have no effect.

    Args:
        archive: A tar file, compressed or not.
        folder: The folder to write, which does not exist yet or is empty.
    """
    archive, folder = Path(archive), Path(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            "exists already and contains files",
            kind="not-replaceable",
            file=folder,
            remedy="name a new or empty folder",
        )
    with write_folder_atomically(folder, lambda path: OwnedFiles()) as new:
        for name, content in _read_files(archive):
            file = join_below(new, name, deep=True, file=archive)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return folder


@contextmanager
def open_runs(path: str | Path) -> Iterator[Path]:
    """Open a folder of recorded runs, or an archive of one.

    An archive is extracted into a temporary folder, which is removed when the block ends. Any other
    path, also of a folder that does not exist, is returned unchanged.
    """
    path = Path(path)
    if not is_file(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="twinloop-runs-") as temporary:
        yield extract_archive(path, Path(temporary, "runs"))


def _read_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file in an archive."""
    packed = b"".join(iterate_chunks(archive))
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            for member in tar:
                # Checked before `tarfile` seeks the next header: a negative size would lead back to
                # this one for ever.
                if not 0 <= member.size <= len(packed):
                    raise tarfile.ReadError(f"{member.name!a} has {member.size} bytes")
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    raise InputError(
                        f"{member.name!a} is not a regular file",
                        kind="damaged-file",
                        file=archive,
                        remedy="an archive of runs contains no links, devices or sparse files",
                    )
                content = cast(IO[bytes], tar.extractfile(member)).read()
                yield member.name.removeprefix("./"), content
    except InputError:
        raise
    except (tarfile.TarError, ValueError, OverflowError) as error:  # tarfile raises all of these
        raise InputError(
            f"is not a tar archive, or is damaged: {error}",
            kind="damaged-file",
            file=archive,
            remedy="name an archive that `twinloop.recordings.pack_folder` wrote",
        ) from None
