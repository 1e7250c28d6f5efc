"""Node failures: drawn from distributions, and read from files."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import InputError
from twinloop.scenario import Failures, compute_failure_intervals

NODES = [f"n{i}" for i in range(6)]
DAY = 86400.0
KINDS: list[dict[str, Any]] = [
    {"mtbf": "2d", "mttr": "6h"},
    {"mtbf": "2d", "mttr": "6h", "distribution": "weibull", "shape": 0.7},
]


def of(frame: pl.DataFrame, node: str) -> list[tuple[float, float]]:
    return frame.filter(node=node).select("start", "end").rows()


@given(
    st.sampled_from(KINDS), st.lists(st.sampled_from(NODES), unique=True), st.integers(0, 2**40),
    st.floats(0, 100), st.floats(0, 100),
)  # fmt: skip
def test_the_failures_of_a_node_depend_only_on_its_name_and_the_seed(
    kind: dict[str, Any], some: list[str], seed: int, days: float, more: float
) -> None:
    failures = Failures(**kind)
    few = compute_failure_intervals(failures, some, days * DAY, seed)
    many = compute_failure_intervals(failures, NODES, (days + more) * DAY, seed)
    for node in some:
        long = of(many, node)
        assert of(few, node) == [row for row in long if row[0] < days * DAY]
        times = [time for row in long for time in row]
        assert times == sorted(times)
        assert all(later > earlier for earlier, later in pairwise(times))
    order = [(start, NODES.index(node)) for node, start, _ in many.rows()]
    assert order == sorted(order)
    assert many.schema == {"node": pl.String, "start": pl.Float64, "end": pl.Float64}


def test_nodes_and_seeds_differ() -> None:
    failures = Failures(**KINDS[0])
    one, other = (compute_failure_intervals(failures, NODES, 50 * DAY, seed) for seed in (1, 2))
    histories = [tuple(of(frame, node)) for frame in (one, other) for node in NODES]
    assert len(set(histories)) == 2 * len(NODES)


@pytest.mark.parametrize("kind", KINDS)
def test_times_up_and_down_follow_their_distributions(kind: dict[str, Any]) -> None:
    """By Kolmogorov and Smirnov's test; means and rank correlation within four errors."""
    frame = compute_failure_intervals(Failures(**kind), ["a"], 20_000 * DAY, seed=5)
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    up, down = start - np.array([0.0, *end[:-1]]), end - start
    for drawn, mean in ((up, 2 * DAY), (down, DAY / 4)):
        assert abs(drawn.mean() - mean) < 4 * drawn.std() / math.sqrt(drawn.size)
    ranks = np.argsort(np.argsort(up)), np.argsort(np.argsort(down))
    assert abs(np.corrcoef(*ranks)[0, 1]) < 4 / math.sqrt(up.size)
    shape = kind.get("shape", 1.0)
    scale = 2 * DAY / math.gamma(1 + 1 / shape)
    for drawn, of_it in (
        (up, 1 - np.exp(-((np.sort(up) / scale) ** shape))),
        (down, 1 - np.exp(-np.sort(down) / (DAY / 4))),
    ):
        places = np.arange(1, drawn.size + 1) / drawn.size
        assert np.abs(of_it - places).max() < 1.95 / math.sqrt(drawn.size)


def test_too_many_failures_are_refused() -> None:
    with pytest.raises(InputError, match=r"failures\.mtbf: .*more than 10,000,000 .*unit"):
        compute_failure_intervals(Failures(mtbf="1ms", mttr="1ms"), NODES, 1e6)
    with pytest.raises(InputError, match="horizon: must be a finite time"):
        compute_failure_intervals(Failures(mtbf="1d", mttr="1h"), NODES, math.inf)


