"""Predictions of all real executions with models that are fitted to the other ones.

Nothing of an execution or of its repetitions has an effect on its own prediction. The mean error of
the makespan must be smaller than the one that was published for predictions without a fit. The 90 %
intervals of makespan and bill must contain 90 % of the measured values, as far as the number of
configurations can show.

TWINLOOP_DATA=... pytest verify/test_lab_predictions.py -s
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from twinloop.exploration import ExecutionStudy, explore_executions

pytestmark = pytest.mark.realdata

#: The mean error of the makespan that SimSchlouder reaches without any injection.
PUBLISHED = 0.209
SHARE = 0.9
BOOTS, BOTH = "fit boots", "fit boots + run_times"


@pytest.fixture(scope="module")
def study(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> ExecutionStudy:
    folder = tmp_path_factory.mktemp("lab")
    with tarfile.open(real_data / "schlouder" / "executions.tar.gz") as archive:
        archive.extractall(folder / "executions", filter="data")
    found = explore_executions(
        {
            "measured": str(real_data / "schlouder" / "real_metrics_all_cells.tsv"),
            "factors": {
                "run": [str(folder / "executions")],
                "inject": ["predictions"],
                "fit": ["boots", ["boots", "run_times"]],
            },
        },
        folder=folder / "study",
    )
    print(found)
    assert found.errors == ()
    return found


def find_error(study: ExecutionStudy, name: str) -> float:
    row = study.statistics.filter(set=name, cell="all", metric="makespan")
    return float(row["mean"].item())


def test_all_sets_are_predictions(study: ExecutionStudy) -> None:
    assert set(study.runs["mode"]) == {"predict"}
    assert study.statistics.filter(cell="all")["executions"].unique().to_list() == [214]


def test_fitted_boots_predict_better_than_the_broker(study: ExecutionStudy) -> None:
    assert find_error(study, BOOTS) < find_error(study, "predictions") < PUBLISHED


@pytest.mark.parametrize("value", ["makespan_s", "units"])
def test_the_intervals_contain_what_was_measured(study: ExecutionStudy, value: str) -> None:
    """Repetitions have the same models, so that configurations count as independent, and alike."""
    rows = study.runs.filter(set=BOTH).drop_nulls(f"measured_{value}")
    measured = pl.col(f"measured_{value}")
    inside = measured.is_between(pl.col(f"{value}_low") - 1e-6, pl.col(f"{value}_high") + 1e-6)
    configuration = [label for label in study.executions[0].labels if label != "repetition"]
    shares = rows.group_by(configuration).agg(share=inside.mean())["share"]
    deviation = (SHARE * (1 - SHARE) / shares.len()) ** 0.5
    share = float(np.mean(shares.to_numpy()))
    print(
        f"{value}: {share:.3f} in the mean of {shares.len()} configurations, "
        f"{SHARE} +- {deviation:.3f} expected"
    )
    assert abs(share - SHARE) < 2.5 * deviation
