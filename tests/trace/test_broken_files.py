"""One law for every reader and any input.

Reading ends in a Trace whose numbers are numbers and whose losses are counted, or in an error that
names the file. No other exception, no silent change of other rows, and no unbounded memory.
"""

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest
import zstandard
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.examples import every, examples
from tests.trace.broken import (
    FORMATS,
    LINES,
    copied,
    files_of,
    sample,
    spoiled,
    spoiled_tables,
)
from twinloop.description import InputError
from twinloop.trace import Trace, recognise

EVERY = pytest.mark.parametrize("name", FORMATS)


def outcome(name: str, path: Path, why: str = "") -> Trace | None:
    """Read a file and check the law; return None if it was refused."""
    refusal = None
    try:
        trace = FORMATS[name].read(path)
    except InputError as error:
        refusal = str(error)
    if refusal is not None:
        names = {path.name, *(file.name for file in files_of(path) if path.is_dir())}
        assert any(part in refusal for part in names), f"{why}: no file is named in: {refusal}"
        assert len(refusal) < 2000, f"{why}: {refusal[:200]}..."
        return None
    assert isinstance(trace, Trace)
    for table, frame in trace.tables.items():
        floats = frame.select(cs.float())
        finite = floats.select(pl.all().is_finite().all()).row(0) if floats.width else ()
        wrong = [
            column for column, good in zip(floats.columns, finite, strict=True) if good is False
        ]
        assert not wrong, f"{why}: {table} has numbers that are none in {wrong}"
    return trace


@EVERY
def test_the_sample_is_good(name: str, tmp_path: Path) -> None:
    path = sample(FORMATS[name], tmp_path)
    trace = outcome(name, path)
    assert trace is not None
    assert trace.tasks.height == 12
    assert recognise(path).name == name
    assert not [note for note in trace.manifest.cleaned if note.kind == "skipped"]


@EVERY
def test_the_corpus(name: str, tmp_path: Path) -> None:
    good = sample(FORMATS[name], tmp_path)
    for file in files_of(good):
        data = file.read_bytes()
        rng = random.Random(7)
        ways = list(spoiled(data, rng))
        if data.startswith(b"PAR1"):
            # Eleven ways for each column: another sixth of them for each.
            ways += list(spoiled_tables(data, rng))[:: every(6)]
        for way, broken in ways:
            file.write_bytes(broken)
            outcome(name, good, f"{file.name}: {way}")
        file.write_bytes(data)


@EVERY
def test_a_folder_in_place_of_a_file_and_vice_versa(name: str, tmp_path: Path) -> None:
    good = sample(FORMATS[name], tmp_path)
    if good.is_dir():
        file = tmp_path / "plain"
        file.write_text("text\n")
        assert outcome(name, file) is None
        for part in files_of(good):
            (tmp_path / part.name).mkdir()
            here = copied(good, tmp_path / part.name)
            lost = here / part.relative_to(good)
            lost.unlink()
            outcome(name, here, f"without {part.name}")
            lost.mkdir()
            outcome(name, here, f"{part.name} is a folder")
    else:
        (tmp_path / "folder").mkdir()
        assert outcome(name, tmp_path / "folder") is None


