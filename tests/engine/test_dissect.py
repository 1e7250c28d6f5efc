"""Tasks that share one core, as DISSECT-CF ran them.

Its clock is whole milliseconds, also where starts and work were drawn in whole seconds (`sec`):
continuous sharing may differ from it by one such tick.
"""

from pathlib import Path

import numpy as np
import pytest

from twinloop.engine import Environment, run_columns

pytestmark = pytest.mark.realdata

TICK = 1e-3
FILES = pytest.mark.parametrize(
    "name",
    [
        "sharing_ms_P100_N2000.csv.gz",
        "sharing_ms_P1000_N3000.csv.gz",
        "sharing_sec_P100_N2000.csv.gz",
    ],
)


def columns(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, work and finish in seconds."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, 1] / 1000, table[:, 2] / 1000, table[:, 3] / 1000


@FILES
def test_as_columns(real_data: Path, name: str) -> None:
    start, work, finish = columns(real_data / "dissect" / name)
    run = run_columns(start, work)
    assert np.max(np.abs(run.finish - finish)) <= TICK + 1e-6


@FILES
def test_as_activities(real_data: Path, name: str) -> None:
    start, work, finish = columns(real_data / "dissect" / name)
    env = Environment()
    core = env.resource(1.0)
    tasks = [core.execute(w, at=s) for s, w in zip(start, work, strict=True)]
    env.run()
    assert np.max(np.abs([t.finished for t in tasks] - finish)) <= TICK + 1e-6
