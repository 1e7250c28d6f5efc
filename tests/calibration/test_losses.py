"""Each loss equals its formula, computed by hand for a few tasks."""

import re
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from math import nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.calibration.simulated_runs import make_run, make_runs
from twinloop.calibration import losses
from twinloop.calibration.losses import (
    DEFAULT_LOSS,
    LOSSES,
    aggregate,
    compute_weight,
    estimate_noise_floor,
    evaluate,
    get_loss,
    loss_from_function,
    registry,
)
from twinloop.calibration.run_columns import RunBatch, RunColumns, select_outputs
from twinloop.description.errors import InputError

DOCS = Path(__file__).resolve().parents[2] / "docs"


def loss_of(name: str, real: RunColumns | Sequence[RunColumns], twin: RunBatch) -> list[float]:
    reals = [real] if isinstance(real, RunColumns) else real
    return [float(each) for each in get_loss(name)(reals, twin)]


# --- the workflow losses L1 to L6 ----------------------------------------------------------------

# Two scenarios. In the first the makespan is 10, and 12 in the twin: e = 0.2; tasks of 10 and 4
# against 12 and 3: e = 0.2 and 0.25. In the second 20 against 19: 0.05; tasks 0.05 and 0.5.
SCENARIOS = [
    (make_run([10.0, 4.0]), make_runs([12.0, 3.0])),
    (make_run([20.0, 2.0]), make_runs([19.0, 3.0])),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("L1", (0.2 + 0.05) / 2),
        ("L2", 0.2),
        ("L3", (0.2 + 0.225 + 0.05 + 0.275) / 2),
        ("L4", 0.2 + 0.225),
        ("L5", (0.2 + 0.25 + 0.05 + 0.5) / 2),
        ("L6", 0.05 + 0.5),
    ],
)
def test_the_six_workflow_losses(name: str, expected: float) -> None:
    loss = LOSSES[name]
    per_case = [loss([real], twin) for real, twin in SCENARIOS]
    assert aggregate(per_case, loss.aggregation) == pytest.approx([expected])


# --- the eight losses of jobs that cannot be matched ---------------------------------------------

# On n1 the real jobs took (run, CPU) = (3, 1) and (1, 2), the twin's (2, 4) and (4, 3); on n2 the
# one real job (10, 5), the twin's (13, 9): at a distance of 5.
REAL = make_run([3.0, 1.0, 10.0], [1.0, 2.0, 5.0], [0, 0, 1])
TWIN = make_runs([2.0, 4.0, 13.0], [4.0, 3.0, 9.0], [0, 0, 1])
# On n1 (3, 1) is nearest to (4, 3) and (1, 2) to (2, 4), and the other way round.
NEAR = sqrt(5)


@pytest.mark.parametrize(
    ("name", "on_n1", "on_n2"),
    [
        ("chamfer", NEAR + NEAR, 10.0),
        ("hausdorff", NEAR, 5.0),
        # Sorted 1, 3 against 2, 4; CPU sorted 1, 2 against 3, 4.
        ("double-sorted", 1.0 + 2.0, 3.0 + 4.0),
        # By run time (1,2), (3,1) against (2,4), (4,3).
        ("sorted", 1.0 + 2.0, 3.0 + 4.0),
        ("mrea", 0.5, 0.3),
        ("sum-mrea", 0.5 + 2.0 / 1.5, 0.3 + 0.8),
        ("double-sorted-relative", (1 / 1 + 1 / 3) / 2 + (2 / 1 + 2 / 2) / 2, 0.3 + 0.8),
        ("sorted-relative", (1 / 1 + 1 / 3) / 2 + (2 / 2 + 2 / 1) / 2, 0.3 + 0.8),
        # Both real jobs have less CPU time than both of the twin.
        ("ddks", 1.0, 1.0),
    ],
)
def test_the_losses_by_machine(name: str, on_n1: float, on_n2: float) -> None:
    assert loss_of(name, REAL, TWIN) == pytest.approx([(on_n1 + on_n2) / 2])


def test_sorted_and_double_sorted_differ_where_cpu_times_cross() -> None:
    real, twin = make_run([1.0, 2.0], [5.0, 1.0]), make_runs([1.0, 2.0], [1.0, 5.0])
    assert loss_of("double-sorted", real, twin) == [0.0]
    assert loss_of("sorted", real, twin) == [4.0]


