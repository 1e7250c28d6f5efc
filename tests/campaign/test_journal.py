"""Law: the rows of a journal are read back bit for bit, also if its writer was killed."""

import math
import os
import resource
import signal
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaign.conftest import Script, until
from tests.examples import examples
from twinloop.campaign import CampaignJournal
from twinloop.description import journal as journal_module
from twinloop.description.errors import InputError

numbers = st.floats() | st.integers(-(2**70), 2**70)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
rows = st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=6)


#: Written by `Journal` before searches, studies and real runs shared one class of journals.
EARLIER = Path(__file__).parent / "journals" / "search.jsonl"


def exact(value: Any) -> Any:
    """Something that is equal only where the value is the same to the bit."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    return value


@examples(20)
@given(given_rows=rows, header=st.dictionaries(st.text(), values, max_size=3), at=st.integers(0, 6))
def test_rows_read_back_as_they_were_after_any_number_of_openings(
    given_rows: list[dict[str, Any]], header: dict[str, Any], at: int
) -> None:
    with tempfile.TemporaryDirectory() as there:
        path = Path(there) / "new" / "journal"
        for part in (given_rows[:at], given_rows[at:]):
            with CampaignJournal.open(path, header) as journal:
                for row in part:
                    journal.append(row)
                assert exact(journal.rows[len(journal.rows) - len(part) :]) == exact(part)
        with CampaignJournal.open(path, header) as journal:
            assert exact(journal.rows) == exact(given_rows)
            assert journal.torn == 0


def test_a_journal_cut_at_any_byte_has_the_rows_before_the_cut_and_goes_on(tmp_path: Path) -> None:
    header = {"seed": 1, "space": {"speed": [0.5, 2.0]}}
    told = [{"point": [0.1, math.nan], "loss": -math.inf, "why": "ü\n"}, {}, {"loss": 1 / 3}]
    path = tmp_path / "journal"
    with CampaignJournal.open(path, header) as journal:
        for row in told:
            journal.append(row)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = max(0, whole[:cut].count(b"\n") - 1)
        with CampaignJournal.open(path, header) as journal:
            assert exact(journal.rows) == exact(told[:complete])
            in_rows = whole[:cut].count(b"\n") > 0
            assert journal.torn == int(in_rows and not whole[:cut].endswith(b"\n"))
            for row in told[complete:]:
                journal.append(row)
        assert path.read_bytes() == whole


def test_a_journal_of_an_earlier_version_is_read_resumed_and_written_byte_for_byte(
    tmp_path: Path,
) -> None:
    header = {"seed": 7, "space": {"speed": [0.5, 2.0]}, "loss": math.nan, "name": "größe"}
    given_rows: list[dict[str, Any]] = [
        {"point": [0.1, 1 / 3], "loss": math.inf, "why": "ü\n"},
        {},
        {"loss": 5e-324, "n": 2**70},
    ]
    whole = EARLIER.read_bytes()
    assert exact(list(CampaignJournal.read_rows(EARLIER))) == exact(given_rows)
    path = tmp_path / "journal"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = max(0, whole[:cut].count(b"\n") - 1)
        with CampaignJournal.open(path, header) as journal:
            assert exact(journal.rows) == exact(given_rows[:complete])
            for row in given_rows[complete:]:
                journal.append(row)
        assert path.read_bytes() == whole


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    with CampaignJournal.open(tmp_path / "j", {"n": np.int64(3)}) as journal:
        journal.append({"a": np.array([[0.1, np.nan]]), "b": np.float32(0.5), "c": np.float64(0.1)})
        assert exact(journal.rows) == [exact({"a": [[0.1, math.nan]], "b": 0.5, "c": 0.1})]
    CampaignJournal.open(tmp_path / "j", {"n": 3}).close()


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"seed": 2}, "seed: was 1 when the journal was created, and is 2 now"),
        ({"space": {"speed": [0.5, 3.0]}}, r"space.speed\[1\]: was 2.0 .* is 3.0 now"),
        ({"budget": 5}, "budget: was not set .* is 5 now"),
        ({"loss": None}, "loss: was NaN .* is null now"),
    ],
)
def test_another_header_is_refused_by_the_field_that_differs(
    tmp_path: Path, now: dict[str, Any], message: str
) -> None:
    header = {"seed": 1, "space": {"speed": [0.5, 2.0]}, "loss": math.nan}
    path = tmp_path / "journal"
    CampaignJournal.open(path, header).close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=message):
        CampaignJournal.open(path, {**header, **now})
    assert path.read_bytes() == before
    CampaignJournal.open(path, header).close()


@pytest.mark.parametrize("content", ["notes\nof mine\n", '{"seed": 1}\n', "x", "\n"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(InputError, match="is not a journal"):
        CampaignJournal.open(path, {})
    assert path.read_text() == content


def test_damage_in_the_middle_is_not_taken_for_the_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with CampaignJournal.open(path, {}) as journal:
        for n in range(4):
            journal.append({"n": n})
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'{"n":1}', b'{"n\0:1}'))
    with pytest.raises(InputError, match=r"journal:3: is damaged in the middle"):
        CampaignJournal.open(path, {})
    # Blocks that never reached the disk are zeros, at the end.
    path.write_bytes(whole + bytes(4096))
    with CampaignJournal.open(path, {}) as journal:
        assert (len(journal.rows), journal.torn) == (4, 1)
    assert path.read_bytes() == whole


@pytest.mark.real
def test_two_do_not_write_one_journal(tmp_path: Path, script: Callable[[str], Script]) -> None:
    path = tmp_path / "journal"
    other = script(
        "from twinloop.campaign import CampaignJournal\n"
        "with CampaignJournal.open('journal', {}) as journal:\n"
        "    journal.append({'n': 0})\n"
        "    n = 1\n"
        "    while True:\n"
        "        journal.append({'n': n, 'pad': 'x' * (n % 999)})\n"
        "        n += 1\n"
        "        print(n, flush=True)\n"
    )
    assert other.process.stdout is not None
    while int(other.process.stdout.readline()) < 500:
        assert other.process.poll() is None
    with pytest.raises(InputError, match=f"is being written by process {other.process.pid} "):
        CampaignJournal.open(path, {})
    # Killed in the middle of it, it has lost nothing that `append` came back from.
    os.kill(other.process.pid, signal.SIGKILL)
    said = other.process.stdout.read().split()
    assert until(lambda: other.process.poll() is not None)
    with CampaignJournal.open(path, {}) as journal:
        found = [row["n"] for row in journal.rows]
        assert found == list(range(len(found)))
        assert len(found) >= int(said[-1] if said else 500)
        with pytest.raises(InputError, match=f"is being written by process {os.getpid()} "):
            CampaignJournal.open(path, {})


def test_the_disk_is_asked_for_once_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most once a second, and with the first row after a second has passed."""
    clock = [100.0]
    calls: list[float] = []
    fsync = os.fsync
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: clock[-1])
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(clock[-1]), fsync(file)))
    with CampaignJournal.open(tmp_path / "j", {}) as journal:
        calls.clear()
        for now in (100.0, 100.9, 101.0, 101.1, 101.9, 102.5, 103.4, 103.5, 110.0, 110.5):
            clock.append(now)
            journal.append({"n": 1})
        assert calls == [101.0, 102.5, 103.5, 110.0]
    assert calls[-1] == 110.5  # and all of it at the end


def test_where_there_is_no_room_nothing_of_a_row_stays(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with CampaignJournal.open(path, {}) as journal:
        journal.append({"n": 1})
        before = path.read_bytes()
        # A limit on the size of files stops the write in the middle of the row.
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, hard))
        try:
            with pytest.raises(InputError, match="cannot be written: File too large"):
                journal.append({"n": "x" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)
        assert path.read_bytes() == before
        journal.append({"n": 2})
        assert [row["n"] for row in journal.rows] == [1, 2]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        CampaignJournal.open(tmp_path / "file" / "journal", {})
