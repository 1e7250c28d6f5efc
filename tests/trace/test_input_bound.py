"""No reader takes more memory than the limit, which the error states and a setting raises."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.trace.broken import FORMATS, sample, sign, small_trace
from twinloop.description import InputError
from twinloop.description.input_limit import MAX_INPUT_VARIABLE, compute_input_limit
from twinloop.trace import Trace, read


@pytest.mark.parametrize("name", FORMATS)
def test_every_reader_has_a_limit_that_a_setting_changes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample(FORMATS[name], tmp_path)
    monkeypatch.setenv(MAX_INPUT_VARIABLE, "100")
    with pytest.raises(InputError, match=f"GiB of memory .* limit .*{MAX_INPUT_VARIABLE}="):
        read(path, name)
    for lifted in ("1GiB", "none"):
        monkeypatch.setenv(MAX_INPUT_VARIABLE, lifted)
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


def test_a_list_in_one_row_counts_with_all_its_values(tmp_path: Path) -> None:
    """Without a limit, one row of 20 KB takes 2 GB, because of its long list of parents."""
    path = small_trace().save(tmp_path / "run")
    tasks = pl.read_parquet(path / "tasks.parquet")
    long = pl.repeat("a", 17_000_000, eager=True).implode()
    tasks.head(1).with_columns(parents=long).write_parquet(path / "tasks.parquet")
    sign(path)
    assert (path / "tasks.parquet").stat().st_size < 1 << 20
    with pytest.raises(InputError, match=r"tasks.parquet: has 1 rows .* long lists.* is 0.25 GiB"):
        Trace.load(path)


def test_a_list_in_a_table_of_opendc_counts_as_well(tmp_path: Path) -> None:
    path = sample(FORMATS["opendc"], tmp_path)
    tasks = pl.read_parquet(path / "tasks.parquet")
    long = pl.repeat(0, 34_000_000, dtype=pl.Int32, eager=True).implode()
    tasks.head(1).with_columns(parents=long).write_parquet(path / "tasks.parquet")
    with pytest.raises(InputError, match=r"long lists.* is 0.25 GiB"):
        read(path, "opendc")


def test_unknown_columns_count_as_well(tmp_path: Path) -> None:
    """They are refused by their names, but only when the file has been read."""
    path = small_trace().save(tmp_path / "run")
    more = {f"x{number}": pl.repeat(0.0, 40_000) for number in range(1000)}
    pl.select(**more).write_parquet(path / "tasks.parquet")
    sign(path)
    with pytest.raises(InputError, match=r"has 40,000 rows of 1000 columns.* is 0.25 GiB"):
        Trace.load(path)


@pytest.mark.parametrize(
    ("text", "size"),
    [("7", 7), ("2K", 2048), ("1.5kB", None), ("16GiB", 16 << 30), ("3 GB", 3e9), ("big", None)],
)
def test_the_setting_is_a_size(
    text: str, size: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MAX_INPUT_VARIABLE, text)
    if size is None:
        with pytest.raises(InputError, match=f"{MAX_INPUT_VARIABLE}: '{text}' is not a size"):
            compute_input_limit(tmp_path)
    else:
        assert compute_input_limit(tmp_path) == size


def test_updating_the_hashes_does_not_change_a_folder(tmp_path: Path) -> None:
    path = small_trace().save(tmp_path / "run")
    before = json.loads((path / "manifest.json").read_text())
    sign(path)
    assert json.loads((path / "manifest.json").read_text()) == before
