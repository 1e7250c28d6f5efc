"""Errors of an ideal simulator: values worked out by hand, and laws."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.description import InputError
from twinloop.fidelity import estimate_ideal_errors, group_repetitions
from twinloop.trace import Manifest, Trace

SECONDS = st.lists(
    st.floats(1.0, 1e6, allow_nan=False), min_size=2, max_size=6, unique_by=lambda x: round(x, 3)
)


def run(*lengths: float | None, kinds: str = "", failed: int = 0) -> Trace:
    """A run whose tasks follow each other; an unknown length is a task that did not start."""
    ids = [f"t{row}" for row in range(len(lengths))]
    ends: list[float] = []
    for length in lengths:
        ends.append((ends[-1] if ends else 0.0) + (length or 0.0))
    placed = [row for row, length in enumerate(lengths) if length is not None]
    status = ["failed" if row < failed else "completed" for row in range(len(ids))]
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ids,
                "submit": [0.0] * len(ids),
                "kind": [kinds[row] if kinds else None for row in range(len(ids))],
                "status": [status[row] if row in placed else None for row in range(len(ids))],
            }
        ),
        placements=pl.DataFrame(
            {
                "task": [ids[row] for row in placed],
                "start": [ends[row] - (lengths[row] or 0.0) for row in placed],
                "end": [ends[row] for row in placed],
            }
        ),
    )


def test_errors_of_makespan_and_tasks_by_hand() -> None:
    errors = estimate_ideal_errors(
        [run(10, 30, kinds="ab"), run(20, 40, kinds="ab"), run(30, 50, kinds="ab")]
    )
    assert errors.makespans == (40.0, 60.0, 80.0)
    assert errors.makespan == pytest.approx((20 / 40 + 0 + 20 / 80) / 3)
    assert errors.tasks.rows() == [
        ("t0", "a", 3, 20.0, pytest.approx((10 / 10 + 0 + 10 / 30) / 3)),
        ("t1", "b", 3, 40.0, pytest.approx((10 / 30 + 0 + 10 / 50) / 3)),
    ]
    means = errors.tasks["error"].to_list()
    assert errors.average_tasks() == pytest.approx(sum(means) / 2)
    assert errors.average_tasks("b") == pytest.approx(means[1])
    assert errors.average_tasks("c") is None


def test_tasks_that_completed_once_have_no_error() -> None:
    errors = estimate_ideal_errors([run(10, 5, failed=1), run(12, None), run(14, 5)])
    means = errors.tasks.sort("id").select("id", "runs", "mean")
    assert means.rows() == [("t0", 2, 13.0), ("t1", 2, 5.0)]
    alone = estimate_ideal_errors([run(10, 5), run(12, None)])
    assert alone.tasks["id"].to_list() == ["t0"]


def test_a_task_of_zero_seconds_has_no_error() -> None:
    errors = estimate_ideal_errors([run(10, 0), run(12, 4)])
    assert errors.tasks["error"].to_list() == [pytest.approx((1 / 10 + 1 / 12) / 2), None]
    assert errors.average_tasks() == errors.tasks["error"][0]


@given(SECONDS, st.floats(0.1, 10))
@examples(12)
def test_the_error_has_no_unit_and_no_order(lengths: list[float], factor: float) -> None:
    errors = estimate_ideal_errors([run(length) for length in lengths])
    scaled = estimate_ideal_errors([run(length * factor) for length in reversed(lengths)])
    assert scaled.makespan == pytest.approx(errors.makespan)
    assert errors.average_tasks() == pytest.approx(errors.makespan)
    # No value has a smaller error than the best one, and the mean is between the values.
    best = min(
        sum(abs(x - value) / x for x in lengths) / len(lengths)
        for value in [*lengths, sum(lengths) / len(lengths)]
    )
    assert errors.makespan >= best - 1e-9
    assert errors.makespan <= max(lengths) / min(lengths) - 1 + 1e-9


def test_runs_that_cannot_be_compared_are_an_error() -> None:
    with pytest.raises(InputError, match="needs two repetitions or more, not 1"):
        estimate_ideal_errors([run(10)])
    with pytest.raises(InputError, match="needs two repetitions or more, not 0"):
        estimate_ideal_errors([])
    with pytest.raises(InputError, match="run 2 is identical to run 1"):
        estimate_ideal_errors([run(10), run(10)])
    with pytest.raises(InputError, match="run 2 has no positive makespan"):
        estimate_ideal_errors([run(10), run(None)])


def test_groups_have_equal_labels_except_for_the_repetition() -> None:
    def labelled(**labels: str) -> Trace:
        return Trace(manifest=Manifest(facts={"labels": labels}))

    runs = [
        labelled(workflow="m", repetition="1"),
        labelled(workflow="g", repetition="1"),
        labelled(repetition="2", workflow="m"),
    ]
    groups = group_repetitions(runs)
    assert groups == {(("workflow", "m"),): [runs[0], runs[2]], (("workflow", "g"),): [runs[1]]}
    with pytest.raises(InputError, match="run 2 has no labels"):
        group_repetitions([runs[0], Trace()])
