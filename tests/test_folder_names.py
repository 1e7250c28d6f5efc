"""Every reader takes the names of folders literally, also with wildcards of a shell."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.report.sample_results import make_confirmation, make_scenario
from twinloop.calibration.fit import Fit
from twinloop.campaign import scratch_folders
from twinloop.description import files
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.study.study import Study
from twinloop.report.view.index import Index
from twinloop.trace import Trace, write

SOURCE = Path(tl.__file__).parent
#: A name, and a name that it would match as a pattern.
EXPANDED = [("run[1]", "run1"), ("run*", "runs"), ("run?", "run1"), ("~", "run"), ("r{u}", "ru")]


def trace(label: str) -> Trace:
    return Trace(
        tasks=pl.DataFrame(
            {"id": [label], "submit": [0.0], "requested_cores": [1.0], "run_time": [1.0]}
        )
    )


def fit(label: str) -> Fit:
    return Fit(
        values={"speed_factor": 1.0}, defaults={"speed_factor": 1.0}, loss=1.0, loss_before=2.0,
        loss_name="matched", aggregation="avg", optimiser="random", seed=0, evaluations=1, failed=0,
        seconds=0.1, history=pl.DataFrame({"label": [label]}),
        draws=pl.DataFrame({"speed_factor": [1.0], "label": [label]}),
    )  # fmt: skip


def saved_study(path: Path, label: str) -> None:
    given = make_scenario().replace(workload=trace(label))
    tl.explore(given, {"policy": ["fifo"]}, folder=path)


def study_label(path: Path) -> Any:
    # Its scenario is in its folder, and is read on demand.
    loaded = Study.load(path)
    given = loaded.scenario.workload.resolve(0)
    assert isinstance(given, Trace)
    return given.tasks["id"][0]


def indexed_makespan(path: Path) -> Any:
    entries, _ = Index(path).entries()
    return entries[0].makespan


#: How each kind of folder is written with a label, and how the label is read back.
READERS: dict[str, tuple[Callable[[Path, str], Any], Callable[[Path], Any]]] = {
    "trace": (
        lambda path, label: trace(label).save(path),
        lambda path: Trace.load(path).tasks["id"][0],
    ),
    "recognised": (
        lambda path, label: trace(label).save(path),
        lambda path: tl.read(path).tasks["id"][0],
    ),
    "opendc": (
        lambda path, label: write(trace(label), path, "opendc"),
        lambda path: tl.read(path).tasks["name"][0],
    ),
    "cts": (
        lambda path, label: write(trace(label), path, "cts"),
        lambda path: tl.read(path).tasks["id"][0],
    ),
    "fit": (
        lambda path, label: fit(label).save(path),
        lambda path: Fit.load(path).history["label"][0],
    ),
    "draws": (
        lambda path, label: fit(label).save(path),
        lambda path: Fit.load(path).draws["label"][0],  # type: ignore[index]
    ),
    "confirmation": (
        lambda path, label: make_confirmation({"good": label}).save(path),
        lambda path: Confirmation.load(path).runs["candidate"][0],
    ),
    "study": (saved_study, study_label),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_folder_is_read_by_its_exact_name(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "run"))
    save, load = READERS[kind]
    pairs = EXPANDED if kind in ("trace", "opendc") else EXPANDED[:1]
    for number, (name, other) in enumerate(pairs):
        folder = Path(str(number))
        save(folder / other, "other")
        save(folder / name, "mine")
        assert load(folder / name) == "mine", name
        # Relative, so that the name comes first.
        monkeypatch.chdir(folder)
        assert load(Path(name)) == "mine", name
        monkeypatch.chdir(tmp_path)


def test_the_makespan_in_a_list_is_that_of_the_folder(tmp_path: Path) -> None:
    for name, length in (("all[1]", 5.0), ("all1", 9.0)):
        Trace(
            tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]}),
            placements=pl.DataFrame(
                {"task": ["a"], "machine": ["n"], "start": [0.0], "end": [length]}
            ),
        ).save(tmp_path / name / "run")
    assert indexed_makespan(tmp_path / "all[1]") == 5.0


def test_leftovers_of_a_killed_process_are_removed_by_their_exact_name(tmp_path: Path) -> None:
    """Files and scratch folders that only match as a pattern are kept."""
    dead = "999999999"
    own, other = (tmp_path / f".{name}-{dead}-0123abcd" for name in ("log[1].swf", "log1.swf"))
    own.touch()
    other.touch()
    with files.write_atomically(tmp_path / "log[1].swf") as stream:
        stream.write(b"")
    assert not own.exists()
    assert other.exists()
    inner = tmp_path / "t[1]"
    (inner / f"{scratch_folders.PREFIX}x").mkdir(parents=True)
    (tmp_path / "t1" / f"{scratch_folders.PREFIX}x").mkdir(parents=True)
    assert scratch_folders.remove_unused_folders(inner) == 1
    assert (tmp_path / "t1" / f"{scratch_folders.PREFIX}x").exists()


def test_parquet_files_are_opened_in_one_place_only() -> None:
    """Every other reader of Polars that takes a path would expand it."""
    found = [
        f"{file.relative_to(SOURCE)}:{number}: {line.strip()}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file != SOURCE / "trace" / "parquet.py"
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if re.search(r"\b(pl|polars)\.(read|scan)_", line)
        and not line.lstrip().startswith((">>>", "...", "#"))
    ]
    assert not found
