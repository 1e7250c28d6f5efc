"""The generators poisson, bursts, parallel-tasks and arrays: patterns and loads."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine import run_columns
from twinloop.workload.generators import Arrays, Bursts, ParallelTasks, PoissonTasks


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("load", [0.2, 0.9, 1.5])
def test_poisson_meets_its_load(seed: int, load: float) -> None:
    count, machine, cv = 100_000, 48, 1.0
    cores = {1: 5, 3: 2, 16: 1}
    tasks = PoissonTasks(
        tasks=count, load=load, machine=machine, cores=cores, mean_length=1000, cv=cv
    ).generate(seed)
    work = tasks.tasks["run_time"] * tasks.tasks["requested_cores"]
    offered = work.sum() / (machine * tasks.tasks["submit"].max())
    first = sum(number * weight for number, weight in cores.items()) / 8
    second = sum(number**2 * weight for number, weight in cores.items()) / 8
    # Relative variance of a mean of work (independent length and cores) and of a mean of gaps.
    variance = ((1 + cv**2) * second / first**2 - 1 + 1) / count
    assert abs(offered / load - 1) < 5 * math.sqrt(variance) + 1e-4


def test_poisson_arrivals_are_a_poisson_process() -> None:
    """Counts in equal windows have a variance equal to their mean."""
    submit = PoissonTasks(tasks=100_000, rate=2.0, resolution="exact").generate(1).tasks["submit"]
    counts = np.bincount((submit.to_numpy() // 10).astype(int))[:-1]
    windows = counts.size
    assert abs(counts.mean() - 20) < 5 * math.sqrt(20 / windows)
    assert abs(counts.var() / counts.mean() - 1) < 5 * math.sqrt(2 / windows)


def test_poisson_cores_follow_the_mix() -> None:
    cores = PoissonTasks(tasks=50_000, cores="1:3,2:1").generate(1).tasks["requested_cores"]
    assert set(cores.unique()) == {1.0, 2.0}
    assert abs((cores == 1).mean() - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 50_000)


def test_poisson_lengths_all_equal() -> None:
    assert set(PoissonTasks(cv=0, mean_length=77).generate(1).tasks["run_time"]) == {77.0}


def test_the_hundred_tasks_in_ten_bursts() -> None:
    """Ten bursts of ten tasks a second apart every 300 s, 30, 30, 20 and 20 of the four kinds."""
    tasks = Bursts().generate(seed=20250901).tasks
    assert tasks["submit"].to_list() == [300 * b + i for b in range(10) for i in range(10)]
    assert Counter(tasks["name"]) == {
        "light1c": 30,
        "medium480p": 30,
        "fast1080p": 20,
        "hevc1080p": 20,
    }
    cores = dict(tasks.select("kind", "requested_cores").unique().iter_rows())
    assert cores == {"light1c": 1, "medium480p": 2, "fast1080p": 2, "hevc1080p": 4}
    lengths = tasks.filter(pl.col("name") == "fast1080p")["run_time"]
    assert set(lengths) <= {30.0, 60.0, 120.0, 180.0}


@given(
    bursts=st.integers(1, 8),
    size=st.integers(1, 20),
    jitter=st.floats(0, 100),
    seed=st.integers(0, 10**6),
)
def test_jitter_makes_bursts_late_but_never_early(
    bursts: int, size: int, jitter: float, seed: int
) -> None:
    late = Bursts(bursts=bursts, size=size, jitter=jitter, period=200, interval=2).generate(seed)
    planned = sorted(200 * b + 2 * i for b in range(bursts) for i in range(size))
    for actual, plan in zip(late.tasks["submit"], planned, strict=True):
        assert plan <= actual <= plan + jitter


@given(
    tasks=st.integers(1, 60),
    parallel=st.integers(1, 12),
    spread=st.floats(0, 300),
    shortest=st.floats(0.1, 50),
    variety=st.floats(0, 100),
    resolution=st.sampled_from(["s", "ms", "exact"]),
    seed=st.integers(0, 10**6),
)
def test_each_set_has_ended_before_the_next_begins(
    tasks: int,
    parallel: int,
    spread: float,
    shortest: float,
    variety: float,
    resolution: str,
    seed: int,
) -> None:
    """The engine shares one core fairly among the tasks: the gaps are long enough, not longer."""
    made = ParallelTasks(
        tasks=tasks,
        parallel=parallel,
        spread=spread,
        shortest=shortest,
        longest=shortest + variety,
        resolution=resolution,  # type: ignore[arg-type]
    ).generate(seed)
    submit, length = (made.tasks[name].to_numpy() for name in ("submit", "run_time"))
    finish = run_columns(submit, length).finish
    sets = [slice(first, first + parallel) for first in range(0, tasks, parallel)]
    for one in sets:
        assert submit[one].max() - submit[one].min() <= spread
    for one, following in pairwise(sets):
        begin = finish[one].max()
        # The next set begins a pause of 1 s later, and its first task within the spread.
        assert begin + 1 - 1e-6 <= submit[following].min() <= begin + 1 + 1 + spread + 1e-6


def test_parallel_tasks_by_hand() -> None:
    """Three tasks of 10 s at once keep the core for 30 s; the pause is 5 s."""
    made = ParallelTasks(tasks=7, parallel=3, spread=0, shortest=10, longest=10, pause=5)
    assert made.generate(1).tasks["submit"].to_list() == [0, 0, 0, 35, 35, 35, 70]


def test_parallel_lengths_are_uniform_in_their_range() -> None:
    length = ParallelTasks(tasks=50_000, resolution="exact").generate(1).tasks["run_time"]
    assert 10 <= length.min() < 10.1
    assert 89.9 < length.max() <= 90
    assert abs(length.mean() - 50) < 5 * (80 / math.sqrt(12)) / math.sqrt(50_000)


@given(
    tasks=st.integers(1, 300),
    mean_size=st.floats(1, 40),
    sizes=st.sampled_from(["geometric", "zipf"]),
    largest=st.integers(1, 60),
    seed=st.integers(0, 10**6),
)
def test_the_tasks_of_an_array_are_identical(
    tasks: int, mean_size: float, sizes: str, largest: int, seed: int
) -> None:
    made = Arrays(
        tasks=tasks,
        mean_size=mean_size,
        sizes=sizes,  # type: ignore[arg-type]
        largest=largest,
    ).generate(seed)
    frame = made.tasks
    assert frame.height == tasks
    members = frame.group_by("array", maintain_order=True).agg(
        pl.col("id"), pl.exclude("id").n_unique()
    )
    assert members["array"].to_list() == [str(k) for k in range(1, members.height + 1)]
    for array, ids in members.select("array", "id").iter_rows():
        assert ids == [f"{array}_{index}" for index in range(1, len(ids) + 1)]
        assert len(ids) <= largest
    same = ("submit", "user", "requested_cores", "requested_time", "run_time")
    assert all(members[name].to_list() == [1] * members.height for name in same)


def sizes_of(arrays: Arrays) -> np.ndarray:
    """Sizes of all its arrays but the last, which may be cut."""
    return (
        arrays.generate(1).tasks.group_by("array", maintain_order=True).len()["len"][:-1].to_numpy()
    )


def test_geometric_sizes() -> None:
    """P(size > k) = (1 - 1/mean)^k."""
    sizes = sizes_of(Arrays(tasks=400_000, mean_size=8, largest=100_000))
    for k in (1, 3, 10, 30):
        p = (1 - 1 / 8) ** k
        assert abs((sizes > k).mean() - p) < 5 * math.sqrt(p * (1 - p) / sizes.size)


def test_zipf_sizes() -> None:
    """P(size = k) is in proportion to k^-s."""
    description = Arrays(tasks=400_000, sizes="zipf", exponent=2.0, largest=50)
    sizes = sizes_of(description)
    weights = [k**-2.0 for k in range(1, 51)]
    for k in (1, 2, 5):
        p = k**-2.0 / sum(weights)
        assert abs((sizes == k).mean() - p) < 5 * math.sqrt(p * (1 - p) / sizes.size)
    mean = sum(k * weight for k, weight in enumerate(weights, start=1)) / sum(weights)
    assert description.expected_size == pytest.approx(mean, rel=1e-12)


def test_arrays_meet_their_load() -> None:
    made = Arrays(tasks=1_000_000, load=0.6, machine=32, cv=1.0, mean_size=10, cores=2).generate(1)
    arrays = made.tasks["array"].n_unique()
    work = (made.tasks["run_time"] * made.tasks["requested_cores"]).sum()
    offered = work / (32 * made.tasks["submit"].max())
    # Relative variances of length (1), geometric size (1 - 1/10) and gap (1), per array.
    sigma = math.sqrt(((1 + 1) * (1 + 0.9) - 1 + 1) / arrays)
    assert abs(offered / 0.6 - 1) < 5 * sigma
