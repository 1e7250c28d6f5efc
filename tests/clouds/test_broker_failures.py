"""Laws of brokers whose instances fail in their boots, or are refused, at random."""

from __future__ import annotations

from math import ceil, inf
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.cases import make_host, make_scenario, make_task
from tests.clouds.test_broker_base import PythonAsap
from tests.examples import examples
from tests.metrics.test_client_states import check_states
from twinloop.engine import simulate


@examples(20)
@given(
    st.sampled_from(["asap", "afap", "list", "deadline", "python"]),
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 40)), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.integers(0, 5),
)
def test_boots_that_fail_lose_no_task(
    strategy: str, tasks: list[tuple[int, int]], failed: float, refused: float, seed: int
) -> None:
    """An instance that fails or is refused is replaced, and its tasks run on another one."""
    options: dict[str, Any] = {"margin": 5, "instances": 3, "attempts": 1000, "retry": 7}
    policy: Any = {"name": strategy, "options": options}
    scenario = make_scenario(
        [make_host("a b c", 1)],
        [make_task(i, submit, time, requested_time=time) for i, (submit, time) in enumerate(tasks)],
        image={"name": "base", "boot": {"delay": 10, "failed": failed, "refused": refused}},
        billing={"unit": 60, "price": 1},
        policy=PythonAsap(**options) if strategy == "python" else policy,
    ).replace(seed=seed)
    trace = simulate(scenario, decisions=True)
    assert set(trace.tasks["status"]) == {"completed"}
    assert trace.placements.height == len(tasks)
    rented = trace.instances
    assert rented["price"].to_list() == [
        0 if row["reason"] == "refused" else pytest.approx(max(1, ceil(length / 60)))
        for row, length in zip(
            rented.rows(named=True),
            (
                rented["end"].fill_null(trace.placements["end"].max()) - rented["requested"]
            ).to_list(),
            strict=True,
        )
    ]
    if strategy != "python":
        assert rented["end"].null_count() == 0
    # Neither does a broker in Python keep more instances than allowed.
    for time in rented["requested"]:
        end = pl.col("end").fill_null(inf)
        assert rented.filter(pl.col("requested") <= time, time < end).height <= 3
    check_states(trace)
