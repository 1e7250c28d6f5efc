"""Confidence intervals: Student's table, hand-computed batches, autocorrelated batches."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.traces import few, hand_made, runs
from twinloop.description import InputError
from twinloop.metrics import batch_means, confidence_interval, figures, per_task
from twinloop.trace import Trace


@pytest.mark.parametrize(
    ("count", "level", "t"),
    [(2, 0.95, 12.706), (5, 0.90, 2.132), (10, 0.95, 2.262), (20, 0.99, 2.861), (31, 0.95, 2.042)],
)
def test_the_interval_has_the_quantile_of_the_printed_table(
    count: int, level: float, t: float
) -> None:
    """Student's t as statistical tables print it, to three decimals."""
    values = list(range(count))
    deviation = math.sqrt(sum((v - (count - 1) / 2) ** 2 for v in values) / (count - 1))
    found = confidence_interval(values, level)
    assert found.mean == (count - 1) / 2
    assert found.half_width * math.sqrt(count) / deviation == pytest.approx(t, abs=6e-4)
    assert (found.low + found.high) / 2 == pytest.approx(found.mean)


def test_intervals_hold_the_true_mean_as_often_as_they_say() -> None:
    draws = np.random.default_rng(7).normal(5.0, 2.0, (2000, 8))
    held = [
        found.low <= 5.0 <= found.high for found in (confidence_interval(row, 0.9) for row in draws)
    ]
    # Three standard errors of a share of 0.9 over 2,000 trials.
    assert np.mean(held) == pytest.approx(0.9, abs=3 * math.sqrt(0.9 * 0.1 / 2000))


def test_batches_worked_out_by_hand() -> None:
    found = batch_means([99.0, 1.0, 3.0, 4.0, 6.0, 6.0, 8.0], batches=3)
    # 99 fills no batch; the batch means are 2, 5 and 7.
    assert (found.size, found.left_out, found.count) == (2, 1, 3)
    assert found.mean == pytest.approx(14 / 3)
    away = [2 - 14 / 3, 5 - 14 / 3, 7 - 14 / 3]
    expected = (away[0] * away[1] + away[1] * away[2]) / sum(x * x for x in away)
    assert found.autocorrelation == pytest.approx(expected)
    assert found.half_width == pytest.approx(confidence_interval([2.0, 5.0, 7.0]).half_width)
    assert batch_means([4.0] * 6, batches=3).autocorrelation is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=20, max_size=60), st.integers(2, 5))
def test_batches_keep_the_mean(values: list[float], batches: int) -> None:
    found = batch_means(values, batches=batches)
    kept = values[found.left_out :]
    assert len(kept) == found.size * batches
    assert found.left_out < batches
    assert found.mean == pytest.approx(np.mean(kept), abs=1e-6)


def test_too_short_batches_are_detected() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=5000)
    remembering = np.zeros(5000)
    for place in range(1, 5000):  # memory of about 1,000 values
        remembering[place] = 0.999 * remembering[place - 1] + noise[place]
    assert batch_means(noise, batches=25).is_independent
    assert not batch_means(remembering, batches=25).is_independent


@few
@given(runs(min_tasks=4))
def test_the_batches_of_a_trace_are_of_its_tasks_in_order(trace: Trace) -> None:
    ordered = per_task(trace).drop_nulls("wait").sort("submit", "id")["wait"].to_list()
    found = batch_means(trace, batches=2)
    assert found == batch_means(ordered, batches=2)
    backwards = trace.replace(tasks=trace.tasks.reverse())
    assert batch_means(backwards, batches=2) == found
    if not found.left_out:
        spread = figures(trace).wait
        assert spread is not None
        assert found.mean == pytest.approx(spread.mean)


def test_a_warm_up_is_cut_off() -> None:
    assert batch_means(hand_made(), batches=2, warm_up=1.0).mean == 8.0


def test_invalid_arguments_are_rejected() -> None:
    for values, options in (
        ([1.0], {}),
        ([1.0, math.nan], {}),
        ([[1.0], [2.0]], {}),
        (["a", "b"], {}),
        ([1.0, 2.0], {"level": 1.0}),
    ):
        with pytest.raises(InputError):
            confidence_interval(values, **options)  # type: ignore[arg-type]
    for options in (
        {"batches": 1},
        {"batches": 4},
        {"warm_up": 5.0},
    ):
        with pytest.raises(InputError):
            batch_means([1.0, 2.0, 3.0], **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not a quantity"):
        batch_means(hand_made(), quantity="colour")  # type: ignore[arg-type]
