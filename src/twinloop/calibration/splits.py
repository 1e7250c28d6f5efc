"""Hold-out validation: division of runs into training and validation, by run, size or time."""

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

#: A fit is overfitted if the validation loss exceeds the training loss by more than this factor.
OVERFITTING_FACTOR: Final = 1.5


@dataclass(frozen=True, repr=False)
class Split:
    """Training traces, and validation traces that the fit must not use.

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
    """Divide traces into training and validation.

    - by `run`: a random sample is validation, the same for the same seed.
    - by `size`: the largest are validation, by tasks times nodes; of equal sizes, the later trace.
    - by `time`: the latest are validation, by the time of their t = 0. A single trace is cut at a
      moment: tasks submitted before it are training, tasks submitted from then on validation.

    Args:
        traces: The runs; at least two, unless a single one is cut in time.
        by: The criterion of the division.
        fraction: The fraction for validation (at least one trace, and not all): by default 0.3,
            by time 0.5. For a single trace it is the fraction of the time of its submissions.
        which: The indices of the traces for validation, instead of the rules above.
        seed: The random seed of the sample.

    >>> import polars as pl
    >>> sizes = [Trace(tasks=pl.DataFrame({"id": [str(i) for i in range(n)]})) for n in (5, 9, 7)]
    >>> [trace.tasks.height for trace in hold_out(sizes, by="size").validation]
    [9]
    """
    if by not in get_args(By):
        remedy = f"one of {', '.join(get_args(By))}"
        raise InputError(
            f"runs cannot be divided by '{by}'",
            kind="not-a-choice",
            field="by",
            remedy=remedy,
        )
    share = (0.5 if by == "time" else 0.3) if fraction is None else fraction
    if not 0 < share < 1:
        raise InputError(
            f"must be between 0 and 1, not {share:g}", kind="out-of-range", field="fraction"
        )
    if by == "time" and len(traces) == 1 and which is None:
        return _cut_in_time(traces[0], share)
    if len(traces) < 2:
        raise InputError(
            f"{format_count(len(traces), 'trace')} cannot be divided",
            kind="not-divisible",
            field="traces",
            remedy="give at least two, or by='time' to cut one in two",
        )
    count = min(max(round(share * len(traces)), 1), len(traces) - 1)
    if which is None:
        chosen = set(_sort_for_validation(traces, by, seed)[-count:])
    else:
        chosen = _check_indices(which, len(traces))
    return Split(
        tuple(trace for index, trace in enumerate(traces) if index not in chosen),
        tuple(trace for index, trace in enumerate(traces) if index in chosen),
        by,
    )


def check_overfitting(train: float, validation: float, floor: float | None = None) -> str | None:
    """Return a warning if the validation loss exceeds 1.5 times the training loss plus the floor.

    Args:
        train: The loss on the training runs.
        validation: The loss on the validation runs.
        floor: The noise floor, if the runs were repeated.

    >>> check_overfitting(0.02, 0.029) is None, check_overfitting(0.02, 0.05, floor=0.03) is None
    (True, True)
    >>> print(check_overfitting(0.02, 0.05))
    the fit does not generalise (overfitting): the loss is 0.05 in validation, 0.02 in training;
    train on more diverse runs, or fit fewer parameters
    """
    if not validation > OVERFITTING_FACTOR * train + (floor or 0.0):
        return None
    return (
        f"the fit does not generalise (overfitting): the loss is {validation:.3g} in validation, "
        f"{train:.3g} in training; train on more diverse runs, or fit fewer parameters"
    )


def count_nodes(trace: Trace) -> int:
    """Count the nodes of a run: its table of nodes, else the machines used; at least 1.

    >>> count_nodes(Trace())
    1
    """
    return max(1, trace.nodes.height or trace.placements["machine"].drop_nulls().n_unique())


def _sort_for_validation(traces: Sequence[Trace], by: By, seed: int) -> list[int]:
    """Order the traces so that the last ones are for validation."""
    if by == "run":
        return [int(index) for index in np.random.default_rng(seed).permutation(len(traces))]
    if by == "size":
        sizes = [trace.tasks.height * count_nodes(trace) for trace in traces]
        return sorted(range(len(traces)), key=lambda index: (sizes[index], index))
    epochs = []
    for index, trace in enumerate(traces):
        if trace.manifest.epoch_ms is None:
            raise InputError(
                f"trace {index} has no epoch: the date of its t = 0 is unknown",
                kind="unknown-date",
                field="by",
                remedy="give `which`, or divide by run",
            )
        epochs.append(trace.manifest.epoch_ms)
    return sorted(range(len(traces)), key=lambda index: (epochs[index], index))


def _check_indices(which: Collection[int], count: int) -> set[int]:
    for index in which:
        if index not in range(count):
            raise InputError(
                f"there is no trace {index}",
                kind="not-divisible",
                field="which",
                remedy=f"the {count} traces are counted from 0",
            )
    if not 0 < len(set(which)) < count:
        raise InputError(
            f"selects {len(set(which))} of {count} traces",
            kind="not-divisible",
            field="which",
            remedy="select at least one, and not all",
        )
    return set(which)


def _cut_in_time(trace: Trace, share: float) -> Split:
    submit = per_task(trace)["submit"].drop_nulls()
    first, last = (float(submit.min()), float(submit.max())) if submit.len() else (0.0, 0.0)  # type: ignore[arg-type]
    if last <= first:
        raise InputError(
            "cannot be cut in time: all tasks were submitted at the same time",
            kind="not-divisible",
            field="traces",
            remedy="give several traces",
        )
    moment = last - share * (last - first)
    # Both parts must have a submission in spite of rounding.
    moment = min(max(moment, float(np.nextafter(first, last))), last)
    when = per_task(trace).select("id", "submit")
    early = when.filter(pl.col("submit") < moment)["id"]
    late = when.filter(pl.col("submit") >= moment)["id"]
    before, after = pl.col("t") <= moment, pl.col("t") > moment
    return Split((select_tasks(trace, early, before),), (select_tasks(trace, late, after),), "time")


def select_tasks(trace: Trace, ids: pl.Series, when: pl.Expr | None = None) -> Trace:
    """Select tasks of a run; their times are not changed.

    Args:
        trace: The run.
        ids: The tasks.
        when: The windows of power to select; by default all.

    >>> run = Trace(tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0]}))
    >>> select_tasks(run, pl.Series(["b"])).tasks["submit"].to_list()
    [5.0]
    """
    selected = pl.DataFrame({"id": ids.cast(pl.String)})
    power = trace.power if when is None else trace.power.filter(when)
    edit = Edit(operation="only", parameters={"tasks": selected.height})
    return trace.with_manifest(edit=edit).replace(
        tasks=trace.tasks.join(selected, on="id", how="semi"),
        placements=trace.placements.join(selected, left_on="task", right_on="id", how="semi"),
        usage=trace.usage.join(selected, left_on="task", right_on="id", how="semi"),
        power=power,
    )
