"""The power of a cluster at SURF, simulated and measured; writes `build/verify/surf.md`.

Skipped without the log.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import surf
from replay_page import blocks, fill_page
from surf import MODELS, PER_DAY, PUBLISHED, PowerDifference

import twinloop as tl
from twinloop.description.files import write_atomically
from twinloop.engine import CompiledScenario

pytestmark = pytest.mark.realdata

ROOT = Path(__file__).parents[1]
FRAME = ROOT / "docs" / "surf.md"
PAGE = ROOT / "build" / "verify" / "surf.md"


@pytest.fixture(scope="module")
def log(real_data):
    return tl.read(real_data / "surf")


@pytest.fixture(scope="module")
def real(real_data):
    return surf.read_measured_power(real_data / "surf")


@pytest.fixture(scope="module")
def series(log):
    return {name: surf.simulate_power(surf.scenario(log, name)) for name in MODELS}


@pytest.fixture(scope="module")
def again(log, series, real):
    """The runs with the idle and maximum power fitted on the first day."""
    found = {}
    for name in MODELS:
        idle, top = surf.fit_power(series[name], real[:PER_DAY])
        found[name] = surf.simulate_power(surf.scenario(log, name, idle=idle, top=top))
    return found


@pytest.fixture(scope="module")
def hypotheses(log, series, real):
    found = {}
    for name in PUBLISHED:
        fine = surf.simulate_power(CompiledScenario(surf.scenario(log, name)), step=1.0)
        found[name] = {
            "as above": PowerDifference.of(series[name], real),
            **{
                what: PowerDifference.of(surf.simulate_power(made(name)), real)
                for what, made in surf.runs(log).items()
            },
            **surf.counts(series[name], fine, real),
        }
    return found


@pytest.fixture(scope="module")
def rest(series, real):
    return surf.Rest.of(series, real)


def test_the_page_is_written_and_the_documentation_has_its_figures(
    series, again, real, hypotheses, rest
):
    tables = {
        "table models": surf.models(series, again, real),
        "table days": surf.days(series, real),
        "table hours": surf.hours(series["mse r=4"], real),
        "table fits": surf.fits(series, real),
        "table hypotheses": surf.hypotheses(hypotheses),
        "table rest": rest.table(),
    }
    frame = FRAME.read_text(encoding="utf-8")
    fresh = fill_page(frame, tables)
    with write_atomically(PAGE) as stream:
        stream.write(fresh.encode())
    print(f"\n{PAGE}")
    assert set(blocks(frame)) == set(tables)
    assert blocks(frame) == blocks(fresh), f"{FRAME} has old figures: copy {PAGE} there"


def test_a_fit_changes_nothing_but_idle_and_maximum(series, again, real):
    """The fitted line, drawn from the first run, is the run with the fitted values."""
    for name in MODELS:
        idle, top = surf.fit_power(series[name], real[:PER_DAY])
        assert again[name] == pytest.approx(surf.rescale_power(series[name], idle, top), rel=1e-9)
        assert PowerDifference.of(again[name], real[:PER_DAY]).bias == pytest.approx(0.0, abs=0.05)


def test_the_placement_of_tasks_does_not_matter(hypotheses):
    for found in hypotheses.values():
        for what in ("spread over the hosts (`worst-fit`)", "hosts at random (`random`)"):
            assert found[what].mape == pytest.approx(found["as above"].mape, rel=1e-9)


def test_no_variant_of_four_days_gives_both_published_figures(hypotheses):
    for what in hypotheses["linear"]:
        both = [abs(hypotheses[name][what].mape - PUBLISHED[name]) for name in PUBLISHED]
        assert max(both) > 0.1, what


def test_one_factor_on_the_unmeasured_days_gives_both_published_figures(rest):
    """Half a unit of the last printed digit of a week is 7/3 of that in three days."""
    rounding = 0.05 * 7 / 3
    assert rest.follows == pytest.approx(rest.needed["linear"], abs=2 * rounding)


def test_models_lie_in_the_order_of_their_curves(series):
    names = ("cubic", "square", "linear", "sqrt")
    for lower, higher in pairwise(names):
        assert (series[lower] <= series[higher] * (1 + 1e-12)).all()
    assert np.isfinite(series["mse r=4"]).all()
