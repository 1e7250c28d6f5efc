"""All real executions of the broker Schlouder, simulated with every injected set, against reality.

The mean errors of the makespan must not be larger than those of the simulator SimSchlouder, which
were published for the same executions, by more than 0.005.

TWINLOOP_DATA=... pytest verify/test_lab.py -s
"""

from __future__ import annotations

import tarfile
import time
from pathlib import Path

import pytest

from twinloop.exploration import ExecutionStudy, explore_executions

pytestmark = pytest.mark.realdata

CELLS = ("all", "icps / omssa", "icps / montage", "bonfire / omssa", "bonfire / montage")
#: The mean absolute error of the makespan that SimSchlouder reaches, in each cell.
PUBLISHED = {
    "best": (0.015, 0.001, 0.021, 0.010, 0.093),
    "no-threads": (0.034, 0.012, 0.025, 0.047, 0.137),
    "no-boot-times": (0.063, 0.023, 0.042, 0.124, 0.198),
    "predictions": (0.209, 0.116, 0.430, 0.288, 0.375),
}
ALLOWED = 0.005
#: Time limit of the study on two cores (s).
TIME_LIMIT = 60.0


@pytest.fixture(scope="module")
def study(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> ExecutionStudy:
    folder = tmp_path_factory.mktemp("lab")
    with tarfile.open(real_data / "schlouder" / "executions.tar.gz") as archive:
        archive.extractall(folder / "executions", filter="data")
    lab = folder / "lab.yaml"
    lab.write_text(
        f"measured: {real_data / 'schlouder' / 'real_metrics_all_cells.tsv'}\n"
        "run: [executions]\n"
        "inject: [best, no-threads, no-boot-times, communications, predictions]\n"
    )
    began = time.monotonic()
    found = explore_executions(lab, folder=folder / "study")
    print(f"{found.planned:,} runs in {time.monotonic() - began:.1f} s")
    print(found)
    assert time.monotonic() - began < TIME_LIMIT
    return found


def test_all_executions_are_simulated(study: ExecutionStudy) -> None:
    assert len(study.executions) == 289
    assert study.errors == ()


def test_the_measured_results_belong_to_the_executions(study: ExecutionStudy) -> None:
    """The recorded boots and wall times agree with the measured instances and run times."""
    runs = study.runs.filter(set="best").drop_nulls("measured_makespan_s")
    assert runs.height == 214
    assert (runs["boots"] == runs["measured_instances"]).all()
    relative = runs["measured_usage"] * runs["measured_uptime_s"] / runs["measured_runtime_s"]
    assert (relative - 1).abs().max() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("injected", PUBLISHED)
@pytest.mark.parametrize("cell", CELLS)
def test_errors_are_those_of_the_published_simulator(
    study: ExecutionStudy, injected: str, cell: str
) -> None:
    rows = study.statistics.filter(set=injected, cell=cell, metric="makespan")
    published = PUBLISHED[injected][CELLS.index(cell)]
    found = rows["mean"].item()
    print(f"{injected}, {cell}: {found:.4f}, published {published:.3f}")
    assert found <= published + ALLOWED
