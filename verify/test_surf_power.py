"""Power models of the SURF cluster, calibrated on two days and assessed on the next two.

Skipped without the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import surf
from replay_page import table
from surf import HOSTS, PER_DAY, STEP, PowerDifference

import twinloop as tl

pytestmark = pytest.mark.realdata

PAGE = Path(__file__).parents[1] / "docs" / "surf.md"
BLOCK = re.compile(r"<!-- calibrated -->\n(.*?)<!-- end -->", re.DOTALL)

#: Samples of the fitted days; the other days are held out.
FITTED = 2 * PER_DAY
#: The largest accepted error on held-out days (%).
REQUIRED_ERROR = 3.5
BUDGET = 1500
#: Ranges of the idle and the maximum power of a host (W), and the shape parameter of each curve.
WATTS = {"power.idle": {"linear": [0, 100]}, "power.max": {"linear": [100, 300]}}
SHAPES = {
    "linear": {},
    "sqrt": {},
    "mse r=4": {"power.parameter": {"exponential": [0.5, 20]}},
    "asymptotic a=0.3": {"power.parameter": {"exponential": [0.001, 1]}},
}
#: Shifts of the measured power that are tried, in samples.
LAGS = range(-4, 5)


@pytest.fixture(scope="module")
def log(real_data: Path) -> tl.Trace:
    return tl.read(real_data / "surf")


@pytest.fixture(scope="module")
def real(real_data: Path) -> surf.Floats:
    return surf.read_measured_power(real_data / "surf")


@pytest.fixture(scope="module")
def begun(log: tl.Trace) -> tl.Trace:
    """The tasks that are submitted within the first two days."""
    tasks = log.tasks.filter(pl.col("submit") < FITTED * STEP)
    usage = log.usage.filter(pl.col("task").is_in(tasks["id"].implode()))
    return log.replace(tasks=tasks, usage=usage)


@pytest.fixture(scope="module")
def fits(begun: tl.Trace, real: surf.Floats) -> dict[str, tl.Fit]:
    ends = STEP * np.arange(1, FITTED + 1)
    power = pl.DataFrame({"t": ends, "dt": np.full(FITTED, STEP), "watts": real[:FITTED]})
    return {
        name: tl.calibrate(
            tl.Trace(power=power),
            scenario=surf.scenario(begun, name),
            parameters=WATTS | shape,
            budget=BUDGET,
            analysis=0,
        )
        for name, shape in SHAPES.items()
    }


@pytest.fixture(scope="module")
def series(log: tl.Trace, fits: Mapping[str, tl.Fit]) -> dict[str, surf.Floats]:
    """The power of the whole week under each calibrated model."""
    return {
        name: surf.simulate_power(fit.apply(surf.scenario(log, name))) for name, fit in fits.items()
    }


@pytest.fixture(scope="module")
def chosen(fits: Mapping[str, tl.Fit]) -> str:
    """The best model on the training days."""
    return min(fits, key=lambda name: fits[name].loss)


def part(values: surf.Floats, first: int, last: int) -> surf.Floats:
    """From one day to another, both included."""
    return values[(first - 1) * PER_DAY : last * PER_DAY]


def figures(
    fits: Mapping[str, tl.Fit], series: Mapping[str, surf.Floats], real: surf.Floats
) -> str:
    heads = ["model", "idle [W]", "max [W]", "r or a", "MAPE, days 1-2"]
    heads += ["MAPE, days 3-4", "bias", "MAPE, day 3", "MAPE, day 4"]
    rows = []
    for name, fit in sorted(fits.items(), key=lambda item: -item[1].loss):
        values = fit.values
        shape = values.get("power.parameter")
        rows.append(
            [
                name.partition(" ")[0],
                f"{values['power.idle']:.1f}",
                f"{values['power.max']:.1f}",
                "" if shape is None else f"{shape:.2g}",
                PowerDifference.of(part(series[name], 1, 2), part(real, 1, 2)).cells()[0],
                *PowerDifference.of(part(series[name], 3, 4), part(real, 3, 4)).cells(),
                PowerDifference.of(part(series[name], 3, 3), part(real, 3, 3)).cells()[0],
                PowerDifference.of(part(series[name], 4, 4), part(real, 4, 4)).cells()[0],
            ]
        )
    return table(heads, rows)


def test_the_page_has_the_figures(fits, series, real, chosen):
    fresh = figures(fits, series, real)
    hours = [part(each, 1, 4).reshape(-1, 120).mean(axis=1) for each in (series[chosen], real)]
    same = float(np.mean(np.diff(real) == 0))
    print(f"\n{fresh}chosen on days 1 and 2: {chosen}")
    print(
        f"means of 1 h, days 3-4: {PowerDifference.of(hours[0][48:], hours[1][48:]).cells()[0]} %"
    )
    print(f"samples of the measurement that repeat the one before: {same:.0%}")
    found = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[1].strip() == fresh.strip(), f"{PAGE} has old figures"


def test_a_fit_to_two_days_predicts_the_next_two(fits, series, real, chosen):
    assert PowerDifference.of(part(series[chosen], 3, 4), part(real, 3, 4)).mape <= REQUIRED_ERROR
    assert all(run["mode"] == "replay" for run in fits[chosen].runs)


def test_the_loss_is_the_error_of_the_simulated_power(fits, series, real):
    for name, fit in fits.items():
        error = PowerDifference.of(part(series[name], 1, 2), part(real, 1, 2)).mape
        assert 100 * fit.loss == pytest.approx(error, rel=1e-9)


def test_no_other_idle_and_maximum_does_better(fits, series, real):
    """The minimum mean relative error is a linear programme."""
    from scipy import sparse
    from scipy.optimize import linprog

    fitted = real[:FITTED]
    for name, fit in fits.items():
        idle, top = fit.values["power.idle"], fit.values["power.max"]
        share = (series[name][:FITTED] - HOSTS * idle) / (top - idle)
        columns = sparse.csr_array(np.column_stack([HOSTS - share, share]) / fitted[:, np.newaxis])
        apart = sparse.eye_array(FITTED)
        best = linprog(
            np.concatenate([[0.0, 0.0], np.full(FITTED, 1 / FITTED)]),
            A_ub=sparse.vstack(
                [sparse.hstack([columns, -apart]), sparse.hstack([-columns, -apart])]
            ),
            b_ub=np.concatenate([np.ones(FITTED), -np.ones(FITTED)]),
            method="highs-ipm",
        )
        assert best.status == 0
        assert best.fun * (1 - 1e-6) <= fit.loss <= best.fun * 1.001, name


def test_the_first_two_days_do_not_depend_on_later_days(begun, series, fits):
    for name, fit in fits.items():
        alone = surf.simulate_power(fit.apply(surf.scenario(begun, name)))[:FITTED]
        assert alone == pytest.approx(series[name][:FITTED], rel=1e-12)


def test_the_measured_power_does_not_lag(series, real, chosen):
    """Shifted by half a minute or more, in either direction, its error is larger."""
    inner = np.arange(max(LAGS), FITTED - max(LAGS))
    errors = {
        lag: float(np.mean(np.abs(series[chosen][inner - lag] / real[inner] - 1))) for lag in LAGS
    }
    print({lag: round(100 * error, 3) for lag, error in errors.items()})
    assert min(errors, key=errors.__getitem__) == 0
