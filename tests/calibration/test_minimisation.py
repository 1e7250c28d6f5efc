"""Searches: bit-identical in any batch, and resumed without loss after an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from twinloop.calibration.parameters.kinds import CategoricalParameter, LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.minimisation import SearchBudget, minimise
from twinloop.description.errors import InputError


class Bowl:
    """The distance from a point, with a region in which evaluations fail."""

    space = Space(
        [
            LinearParameter("a", 0, 10),
            LinearParameter("b", -1, 1),
            CategoricalParameter("c", ["x", "y", "z"]),
        ]
    )

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.calls = 0

    def __call__(self, points: np.ndarray) -> np.ndarray:
        self.calls += len(points)
        losses = np.abs(points - [0.3, 0.6, 0.5]).sum(axis=1)
        return np.where(self.fails & (points[:, 0] > 0.5), np.nan, losses)


class Interrupted(Exception):
    pass


class Dying(Bowl):
    """An objective that raises after a number of evaluations."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def __call__(self, points: np.ndarray) -> np.ndarray:
        if self.calls >= self.after:
            raise Interrupted
        return super().__call__(points)


@pytest.mark.parametrize("optimiser", ["auto", "cma", "random", "genetic", "nelder-mead"])
def test_an_interrupted_search_ends_where_an_uninterrupted_one_does(
    optimiser: str, tmp_path: Path
) -> None:
    whole = minimise(Bowl(), optimiser=optimiser, budget=300, batch=16, journal=tmp_path / "whole")
    for after in (40, 200):
        path = tmp_path / f"cut-{after}"
        with pytest.raises(Interrupted):
            minimise(Dying(after), optimiser=optimiser, budget=300, batch=16, journal=path)
        rest = Bowl()
        again = minimise(rest, optimiser=optimiser, budget=300, batch=16, journal=path)
        assert again.points.tobytes() == whole.points.tobytes()
        assert again.losses.tobytes() == whole.losses.tobytes()
        assert again.optimiser == whole.optimiser
        assert rest.calls < 300


def test_points_in_the_journal_are_not_evaluated_again(tmp_path: Path) -> None:
    done = minimise(Bowl(), budget=128, batch=32, journal=tmp_path / "journal")
    again = Bowl()
    read = minimise(again, budget=128, batch=32, journal=tmp_path / "journal")
    assert again.calls == 0
    assert read.points.tobytes() == done.points.tobytes()
    assert read.optimiser == done.optimiser


def test_another_search_cannot_resume_from_the_journal(tmp_path: Path) -> None:
    minimise(Bowl(), budget=64, batch=32, seed=1, journal=tmp_path / "journal")
    with pytest.raises(InputError, match="seed"):
        minimise(Bowl(), budget=64, batch=32, seed=2, journal=tmp_path / "journal")


def changed_row(path: Path, line: int, **values: object) -> bytes:
    """Change values in a row of a journal, and return the content of the file."""
    lines = path.read_text().splitlines()
    lines[line - 1] = json.dumps(json.loads(lines[line - 1]) | values)
    path.write_text("".join(f"{each}\n" for each in lines))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        *((2, "batch", value) for value in ("many", 0, -3, None, 1.5, [])),
        *((2, "optimiser", value) for value in (7, None, "nosuch", {})),
        *((line, "losses", value) for line in (3, 4) for value in (1.0, ["x"], [None], [[1]], [])),
        *((3, "seconds", value) for value in ("long", None, {}, True)),
        *((3, "points", value) for value in (7, "0123", None)),
    ],
)
def test_an_unusable_journal_is_not_changed(
    line: int, field: str, value: object, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    minimise(Bowl(), budget=64, batch=32, journal=journal)
    kept = changed_row(journal, line, **{field: value})
    counted = Bowl()
    with pytest.raises(InputError) as caught:
        minimise(counted, budget=64, batch=32, journal=journal)
    if value != "nosuch":  # the optimisers report this error
        assert f"journal:{line}: {field}" in str(caught.value)
    assert counted.calls == 0
    assert journal.read_bytes() == kept


def test_failures_are_tolerated_and_counted() -> None:
    found = minimise(Bowl(fails=True), optimiser="cma", budget=400, seed=3)
    assert 0 < found.failed < 400
    assert np.isfinite(found.best_loss)
    assert found.table()["failed"].sum() == found.failed
    best = found.table()["best"].drop_nulls().to_numpy()
    assert (np.diff(best) <= 0).all()


def test_a_search_without_any_loss_is_an_error() -> None:
    class Broken(Bowl):
        def __call__(self, points: np.ndarray) -> np.ndarray:
            return np.full(len(points), np.nan)

    found = minimise(Broken(), optimiser="random", budget=20)
    assert found.failed == 20
    with pytest.raises(InputError, match="all 20 evaluations failed"):
        _ = found.best


def test_a_longer_time_limit_evaluates_the_same_points_and_more() -> None:
    short = minimise(Bowl(), optimiser="de", budget="30ms", batch=8, seed=5)
    long = minimise(Bowl(), optimiser="de", budget="120ms", batch=8, seed=5)
    fewer = min(len(short.losses), len(long.losses))
    assert fewer >= 8
    assert short.points[:fewer].tobytes() == long.points[:fewer].tobytes()


def test_the_budget_is_used_exactly() -> None:
    counted = Bowl()
    found = minimise(counted, optimiser="random", budget=101, batch=10)
    assert len(found.losses) == counted.calls == 101


@pytest.mark.parametrize("budget", ["", "soon", "-3s", 0, "0s", "1.5"])
def test_an_invalid_budget_is_an_error(budget: str | float) -> None:
    with pytest.raises(InputError, match="budget"):
        SearchBudget.of(budget)


def test_the_journal_is_readable_as_text(tmp_path: Path) -> None:
    minimise(Bowl(), optimiser="random", budget=20, batch=10, journal=tmp_path / "journal")
    lines = (tmp_path / "journal").read_text().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
