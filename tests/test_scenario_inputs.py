"""All files that a scenario reads are among its inputs: they are hashed and bundled."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from twinloop.exploration.confirmation.bundles import bundle
from twinloop.exploration.ranking.candidate import Candidate

SACCT = (
    "JobID|Submit|Start|End|Elapsed|State|AllocCPUS|ReqCPUS\n"
    "7|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T00:02:00|00:02:00|COMPLETED|1|1\n"
)


def opendc(folder: Path, *, mhz: float) -> dict[str, Any]:
    """A workload with its demand in a second file, which is the file to change."""
    folder.mkdir(parents=True, exist_ok=True)
    task = {"id": [1], "submission_time": [1000], "duration": [60_000], "cpu_count": [2]}
    pl.DataFrame(task | {"cpu_capacity": [4000.0], "mem_capacity": [8]}).write_parquet(
        folder / "tasks.parquet"
    )
    parts = {"id": [1, 1], "duration": [20_000, 40_000], "cpu_usage": [mhz, mhz]}
    pl.DataFrame(parts).write_parquet(folder / "fragments.parquet")
    return {"path": str(folder / "tasks.parquet")}


def sampled(folder: Path, *, mhz: float) -> dict[str, Any]:
    """A log of sacct with samples in a second file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "jobs.txt").write_text(SACCT)
    used = f"00:0{int(mhz // 2000)}:00"
    lines = [f"2024-01-01T00:0{m}:00|7.batch|{used}|1K|1K|1\n" for m in (1, 2)]
    (folder / "samples.txt").write_text("".join(lines))
    return {
        "path": str(folder / "jobs.txt"),
        "options": {"sstat": str(folder / "samples.txt")},
    }


MADE = pytest.mark.parametrize("made", [opendc, sampled])


def scenario(workload: dict[str, Any]) -> tl.Scenario:
    return tl.Scenario(platform="1x4", policy="fcfs", workload=workload)


def makespan(one: tl.Scenario) -> float:
    ends = tl.simulate(one).placements["end"].max()
    assert isinstance(ends, float)
    return ends


@MADE
def test_a_study_runs_again_after_a_change_of_an_input_file(made: Any, tmp_path: Path) -> None:
    def found() -> list[float]:
        return (
            tl.explore(one, {"policy": ["fcfs", "easy"]}, folder=tmp_path / "study", on="serial")
            .runs["makespan_s"]
            .to_list()
        )

    one = scenario(made(tmp_path / "log", mhz=2000.0))
    assert len(one.inputs()) == 2
    before = found()
    made(tmp_path / "log", mhz=16000.0)
    assert found() == [makespan(one)] * 2 != before


@MADE
def test_a_bundle_contains_all_files_of_a_workload(made: Any, tmp_path: Path) -> None:
    names = ("one", "two")
    sizes = {"one": 2000.0, "two": 16000.0}
    given = [scenario(made(tmp_path / name / "log", mhz=sizes[name])) for name in names]
    expected = [makespan(each) for each in given]
    assert expected[0] != expected[1]
    first, second = (Candidate(n, each, {}) for n, each in zip(names, given, strict=True))
    moved = bundle([first], tmp_path / "bundle", baseline=second).rename(tmp_path / "moved")
    for name in names:
        shutil.rmtree(tmp_path / name)
    again = [tl.load(moved / "scenarios" / f"{name}.yaml") for name in names]
    assert [makespan(each) for each in again] == expected


def test_two_folders_with_the_same_name_are_distinguished(tmp_path: Path) -> None:
    # The first file of both, by name, has the same bytes.
    given = []
    for mhz, name in ((2000.0, "one"), (16000.0, "two")):
        opendc(tmp_path / name / "log", mhz=mhz)
        (tmp_path / name / "log" / "a.txt").write_text("the same")
        given.append(scenario({"path": str(tmp_path / name / "log")}))
    expected = [makespan(each) for each in given]
    first, second = (Candidate(n, each, {}) for n, each in zip("ab", given, strict=True))
    made = bundle([first], tmp_path / "bundle", baseline=second)
    again = [tl.load(made / "scenarios" / f"{name}.yaml") for name in "ab"]
    assert [makespan(each) for each in again] == expected


def test_the_samples_of_a_log_are_found_beside_their_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = scenario(sampled(Path("there"), mhz=2000.0))
    expected = makespan(one)
    file = one.save("there/scenario.yaml")
    assert "sstat: samples.txt" in file.read_text()
    sampled(Path("here"), mhz=16000.0)
    monkeypatch.chdir("here")
    assert makespan(tl.load("../there/scenario.yaml")) == expected