def test_chamfer_and_hausdorff_scaled_by_the_real_means() -> None:
    real, twin = make_run([2.0, 6.0], [1.0, 3.0]), make_runs([2.0, 10.0], [1.0, 3.0])
    # Over means of 4 and 2: (0.5, 0.5) and (1.5, 1.5) against (0.5, 0.5) and (2.5, 1.5).
    assert loss_of("hausdorff-relative", real, twin) == pytest.approx([1.0])
    assert loss_of("chamfer-relative", real, twin) == pytest.approx([0.5 + 0.5])


def test_hausdorff_goes_from_real_to_twin_only() -> None:
    few, many = [1.0, 1.0, 1.0], [1.0, 1.0, 50.0]
    assert loss_of("hausdorff", make_run(few), make_runs(many)) == [0.0]
    assert loss_of("hausdorff", make_run(many), make_runs(few)) == pytest.approx([49 * sqrt(2)])


def test_ddks_in_a_diagonal_needs_two_dimensions() -> None:
    # The same run times and the same CPU times, but joined the other way round: every quadrant
    # about the point (1, 1) or (2, 2) holds half of one set and none of the other.
    real, twin = make_run([1.0, 2.0], [1.0, 2.0]), make_runs([1.0, 2.0], [2.0, 1.0])
    assert loss_of("ddks", real, twin) == [0.5]


def test_all_machines_together() -> None:
    # 1, 3, 10 against 2, 4, 13, and 1, 2, 5 against 3, 4, 9.
    assert loss_of("double-sorted-all", REAL, TWIN) == pytest.approx([5 / 3 + 8 / 3])
    moved = make_runs([2.0, 4.0, 13.0], [4.0, 3.0, 9.0], [0, 1, 2])
    assert loss_of("sorted-all", REAL, moved) == loss_of("sorted-all", REAL, TWIN)


def test_the_average_over_machines_of_several_scenarios() -> None:
    loss = LOSSES["mrea"]
    other = (make_run([10.0, 10.0]), make_runs([14.0, 14.0]))
    weights = [compute_weight(loss, [REAL]), compute_weight(loss, [other[0]])]
    per_case = [loss([REAL], TWIN), loss([other[0]], other[1])]
    # Three machines: 0.5 and 0.3, then 0.4.
    assert aggregate(per_case, "avg", weights) == pytest.approx([(0.5 + 0.3 + 0.4) / 3])
    assert weights == [2.0, 1.0]
    assert compute_weight(LOSSES["mrea-all"], [REAL]) == 1.0


# --- explained variance --------------------------------------------------------------------------


def test_explained_variance_is_a_ratio_of_l1_distances() -> None:
    reals = [make_run([m]) for m in (8.0, 10.0, 15.0)]
    # Their mean is 11, at a distance of 3 + 1 + 4 = 8.
    twin = make_runs([[11.0], [10.0], [20.0]])
    assert loss_of("explained-variance", reals, twin) == pytest.approx([1.0, 7 / 8, 27 / 8])


def test_explained_variance_of_tasks() -> None:
    reals = [make_run([8.0, 1.0]), make_run([12.0, 2.0])]
    twin = make_runs([[10.0, 3.0]])
    # Spreads of 4 and 1; distances of 2 + 2 and 2 + 1.
    assert loss_of("explained-variance-tasks", reals, twin) == pytest.approx([(1 + 3) / 2])
    assert loss_of("explained-variance-max-task", reals, twin) == pytest.approx([3.0])


def test_explained_variance_is_undefined_without_spread() -> None:
    twin = make_runs([1.0, 2.0])
    with pytest.raises(InputError, match="was not repeated"):
        loss_of("explained-variance", make_run([1.0, 2.0]), twin)
    # Three times 0.1 has a mean that is not 0.1: equality decides, not the rounded spread.
    same = [make_run([0.1, 2.0])] * 3
    with pytest.raises(InputError, match="makespan is the same in all 3"):
        loss_of("explained-variance", same, twin)
    bare = RunBatch.of({"makespan_s": [1.0]}, tasks=[], machines=[])
    with pytest.raises(InputError, match="the makespan is the same in all 2 repetitions"):
        loss_of("explained-variance", [bare[0], bare[0]], bare)
    with pytest.raises(InputError, match="the run time of task 't1' is the same in all 2 rep"):
        loss_of("explained-variance-tasks", [make_run([1.0, 2.0]), make_run([3.0, 2.0])], twin)


# --- the rest ------------------------------------------------------------------------------------


def test_matched_tasks() -> None:
    real = make_run([4.0, 6.0], start=[0.0, 4.0])
    twin = make_runs([5.0, 6.0], start=[0.0, 5.0])
    # Makespan 10, mean run time 5: starts 0 and 1, ends 1 and 1, run times 1 and 0.
    assert loss_of("matched", real, twin) == pytest.approx([0.05 + 0.1 + 0.1])
    assert DEFAULT_LOSS == "matched"


