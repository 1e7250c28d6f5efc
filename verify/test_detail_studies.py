"""Studies of the level of detail on processes and Dask, and after a kill: the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.calibration.detail_runs import LEVELS, PARAMETERS, list_runs
from tests.calibration.test_detail_study import CLOCKS
from twinloop.calibration import calibrate_levels

#: Number of studies of equal versions.
STUDIES = 60
STUDY = """
import sys
from verify.test_detail_studies import run_study
run_study(sys.argv[1])
"""


def run_study(folder: str | Path, **options: Any) -> None:
    training, held_out = list_runs()
    settings: dict[str, Any] = {"budget": 60, "seeds": 3, "warm_start": True, "workers": 2}
    calibrate_levels(
        training,
        LEVELS,
        parameters=PARAMETERS,
        validation=held_out,
        folder=folder,
        **{**settings, **options},
    )


def read_files(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name not in CLOCKS
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("detail") / "study"
    run_study(made)
    return made


@pytest.mark.parametrize("on", ["processes", "dask"])
def test_the_bytes_do_not_depend_on_the_place(on: str, folder: Path, tmp_path: Path) -> None:
    if on == "dask":
        pytest.importorskip("distributed")
    run_study(tmp_path / "again", on=on)
    assert read_files(tmp_path / "again") == read_files(folder)


@pytest.mark.parametrize("seconds", [0.1, 0.6, 1.5])
def test_a_killed_study_continues_with_the_same_bytes(
    seconds: float, folder: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    running = subprocess.Popen([sys.executable, "-c", STUDY, str(again)])
    deadline = time.monotonic() + 60
    while not (again / "searches").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(seconds)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    run_study(again)
    assert read_files(again) == read_files(folder)


def test_equal_versions_are_rarely_distinguished(capsys: pytest.CaptureFixture[str]) -> None:
    """Searches that have not converged differ by chance; 95 % of the intervals contain 0."""
    training, held_out = list_runs()
    wrong, contained = 0, 0
    for study in range(STUDIES):
        found = calibrate_levels(
            training,
            {"platform": {"one": "1x3", "other": "1x3"}, "model.decision_interval": [0, 7]},
            parameters=PARAMETERS,
            validation=held_out,
            budget=10,
            seeds=range(3 * study, 3 * study + 3),
            analysis=0,
        )
        (difference,) = (each for each in found.level_differences if each.factor == "platform")
        low, high = difference.difference.low, difference.difference.high
        assert low is not None
        assert high is not None
        wrong += difference.difference.verdict != "equal"
        contained += low <= 0 <= high
    with capsys.disabled():
        print(f"\n{contained} of {STUDIES} studies of equal versions have 0 in the interval")
    assert wrong <= 0.1 * STUDIES
