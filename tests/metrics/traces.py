"""Random traces, and tiny ones worked out by hand."""

from typing import Any

import polars as pl
from hypothesis import strategies as st

from twinloop.trace import Trace

QUARTERS = st.integers(0, 400).map(lambda n: n / 4)  # sums of these are exact
STATUSES = st.sampled_from(["completed", "completed", "completed", "failed", "killed", None])


@st.composite
def runs(draw: st.DrawFn, min_tasks: int = 0) -> Trace:
    """Tasks that ran on up to three machines, some twice, and some that were rejected."""
    tasks: list[dict[str, Any]] = []
    placements: list[dict[str, Any]] = []
    for number in range(draw(st.integers(min_tasks, 12))):
        name, recorded = f"t{number}", draw(QUARTERS)
        task = {
            "id": name,
            "user": draw(st.sampled_from(["ann", "bob", None])),
            "submit_recorded": recorded,
            "submit": recorded + draw(QUARTERS),
            "deadline": draw(st.none() | QUARTERS),
            "status": draw(STATUSES),
        }
        if number >= min_tasks and draw(st.integers(0, 5)) == 0:
            tasks.append(task | {"status": "rejected"})
            continue
        tasks.append(task)
        at = task["submit"]
        for attempt in range(draw(st.integers(1, 2))):
            start = at + draw(QUARTERS)
            at = start + draw(QUARTERS)
            for machine in draw(st.sets(st.sampled_from("xyz"), min_size=1)):
                placements.append(
                    {
                        "task": name,
                        "attempt": attempt,
                        "machine": machine,
                        "cores": float(draw(st.integers(1, 4))),
                        "start": start,
                        "end": at,
                    }
                )
    return Trace(tasks=frame("tasks", tasks), placements=frame("placements", placements))


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    empty: pl.DataFrame = getattr(Trace(), table)
    return pl.DataFrame(rows, schema=empty.schema) if rows else empty


def hand_made() -> Trace:
    """Four tasks on two cores; d is rejected.

    time   0    5    10   15   20   25   30
    core 1 aaaaaaaaaaabbbbbbbbbbbb
    core 2            bbbbbbbbbbbb  cccccc
    """
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c", "d"],
                "user": ["u", "v", "u", "v"],
                "submit_recorded": [0.0, 2.0, 10.0, 3.0],
                "submit": [0.0, 2.0, 16.0, 3.0],
                "requested_cores": [1.0, 2.0, 1.0, 9.0],
                "deadline": [10.0, 21.0, 40.0, 99.0],
                "status": ["completed", "completed", "killed", "rejected"],
            }
        ),
        placements=pl.DataFrame(
            {
                "task": ["a", "b", "b", "c"],
                "machine": ["n1", "n1", "n2", "n2"],
                "cores": [1.0, 1.0, 1.0, 1.0],
                "start": [0.0, 10.0, 10.0, 24.0],
                "end": [10.0, 22.0, 22.0, 30.0],
            }
        ),
        nodes=pl.DataFrame({"node": ["n1", "n2"], "cores": [1.0, 1.0]}),
        power=pl.DataFrame({"t": [10.0, 30.0], "dt": [10.0, 20.0], "watts": [100.0, 150.0]}),
    )