def test_matched_tasks_and_their_cpu_times() -> None:
    real = make_run([4.0, 6.0], [2.0, 6.0], start=[0.0, 4.0])
    twin = make_runs([4.0, 6.0], [3.0, 5.0], start=[0.0, 4.0])
    assert loss_of("matched", real, twin) == [0.0]
    assert loss_of("matched+cpu", real, twin) == pytest.approx([1 / 4])


def test_sorted_losses_do_not_depend_on_the_order_of_tasks() -> None:
    real = make_run([4.0, 6.0], start=[0.0, 4.0])
    twin = make_runs([6.0, 4.0], start=[4.0, 0.0])
    assert loss_of("ends-sorted", real, twin) == [0.0]
    assert loss_of("sorted-times", real, twin) == [0.0]
    assert loss_of("matched", real, twin)[0] > 0
    # Ends of 4 and 10 against 5 and 11, over 10.
    assert loss_of("ends-sorted", real, make_runs([5.0, 6.0], start=[0.0, 5.0])) == pytest.approx(
        [0.1]
    )


def test_waits_over_the_mean_turnaround() -> None:
    real = make_run([4.0, 6.0], start=[1.0, 5.0], submit=[0.0, 3.0])
    twin = make_runs([9.0, 9.0], start=[3.0, 3.0], submit=[0.0, 3.0])
    # Waits of 1 and 2 against 0 and 3; turnarounds of 5 and 8.
    assert loss_of("waits", real, twin) == pytest.approx([1.0 / 6.5])


def test_energy_and_power() -> None:
    real = make_run([1.0], energy=200.0, power=[100.0, nan, 50.0])
    twin = make_runs([1.0], energy=210.0, power=[110.0, 7.0, 40.0, 999.0])
    assert loss_of("energy", real, twin) == pytest.approx([0.05])
    assert loss_of("power", real, twin) == pytest.approx([(0.1 + 0.2) / 2])
    assert loss_of("power-scaled", real, twin) == pytest.approx([10 / 75])


def test_repetitions_count_alike() -> None:
    reals = [make_run([10.0]), make_run([20.0])]
    assert loss_of("makespan", reals, make_runs([15.0])) == pytest.approx([(0.5 + 0.25) / 2])


def test_tasks_that_the_real_run_did_not_complete_are_left_out() -> None:
    real, twin = (
        make_run([10.0, nan, 3.0], [1.0, nan, 1.0]),
        make_runs([11.0, 99.0, 3.0], [1.0, 9.0, 1.0]),
    )
    assert loss_of("mean-task", real, twin) == pytest.approx([0.05])
    assert loss_of("sorted", real, twin) == pytest.approx([0.5])


# --- invalid comparisons -------------------------------------------------------------------------

PAIRED = ["sorted", "double-sorted", "sorted-relative", "double-sorted-relative"]
SETS = ["chamfer", "hausdorff", "ddks", "mrea", "sum-mrea", "chamfer-relative"]


@pytest.mark.parametrize("name", PAIRED)
def test_unequal_counts_are_an_error_that_names_the_machine(name: str) -> None:
    twin = make_runs([2.0, 4.0, 13.0], [4.0, 3.0, 9.0], [0, 1, 1])
    with pytest.raises(InputError, match=r"machine 'n1' has 2 tasks in the run and 1 in the twin"):
        loss_of(name, REAL, twin)


@pytest.mark.parametrize("name", SETS)
def test_sets_may_differ_in_number_but_not_be_empty(name: str) -> None:
    assert np.isfinite(
        loss_of(name, REAL, make_runs([2.0, 4.0, 13.0], [4.0, 3.0, 9.0], [0, 1, 1]))[0]
    )
    with pytest.raises(InputError, match="machine 'n2' has 1 tasks in the run and 0 in the twin"):
        loss_of(name, REAL, make_runs([2.0, 4.0, 13.0], [4.0, 3.0, 9.0], [0, 0, 0]))


@pytest.mark.parametrize("name", PAIRED + SETS)
def test_in_a_batch_a_failed_row_does_not_affect_the_others(name: str) -> None:
    times = np.tile([2.0, 4.0, 13.0], (4, 1))
    twin = make_runs(times, times, [[0, 0, 1], [1, 1, 1], [0, 1, 0], [0, 0, -1]])
    found, reasons = evaluate(get_loss(name), [REAL], twin)
    assert found[0] == loss_of(name, REAL, make_runs(times[0], times[0], [0, 0, 1]))[0]
    assert np.isnan(found[[1, 3]]).all()
    assert "'n1' has 2 tasks in the run and 0" in reasons[1]
    assert "task 't2' has no machine" in reasons[3]
    assert get_loss(name)([REAL], twin).tolist()[0] == found[0]
    # The third row has equally many tasks on each machine, but other tasks.
    assert np.isfinite(found[2])


