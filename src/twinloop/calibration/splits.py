"""What a model is fitted to, and what it is checked against: hold-out by run, by size, by time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import per_task
from twinloop.trace.manifest import Edit
from twinloop.trace.trace import Trace, format_count

By = Literal["run", "size", "time"]

#: Losses have parted when validation exceeds training by this factor, the noise floor aside.
OVERFITTING_FACTOR: Final = 1.5


@dataclass(frozen=True, repr=False)
class Split:
    """Traces to fit to, and traces that the fit must not see.

    >>> hold_out([Trace(), Trace(), Trace()], by="run", which=[2])
    <Split by run: 2 traces to train on, 1 to validate on>
    """

    train: tuple[Trace, ...]
    validation: tuple[Trace, ...]
    by: By

    def __repr__(self) -> str:
        train, rest = format_count(len(self.train), "trace"), len(self.validation)
        return f"<Split by {self.by}: {train} to train on, {rest} to validate on>"


def hold_out(
    traces: Sequence[Trace],
    *,
    by: By = "run",
    fraction: float | None = None,
    which: Collection[int] | None = None,
    seed: int = 0,
) -> Split:
    """Divide traces into those to train on and those to validate on.

    - by `run`: some are drawn, the same ones for the same seed.
    - by `size`: the largest go to validation, by tasks times nodes; of equals the later one.
    - by `time`: the latest go to validation, by the time of their t = 0. A single trace is cut
      in two: tasks submitted before and from a moment on, each kept whole.

    Args:
        traces: The runs; two at least, unless one is cut in time.
        by: What tells them apart.
        fraction: The part that goes to validation (one trace at least, and not all): by default
            0.3, by time 0.5. Of a single trace it is the part of the time of its submissions.
        which: The indices of those that go to validation, instead of all this.
        seed: For drawing them.

    >>> import polars as pl
    >>> sizes = [Trace(tasks=pl.DataFrame({"id": [str(i) for i in range(n)]})) for n in (5, 9, 7)]
    >>> [trace.tasks.height for trace in hold_out(sizes, by="size").validation]
    [9]
    """
    if by not in get_args(By):
        remedy = f"one of {', '.join(get_args(By))}"
        raise InputError(f"'{by}' is no way to divide runs", field="by", remedy=remedy)
    part = (0.5 if by == "time" else 0.3) if fraction is None else fraction
    if not 0 < part < 1:
        raise InputError(f"must lie between 0 and 1, not {part:g}", field="fraction")
    if by == "time" and len(traces) == 1 and which is None:
        return _cut(traces[0], part)
    if len(traces) < 2:
        raise InputError(
            f"{format_count(len(traces), 'trace')} cannot be divided",
            field="traces",
            remedy="give two at least, or by='time' to cut one in two",
        )
    count = min(max(round(part * len(traces)), 1), len(traces) - 1)
    if which is None:
        chosen = set(_ordered(traces, by, seed)[-count:])
    else:
        chosen = _checked(which, len(traces))
    return Split(
        tuple(trace for place, trace in enumerate(traces) if place not in chosen),
        tuple(trace for place, trace in enumerate(traces) if place in chosen),
        by,
    )


def check_overfitting(train: float, validation: float, floor: float | None = None) -> str | None:
    """A warning, if the validation loss exceeds 1.5 times the training loss plus the noise floor.

    Args:
        train: The loss on what the model was fitted to.
        validation: The loss on what it was not.
        floor: What a perfect simulator would score, where repetitions say it.

    >>> check_overfitting(0.02, 0.029) is None, check_overfitting(0.02, 0.05, floor=0.03) is None
    (True, True)
    >>> print(check_overfitting(0.02, 0.05))
    the losses part: 0.05 in validation, 0.02 in training: the fit does not carry over to what
    it has not seen; train on more diverse runs, or move fewer parameters
    """
    if not validation > OVERFITTING_FACTOR * train + (floor or 0.0):
        return None
    return (
        f"the losses part: {validation:.3g} in validation, {train:.3g} in training: the fit does "
        "not carry over to what it has not seen; train on more diverse runs, or move fewer "
        "parameters"
    )


def count_nodes(trace: Trace) -> int:
    """The nodes of a run: as its table of nodes says, else as many as were used; at least 1.

    >>> count_nodes(Trace())
    1
    """
    return max(1, trace.nodes.height or trace.placements["machine"].drop_nulls().n_unique())


def _ordered(traces: Sequence[Trace], by: By, seed: int) -> list[int]:
    """The traces in an order whose last ones go to validation."""
    if by == "run":
        return [int(place) for place in np.random.default_rng(seed).permutation(len(traces))]
    if by == "size":
        sizes = [trace.tasks.height * count_nodes(trace) for trace in traces]
        return sorted(range(len(traces)), key=lambda place: (sizes[place], place))
    epochs = []
    for place, trace in enumerate(traces):
        if trace.manifest.epoch_ms is None:
            raise InputError(
                f"trace {place} does not say when its t = 0 was",
                field="by",
                remedy="say which go to validation, or divide by run",
            )
        epochs.append(trace.manifest.epoch_ms)
    return sorted(range(len(traces)), key=lambda place: (epochs[place], place))


def _checked(which: Collection[int], count: int) -> set[int]:
    for place in which:
        if place not in range(count):
            raise InputError(f"there is no trace {place} of {count}", field="which")
    if not 0 < len(set(which)) < count:
        raise InputError(
            f"{len(set(which))} of {count} go to validation", field="which", remedy="some, not all"
        )
    return set(which)


def _cut(trace: Trace, part: float) -> Split:
    submit = per_task(trace)["submit"].drop_nulls()
    first, last = (float(submit.min()), float(submit.max())) if submit.len() else (0.0, 0.0)  # type: ignore[arg-type]
    if last <= first:
        raise InputError(
            "cannot be cut in time: its tasks were all submitted at once",
            field="traces",
            remedy="give several traces",
        )
    moment = last - part * (last - first)
    # The last submission itself must come after the cut, however rounding goes.
    moment = min(max(moment, float(np.nextafter(first, last))), last)
    when = per_task(trace).select("id", "submit")
    early = when.filter(pl.col("submit") < moment)["id"]
    late = when.filter(pl.col("submit") >= moment)["id"]
    before, after = pl.col("t") <= moment, pl.col("t") > moment
    return Split((select_tasks(trace, early, before),), (select_tasks(trace, late, after),), "time")


def select_tasks(trace: Trace, ids: pl.Series, when: pl.Expr | None = None) -> Trace:
    """The part of a run with these tasks, at the times at which they were.

    Args:
        trace: The run.
        ids: The tasks.
        when: Which windows of power belong to it; by default all.

    >>> run = Trace(tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0]}))
    >>> select_tasks(run, pl.Series(["b"])).tasks["submit"].to_list()
    [5.0]
    """
    mine = pl.DataFrame({"id": ids.cast(pl.String)})
    power = trace.power if when is None else trace.power.filter(when)
    edit = Edit(operation="only", parameters={"tasks": mine.height})
    return trace.with_manifest(edit=edit).replace(
        tasks=trace.tasks.join(mine, on="id", how="semi"),
        placements=trace.placements.join(mine, left_on="task", right_on="id", how="semi"),
        usage=trace.usage.join(mine, left_on="task", right_on="id", how="semi"),
        power=power,
    )
