"""Random traces, and tiny ones worked out by hand."""

from typing import Any

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from twinloop.trace import Trace

#: For laws that take the figures of several runs, and that compare whole runs.
few = settings(max_examples=settings.default.max_examples * 2 // 5)
fewer = settings(max_examples=settings.default.max_examples // 5)

QUARTERS = st.integers(0, 400).map(lambda n: n / 4)  # sums of these are exact
STATUSES = st.sampled_from(["completed", "completed", "completed", "failed", "killed", None])
# Made once: thousands of strategies are drawn from for every trace.
_COMPLETE = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "bob", None]),
        "submit_recorded": QUARTERS,
        "late": QUARTERS,
        "deadline": st.none() | QUARTERS,
        "status": STATUSES,
    }
)
_REJECTED = st.integers(0, 5).map(lambda n: n == 0)
_ATTEMPT = st.tuples(
    QUARTERS, QUARTERS, st.dictionaries(st.sampled_from("xyz"), st.integers(1, 4), min_size=1)
)
_ATTEMPTS = st.lists(_ATTEMPT, min_size=1, max_size=2)
_SCHEMAS = {table: getattr(Trace(), table).schema for table in ("tasks", "placements")}


@st.composite
def runs(draw: st.DrawFn, min_tasks: int = 0) -> Trace:
    """Tasks that ran on up to three machines, some twice, and some that were rejected."""
    tasks: list[dict[str, Any]] = []
    placements: list[dict[str, Any]] = []
    for number in range(draw(st.integers(min_tasks, 8))):
        task = {"id": f"t{number}", **draw(_COMPLETE)}
        at = task["submit"] = task["submit_recorded"] + task.pop("late")
        tasks.append(task)
        if number >= min_tasks and draw(_REJECTED):
            task["status"] = "rejected"
            continue
        for attempt, (wait, length, held) in enumerate(draw(_ATTEMPTS)):
            start = at + wait
            at = start + length
            placements += [
                {
                    "task": task["id"],
                    "attempt": attempt,
                    "machine": machine,
                    "cores": float(cores),
                    "start": start,
                    "end": at,
                }
                for machine, cores in held.items()
            ]
    return Trace(tasks=frame("tasks", tasks), placements=frame("placements", placements))


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=_SCHEMAS[table])


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