def test_a_reason_has_the_index_of_its_row_in_any_batch() -> None:
    machine = np.tile(np.arange(100) % 2, (1000, 1))
    machine[777] = 0
    twin = make_runs(np.ones((1000, 100)), machine=machine)
    found, reasons = evaluate(get_loss("sorted"), [twin[0]], twin)
    assert np.flatnonzero(np.isnan(found)).tolist() == list(reasons) == [777]


def test_a_task_that_the_twin_did_not_complete_is_named() -> None:
    twin = make_runs([[2.0, 4.0, 13.0], [2.0, nan, 13.0]], machine=[[0, 0, 1], [0, -1, 1]])
    real = make_run([3.0, 1.0, 10.0], machine=[0, 0, 1])
    for name in ("matched", "sorted", "ddks", "ddks-all", "sorted-all", "max-task", "ends-sorted"):
        found, reasons = evaluate(get_loss(name), [real], twin)
        assert np.isfinite(found[0])
        assert np.isnan(found[1])
        assert "task 't1' did not complete in the twin" in reasons[1]


def test_unknown_machines_are_one_group() -> None:
    real, twin = make_run([3.0, 1.0], machine=-1), make_runs([4.0, 2.0], machine=-1)
    assert loss_of("sorted", real, twin) == loss_of("sorted-all", real, twin)
    with pytest.raises(InputError, match="machine of task 't0' of the run is unknown"):
        loss_of("sorted", real, make_runs([4.0, 2.0], machine=[0, 1]))


def test_a_zero_denominator_is_an_error() -> None:
    twin = make_runs([1.0, 2.0], energy=1.0, power=[1.0])
    nothing = make_run([0.0, 0.0], energy=0.0, power=[0.0])
    half = make_run([0.0, 2.0])
    for name in ("makespan", "matched", "energy", "ends-sorted", "power", "mrea"):
        with pytest.raises(InputError, match="is 0: a relative error is undefined"):
            loss_of(name, nothing, twin)
    with pytest.raises(InputError, match="task 't0' of the run took 0 s"):
        loss_of("mean-task", half, twin)
    with pytest.raises(InputError, match="a run time of the run is 0"):
        loss_of("sorted-relative", half, twin)


def test_missing_figures_are_an_error() -> None:
    real, twin = make_run([1.0]), make_runs([1.0])
    with pytest.raises(InputError, match="no energy"):
        loss_of("energy", real, twin)
    with pytest.raises(InputError, match="the run has no power"):
        loss_of("power", real, make_runs([1.0], power=[1.0]))
    with pytest.raises(InputError, match="no real run"):
        loss_of("makespan", [], twin)
    with pytest.raises(InputError, match="not of the same tasks"):
        loss_of("makespan", real, make_runs([1.0, 2.0]))
    with pytest.raises(InputError, match="has no CPU times"):
        loss_of("sorted", make_run([1.0], [nan]), twin)
    with pytest.raises(InputError, match="1 windows of power"):
        loss_of("power", make_run([1.0], power=[1.0, 2.0]), make_runs([1.0], power=[1.0]))


# --- names, functions of the user, floor ---------------------------------------------------------


def test_a_function_of_the_user_fails_alone() -> None:
    def picky(real: RunColumns, twin: RunColumns) -> float:
        if twin.makespan > 5:
            raise RuntimeError("too long")
        return nan if twin.makespan > 3 else abs(real.makespan - twin.makespan)

    loss = loss_from_function(picky, needs={"makespan"})
    found, reasons = evaluate(loss, [make_run([1.0])], make_runs([[2.0], [4.0], [6.0]]))
    assert found[0] == 1.0
    assert reasons == {1: "picky: is not a number", 2: "picky: RuntimeError: too long"}
    with pytest.raises(InputError, match="too long"):
        loss([make_run([1.0])], make_runs([6.0]))
    with pytest.raises(InputError, match="needs 'makspan'"):
        loss_from_function(picky, needs={"makspan"})([make_run([1.0])], make_runs([6.0]))