def test_a_csv_is_read(tmp_path: Path) -> None:
    file = tmp_path / "down.csv"
    file.write_text(
        "why, node ,start,end\nfire,n1,1h,2h\n\nrat,n0,10,20.5\nrat,n1,7200,7300\n"
        "rat,n1,5400,6000\nrat,n0,86400,1e6\n"
    )
    failures = Failures(trace=str(file))
    # The three of n1 overlap or touch: it is down from 3600 to 7300.
    expected = [("n0", 10.0, 20.5), ("n1", 3600.0, 7300.0)]
    assert compute_failure_intervals(failures, NODES, DAY).rows() == expected
    expected.append(("n0", DAY, 1e6))
    assert compute_failure_intervals(failures, NODES, DAY + 1, seed=9).rows() == expected
    file.write_text("node,start,end\n")
    assert compute_failure_intervals(failures, NODES, DAY).is_empty()


@pytest.mark.parametrize("never", ["", " ", "inf", "Infinity"])
def test_a_failure_without_an_end_is_permanent(tmp_path: Path, never: str) -> None:
    file = tmp_path / "down.csv"
    file.write_text(f"node,start,end\nn0,10,20\nn1,50,60\nn0,15,{never}\nn0,500,600\n")
    # The failure of n0 at 15 s covers its later failures.
    found = compute_failure_intervals(Failures(trace=str(file)), NODES, DAY).rows()
    assert found == [("n0", 10.0, None), ("n1", 50.0, 60.0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "down.csv: is empty .first line: node,start,end"),
        ("node,begin,end\n", "down.csv:1: has no column 'start'"),
        ("node,start,end,end\n", "down.csv:1: has more than one column 'end'"),
        ("node,start,end\nn0,1\n", "down.csv:2: has 2 cells, not 3"),
        ("node,start,end\nn0,1,2\nm0,1,2\n", "down.csv:3: node: .*no node 'm0' .known: n0, n1"),
        ("node,start,end\nn0,1,x\n", "down.csv:2: end: must be a duration, not 'x'"),
        ("node,start,end\nn0,,2\n", "down.csv:2: start: must be a duration"),
        ("node,start,end\nn0,-1,2\n", "down.csv:2: start: -1 s is not between 0 and 100,000,0"),
        ("node,start,end\nn0,1,1e12\n", "down.csv:2: end: .* s is not between .*leave it empty if"),
        ("node,start,end\nn0,inf,\n", "down.csv:2: start: must be a duration, not 'inf'"),
        ("node,start,end\nn0,9,2\n", "down.csv:2: end: 2 s is before the start, 9 s"),
        ("node,start,end\nn\x00,9,2\n", "down.csv:2: is not UTF-8 text"),
    ],
)
def test_an_invalid_csv_is_refused_by_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "down.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        compute_failure_intervals(Failures(trace=str(file)), NODES, DAY)
    with pytest.raises(InputError, match="does not exist"):
        compute_failure_intervals(Failures(trace=str(tmp_path / "none")), NODES, DAY)


@pytest.fixture
def opendc(tmp_path: Path) -> Failures:
    """Two failures, 100 s after the start and 50 s after the end of the first."""
    file = tmp_path / "failures.parquet"
    pl.DataFrame(
        {
            "failure_interval": [100_000, 50_000, 1_000_000],
            "failure_duration": [10_000, 20_000, 1_000],
            "failure_intensity": [0.5, 1.0, 0.1],
        }
    ).write_parquet(file)
    return Failures(trace=str(file))


def test_a_failure_of_opendc_affects_a_share_of_the_nodes(opendc: Failures) -> None:
    frame = compute_failure_intervals(opendc, NODES, 1e9, seed=3)
    # A tenth of six nodes is none.
    assert frame.group_by("start", "end").len().sort("start").rows() == [
        (100.0, 110.0, 3),
        (160.0, 180.0, 6),
    ]
    assert compute_failure_intervals(opendc, NODES, 160.0, seed=3).height == 3
    many = [f"n{i}" for i in range(100)]
    assert compute_failure_intervals(opendc, many, 1e9).filter(pl.col("start") > 200).height == 10


def test_one_more_node_displaces_at_most_one(opendc: Failures) -> None:
    picked = set()
    for seed in range(20):
        before = set(compute_failure_intervals(opendc, NODES, 150.0, seed)["node"])
        after = set(compute_failure_intervals(opendc, [*NODES, "new"], 150.0, seed)["node"])
        assert len(before) == len(after) == 3
        assert len(before - after) <= 1
        picked.add(frozenset(before))
    assert len(picked) > 5
