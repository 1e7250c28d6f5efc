"""Law: no reader takes more memory than the bound, which the error states and a setting lifts."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.trace.broken import FORMATS, sample, sign, small_trace
from twinloop.trace import InputError, Trace, read
from twinloop.trace.input_bound import SETTING, input_bound


@pytest.mark.parametrize("name", FORMATS)
def test_every_reader_has_a_bound_that_a_setting_moves(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample(FORMATS[name], tmp_path)
    monkeypatch.setenv(SETTING, "100")
    with pytest.raises(InputError, match=f"GiB of memory .* bound .*{SETTING}="):
        read(path, name)
    for lifted in ("1GiB", "none"):
        monkeypatch.setenv(SETTING, lifted)
        assert read(path, name).tasks.height


def test_a_small_folder_of_very_many_rows_is_refused_before_they_are_read(
    tmp_path: Path,
) -> None:
    path = small_trace().save(tmp_path / "run")
    rows = 12_000_000
    pl.select(t=pl.repeat(0, rows, dtype=pl.Int8)).write_parquet(path / "usage.parquet")
    sign(path)
    assert (path / "usage.parquet").stat().st_size < 1 << 20
    with pytest.raises(InputError, match=r"usage.parquet: has 12,000,000 rows .* is 0.25 GiB"):
        Trace.load(path)


@pytest.mark.parametrize(
    ("said", "size"),
    [("7", 7), ("2K", 2048), ("1.5kB", None), ("16GiB", 16 << 30), ("3 GB", 3e9), ("big", None)],
)
def test_the_setting_is_a_size(
    said: str, size: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, said)
    if size is None:
        with pytest.raises(InputError, match=f"{SETTING}: '{said}' is no size"):
            input_bound(tmp_path)
    else:
        assert input_bound(tmp_path) == size


def test_a_signed_folder_is_as_it_was_saved(tmp_path: Path) -> None:
    path = small_trace().save(tmp_path / "run")
    before = json.loads((path / "manifest.json").read_text())
    sign(path)
    assert json.loads((path / "manifest.json").read_text()) == before