def test_any_object_with_the_attributes_is_a_loss() -> None:
    class Mine:
        name = "mine"
        needs = frozenset({"makespan"})

        def __call__(self, reals: Sequence[RunColumns], twin: RunBatch) -> Any:
            assert twin.makespan is not None
            if len(twin) == 3:
                raise ZeroDivisionError("none")
            return np.where(twin.makespan > 5, nan, twin.makespan)

        def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> None:
            return None

    found = evaluate(Mine(), [make_run([1.0])], make_runs([[2.0], [6.0]]))
    assert found.losses[0] == 2.0
    assert found.reasons == {1: "mine: is not a number"}
    failed = evaluate(Mine(), [make_run([1.0])], make_runs([[2.0], [6.0], [1.0]]))
    assert np.isnan(failed.losses).all()
    assert failed.reasons[2] == "mine: ZeroDivisionError: none"


def late(real: RunColumns, twin: RunColumns) -> float:
    return max(0.0, twin.makespan - real.makespan)


def test_losses_of_plug_ins_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [
        EntryPoint("late", f"{__name__}:late", registry.GROUP),
        EntryPoint("gone", "no.such.module:late", registry.GROUP),
    ]
    monkeypatch.setattr("twinloop.description.plugins.entry_points", lambda group: offered)
    assert get_loss("late")([make_run([1.0])], make_runs([3.0])).tolist() == [2.0]
    with pytest.raises(InputError, match=r"'gone' .* cannot be loaded: ModuleNotFoundError"):
        get_loss("gone")
    with pytest.raises(InputError, match="did you mean 'late'"):
        get_loss("lat")
    code = get_loss(f"{__name__}:late", allow_code=True)
    assert code([make_run([1.0])], make_runs([3.0])).tolist() == [2.0]
    with pytest.raises(InputError, match="not allowed to run"):
        get_loss(f"{__name__}:late")
    with pytest.raises(InputError, match="has no 'lat'"):
        get_loss(f"{__name__}:lat", allow_code=True)
    with pytest.raises(InputError, match="cannot be imported"):
        get_loss("no.such.module:late", allow_code=True)


def test_aggregation() -> None:
    assert aggregate([[1.0, nan], [3.0, 1.0]], "max").tolist()[0] == 3.0
    assert np.isnan(aggregate([[1.0, nan], [3.0, 1.0]])[1])
    with pytest.raises(InputError, match="'sum' is not an aggregation"):
        aggregate([[1.0]], "sum")
    with pytest.raises(InputError, match="a row per scenario"):
        aggregate([1.0])


def test_the_noise_floor_is_the_median_of_each_run_against_the_others() -> None:
    reals = [make_run([m]) for m in (10.0, 10.0, 12.0, 20.0)]
    relative = lambda a, b: abs(a - b) / b  # noqa: E731
    times = [10.0, 10.0, 12.0, 20.0]
    each = [
        np.mean([relative(a, b) for j, b in enumerate(times) if j != i])
        for i, a in enumerate(times)
    ]
    assert estimate_noise_floor(get_loss("makespan"), reals) == pytest.approx(np.median(each))
    assert estimate_noise_floor(get_loss("makespan"), reals[:1]) is None
    assert estimate_noise_floor(get_loss("explained-variance"), reals[:2]) is None
    assert estimate_noise_floor(get_loss("matched"), reals[:2]) == 0.0


def test_every_loss_is_explained() -> None:
    page = (DOCS / "losses.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\n]+)`", page))
    base = {name.removesuffix("-all") for name in LOSSES}
    assert base - named == set()
    assert all(loss.summary for loss in LOSSES.values())
    assert set(losses.__all__) <= set(vars(losses))


def test_selected_outputs_suffice_for_every_loss() -> None:
    for loss in LOSSES.values():
        if "power" in loss.needs:
            continue
        full = {
            "makespan_s": [3.0], "energy_j": [5.0], "task_submit": [[0.0, 0.0]],
            "task_start": [[0.0, 1.0]], "task_end": [[2.0, 3.0]], "task_cpu": [[1.0, 2.0]],
            "task_machine": [[0, 1]],
        }  # fmt: skip
        asked = {name: full[name] for name in select_outputs(loss.needs)}
        real = RunBatch.of(full, ["a", "b"], ["n1", "n2"])[0]
        twin = RunBatch.of(asked, ["a", "b"], ["n1", "n2"])
        if "variance" in loss.name:
            later = {**full, "makespan_s": [4.0], "task_end": [[3.0, 4.0]]}
            other = RunBatch.of(later, ["a", "b"], ["n1", "n2"])[0]
            assert np.isfinite(loss([real, other], twin)).all()
        else:
            assert loss([real], twin).tolist() == [0.0]
