"""All real executions of the broker Schlouder, simulated with every injected set, against reality.

The mean errors of the makespan must not be larger than those of the simulator SimSchlouder, which
were published for the same executions, by more than 0.005. The tables of uptime, makespan and
usage are printed beside those of the draft.

TWINLOOP_DATA=... pytest verify/test_lab.py -s
"""

from __future__ import annotations

import time
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.example_scripts import load_example
from twinloop.exploration import ExecutionStudy, explore_executions

pytestmark = pytest.mark.realdata

ALLOWED = 0.005
#: Largest mean error of the makespan with everything injected.
BEST = 0.015
#: Time limit of the study on two cores (s).
TIME_LIMIT = 60.0
#: All of its tasks are submitted 7,123 s before t = 0.
EARLY = "v2.standard.hrt.afap.regular.de-hlrs.v2.7"
#: Wall times and uptimes are recorded in whole seconds.
ROUNDING = 0.001


class Lab(NamedTuple):
    """The study, the example with the published tables, and its comparison of makespans."""

    study: ExecutionStudy
    example: ModuleType
    makespans: dict[tuple[str, str], tuple[int, float, float]]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example("schlouder")


@pytest.fixture(scope="module")
def lab(real_data: Path, example: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    example.unpack(real_data / "schlouder" / "executions.tar.gz", folder / "executions")
    design = folder / "lab.yaml"
    design.write_text(
        f"measured: {real_data / 'schlouder' / 'real_metrics_all_cells.tsv'}\n"
        "run: [executions]\n"
        f"inject: [{', '.join(example.SETS)}]\n"
    )
    began = time.monotonic()
    study = explore_executions(design, folder=folder / "study")
    seconds = time.monotonic() - began
    print(f"{study.planned:,} runs in {seconds:.1f} s")
    example.print_tables(study)
    assert seconds < TIME_LIMIT
    rows = example.compare_makespans(study, example.find_negative_work(study))
    return Lab(study, example, {(row[0], row[1]): row[2:5] for row in rows})


def test_all_executions_are_simulated(lab: Lab) -> None:
    assert len(lab.study.executions) == 289
    assert lab.study.errors == ()
    early = "repaired: submissions before t = 0: tasks are submitted at t = 0: 34 in 1 execution"
    assert f"{early} ({EARLY})" in lab.study.notes


def test_the_measured_results_belong_to_the_executions(lab: Lab) -> None:
    """The recorded boots and wall times agree with the measured instances and run times."""
    runs = lab.study.runs.filter(set="best").drop_nulls("measured_makespan_s")
    assert runs.height == 214
    assert (runs["boots"] == runs["measured_instances"]).all()
    relative = runs["measured_usage"] * runs["measured_uptime_s"] / runs["measured_runtime_s"]
    assert (relative - 1).abs().max() == pytest.approx(0.0, abs=1e-6)


def test_the_executions_are_those_of_the_published_simulator(lab: Lab) -> None:
    for name, (count, *_) in lab.example.SIMSCHLOUDER.items():
        assert lab.makespans[name, "all"][0] == count
        cells = [lab.makespans[name, cell][0] for cell in lab.example.CELLS[1:]]
        assert sum(cells) == count


@pytest.mark.parametrize("injected", ["best", "no-threads", "no-boot-times", "predictions"])
@pytest.mark.parametrize("at", range(5))
def test_errors_are_those_of_the_published_simulator(lab: Lab, injected: str, at: int) -> None:
    _, found, published = lab.makespans[injected, lab.example.CELLS[at]]
    assert found <= published + ALLOWED


def test_with_everything_injected_the_makespan_is_right(lab: Lab) -> None:
    assert lab.makespans["best", "all"][1] <= BEST


def test_injected_wall_times_determine_the_usage(lab: Lab) -> None:
    """Usage = wall times / uptime. With the wall times injected, its error is that of the uptime.

    The recorded wall times sum to the measured run time within a few percent: in their difference
    is the rest of the error.
    """
    for name in ("best", "no-threads", "no-boot-times"):
        runs = lab.study.runs.filter(set=name).drop_nulls("measured_usage")
        work = runs["runtime_s"] / runs["measured_runtime_s"]
        uptime = runs["uptime_s"] / runs["measured_uptime_s"]
        expected = (work / uptime - 1).abs()
        assert (runs["usage_error"] - expected).abs().max() == pytest.approx(0.0, abs=1e-6)
        assert (work - 1).abs().median() < ROUNDING


@pytest.mark.parametrize("injected", ["best", "no-threads", "no-boot-times"])
def test_measured_wall_times_make_the_makespan_better(lab: Lab, injected: str) -> None:
    """In each cell, errors with measured wall times are smaller than those of predictions."""
    for cell in lab.example.CELLS:
        rows = lab.study.statistics.filter(cell=cell, metric="makespan")
        means = dict(rows.select("set", "mean").rows())
        assert means[injected] < means["predictions"]