edits = st.lists(
    st.tuples(
        st.sampled_from(["flip", "delete", "double", "insert"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    for kind, share, extra in changes:
        at = int(share * len(data))
        if kind == "flip" and data:
            data = data[:at] + bytes([data[at] ^ extra[0]]) + data[at + 1 :]
        elif kind == "delete":
            data = data[:at] + data[at + len(extra) :]
        elif kind == "double":
            data = data[:at] + data[at : at + 8 * len(extra)] + data[at:]
        else:
            data = data[:at] + extra + data[at:]
    return data


@EVERY
@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=edits, which=st.integers(0, 9))
def test_any_few_bytes_may_change(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, float, bytes]],
    which: int,
) -> None:
    good = sample(FORMATS[name], tmp_path_factory.mktemp("few"))
    parts = files_of(good)
    if name == "opendc":
        # Bytes inside the pages of a Parquet file: see test_damaged_pages.
        parts = [file for file in parts if file.suffix != ".parquet"]
    file = parts[which % len(parts)]
    file.write_bytes(edited(file.read_bytes(), changes))
    outcome(name, good, f"{file.name}: {changes}")


def by_line(trace: Trace) -> dict[int, tuple[object, ...]]:
    """Return the rows of the tasks by line, with absolute submission times."""
    epoch = (trace.manifest.epoch_ms or 0) / 1000
    rows = trace.tasks.with_columns((pl.col("submit") + epoch).round(3)).drop(
        "submit_recorded", "ready", "deadline"
    )
    return {row["line"]: tuple(map(repr, row.values())) for row in rows.iter_rows(named=True)}


def counted(trace: Trace) -> dict[tuple[str, str], int]:
    return {(note.kind, note.what): note.count for note in trace.manifest.cleaned}


@pytest.mark.parametrize("name", LINES)
@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=edits, row=st.integers(0, 11))
def test_a_broken_line_changes_no_other(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, float, bytes]],
    row: int,
) -> None:
    good = sample(FORMATS[name], tmp_path_factory.mktemp("line"))
    before = outcome(name, good)
    assert before is not None
    lines = good.read_bytes().split(b"\n")
    number = sorted(by_line(before))[row]
    changed = edited(lines[number - 1], changes).replace(b"\n", b"").replace(b"\r", b"")
    good.write_bytes(b"\n".join([*lines[: number - 1], changed, *lines[number:]]))
    after = outcome(name, good, repr(changed))
    if after is None:
        return
    old, new = by_line(before), by_line(after)
    different = [line for line in old if line != number and old[line] != new.get(line)]
    known = counted(before)
    more = sum(max(count - known.get(key, 0), 0) for key, count in counted(after).items())
    assert len(different) <= more, f"{changed!r}: lines {different} changed, without a report"
    if number not in new and not changed.lstrip().startswith((b"#", b";")) and changed.strip():
        assert more, f"{changed!r}: the line is missing, without a report"


PAGES = """
import random, sys
from pathlib import Path
from tests.trace.broken import files_of
from tests.trace.test_broken_files import edited, outcome
rng = random.Random(7)
folder = Path(sys.argv[1])
for file in files_of(folder):
    data = file.read_bytes()
    for _ in range(int(sys.argv[2])):
        kinds = [rng.choice(["flip", "delete", "double", "insert"]) for _ in range(2)]
        changes = [(kind, rng.random(), rng.randbytes(rng.randint(1, 4))) for kind in kinds]
        file.write_bytes(edited(data, changes))
        outcome("opendc", folder, f"{file.name}: {changes}")
    file.write_bytes(data)
"""


def test_damaged_pages(tmp_path: Path) -> None:
    """In a child process, because the decoder of Polars can abort on a damaged page."""
    good = sample(FORMATS["opendc"], tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PAGES, str(good), str(examples(30).max_examples)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]


CHILD = """
import json, resource, sys
from pathlib import Path
from tests.trace.broken import FORMATS
from twinloop.description import InputError
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
for name, path in json.loads(sys.argv[1]):
    try:
        FORMATS[name].read(Path(path))
        print(name, "read")
    except InputError as error:
        print(name, "refused")
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to limit memory")
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_decompression_bombs_do_not_fill_the_memory(tmp_path: Path, kind: str) -> None:
    """Three gibibytes in a small file, read with a limit of one gibibyte."""
    todo, files = [], []
    if kind == "gzip":
        packed = gzip.compress(b"\0" * (16 << 20))
    else:
        packed = zstandard.compress(b'{"x"' * (4 << 20))
    for name, form in FORMATS.items():
        (tmp_path / name).mkdir()
        good = sample(form, tmp_path / name)
        for index, file in enumerate(files_of(good)):
            (tmp_path / name / str(index)).mkdir()
            here = copied(good, tmp_path / name / str(index))
            target = here / file.relative_to(good) if good.is_dir() else here
            target.write_bytes(packed * (3 << 30 >> 24))
            todo.append((name, str(here)))
            files.append(file.name)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(todo)],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = done.stdout.split()
    assert len(answers) == 2 * len(todo)
    # Optional files of a format (a topology, the list of written files) may be ignored, and a
    # journal is read up to its last valid entry; all others are refused.
    read = {file for file, answer in zip(files, answers[1::2], strict=True) if answer == "read"}
    assert read <= {"topology.json", ".twinloop.json", "journal.jsonl"}
