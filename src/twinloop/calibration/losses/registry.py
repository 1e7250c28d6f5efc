"""Losses by name: built-in, from plug-ins, or Python code if allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from twinloop.calibration.losses import point_sets, sorted_times
from twinloop.calibration.losses.explained_variance import EXPLAINED_VARIANCE_LOSSES
from twinloop.calibration.losses.loss import NEEDS, Aggregation, BuiltInLoss, Loss
from twinloop.calibration.losses.matched_tasks import MATCHED_TASK_LOSSES
from twinloop.calibration.losses.per_machine import PerMachineLoss
from twinloop.calibration.losses.sorted_times import SORTED_TIME_LOSSES
from twinloop.calibration.losses.user_function import loss_from_function
from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.description.plugins import CODE_PATTERN, import_code, list_plugins, load_plugin

#: The group of entry points by which installed packages provide losses.
GROUP: Final = "twinloop.losses"

#: The needs of a loss that is a plain function: everything but power and energy, which cost time.
FUNCTION_NEEDS: Final = frozenset(NEEDS.keys() - {"energy", "power"})

#: The default loss of a calibration.
DEFAULT_LOSS: Final = "matched"

_POINTS: Final = frozenset({"run_time", "cpu_time", "machine"})
_BY_MACHINE: Final = (
    PerMachineLoss(
        "chamfer", _POINTS, "nearest (run, CPU) times, both ways, in s",
        measure=point_sets.chamfer, signed=False,
    ),
    PerMachineLoss(
        "ddks", _POINTS, "two-dimensional Kolmogorov-Smirnov statistic of (run, CPU) times",
        measure=point_sets.ddks, signed=False,
    ),
    PerMachineLoss(
        "double-sorted", _POINTS, "sorted run times and sorted CPU times, in s",
        measure=sorted_times.compare_sorted_columns, paired=True,
    ),
    PerMachineLoss(
        "hausdorff", _POINTS, "farthest real (run, CPU) times from any of the twin, in s",
        measure=point_sets.hausdorff, signed=False,
    ),
    PerMachineLoss(
        "mrea", frozenset({"run_time", "machine"}), "relative error of the mean run time",
        measure=sorted_times.compare_means, columns=("run_time",),
    ),
    PerMachineLoss(
        "sum-mrea", _POINTS, "relative errors of the mean run time and CPU time",
        measure=sorted_times.compare_means,
    ),
    PerMachineLoss(
        "sorted", _POINTS, "run and CPU times in the order of run times, in s",
        measure=sorted_times.compare_sorted_pairs, paired=True,
    ),
    PerMachineLoss(
        "chamfer-relative", _POINTS, "chamfer, with times over the real means",
        measure=point_sets.chamfer_relative, signed=False,
    ),
    PerMachineLoss(
        "double-sorted-relative", _POINTS, "double-sorted, each relative to the real one",
        measure=sorted_times.compare_sorted_columns_relative, paired=True,
    ),
    PerMachineLoss(
        "hausdorff-relative", _POINTS, "hausdorff, with times over the real means",
        measure=point_sets.hausdorff_relative, signed=False,
    ),
    PerMachineLoss(
        "sorted-relative", _POINTS, "sorted, each relative to the real one",
        measure=sorted_times.compare_sorted_pairs_relative, paired=True,
    ),
)  # fmt: skip

#: Names of losses in studies of workflow simulators: a loss and its aggregation over scenarios.
_ALIASES: Final[Mapping[str, tuple[str, Aggregation]]] = {
    "L1": ("makespan", "avg"),
    "L2": ("makespan", "max"),
    "L3": ("makespan+mean-task", "avg"),
    "L4": ("makespan+mean-task", "max"),
    "L5": ("makespan+max-task", "avg"),
    "L6": ("makespan+max-task", "max"),
}


def _list_losses() -> Iterator[BuiltInLoss]:
    simple = {loss.name: loss for loss in MATCHED_TASK_LOSSES}
    yield from (*MATCHED_TASK_LOSSES, *SORTED_TIME_LOSSES, *EXPLAINED_VARIANCE_LOSSES)
    for name, (base, method) in _ALIASES.items():
        summary = f"{'mean' if method == 'avg' else 'largest'} over scenarios of {base}"
        yield replace(simple[base], name=name, summary=summary, aggregation=method)
    for loss in _BY_MACHINE:
        yield loss
        yield replace(
            loss,
            name=f"{loss.name}-all",
            needs=loss.needs - {"machine"},
            summary=f"{loss.name}, of all machines together",
            by="all",
        )


#: The built-in losses by name.
LOSSES: Final[Mapping[str, BuiltInLoss]] = MappingProxyType(
    {loss.name: loss for loss in _list_losses()}
)


def get_loss(name: str, *, allow_code: bool = False) -> Loss:
    """Get a loss by its name.

    Args:
        name: The name of a built-in loss or of a plug-in, or `module:name` of a Python object: a
            loss, or a function of two runs (without power and energy).
        allow_code: Whether `module:name` may be imported and run.

    >>> get_loss("L2").aggregation
    'max'
    >>> get_loss("makspan")
    Traceback (most recent call last):
    twinloop.InputError: loss: no loss is called 'makspan' (did you mean 'makespan'?) [TL0209]
    >>> get_loss("mine:slower")
    Traceback (most recent call last):
    twinloop.InputError: loss: 'mine:slower' is Python code, which is not allowed to run
        (--allow-code on the command line, allow_code=True in Python) [TL0224]
    """
    if name in LOSSES:
        return LOSSES[name]
    if CODE_PATTERN.fullmatch(name):
        if not allow_code:
            raise InputError(
                f"'{name}' is Python code, which is not allowed to run",
                kind="code-not-allowed",
                field="loss",
                remedy="--allow-code on the command line, allow_code=True in Python",
            )
        return loss_from_object(import_code(name, "loss"), name)
    plugins = list_plugins(GROUP)
    if name not in plugins:
        remedy = suggest_name(name, [*LOSSES, *plugins])
        raise InputError(
            f"no loss is called '{name}'", kind="unknown-name", field="loss", remedy=remedy
        )
    return loss_from_object(load_plugin(GROUP, name, "loss", "loss"), name)


def loss_from_object(candidate: Any, name: str) -> Loss:
    """Return the object if it is a loss; a function of two runs is converted.

    >>> loss_from_object(3, "three")
    Traceback (most recent call last):
    twinloop.InputError: loss: 'three' is not a loss
        (a function of two runs, or an object with name, needs and residuals) [TL0225]
    """
    if isinstance(candidate, type):
        candidate = candidate()
    if all(hasattr(candidate, part) for part in ("name", "needs", "residuals")) and callable(
        candidate
    ):
        loss: Loss = candidate
        return loss
    if callable(candidate):
        return loss_from_function(candidate, needs=FUNCTION_NEEDS, name=name)
    raise InputError(
        f"'{name}' is not a loss",
        kind="wrong-interface",
        field="loss",
        remedy="a function of two runs, or an object with name, needs and residuals",
    )
