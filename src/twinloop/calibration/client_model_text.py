"""Models of boots and run times as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.calibration.client_models import ClientModels


def format_models(models: ClientModels) -> str:
    """Format models and what they were fitted to, a line for each.

    >>> from twinloop.calibration.client_models import ClientModels, FittedTo
    >>> from twinloop.platform.boots import Boot
    >>> print(format_models(ClientModels(Boot(delay="48s"), None, None, FittedTo(1, 1))))
    fitted to 1 execution with 1 boot
    boot time            48 s, whatever the number of booting instances (at most 1)
    spread               none: every boot is on the line
    slow boots           none
    shortage             none: no boot was queued at the provider
    refused requests     none
    failed boots         none
    errors of run times  unknown: no task has a predicted and a measured time
    """
    fitted = models.fitted_to
    tasks = f", and {format_count(fitted.tasks, 'task')}" if fitted.tasks else ""
    head = (
        f"fitted to {format_count(fitted.executions, 'execution')} with "
        f"{format_count(fitted.boots, 'boot')}{tasks}"
    )
    rows = list(_list_rows(models))
    width = max(len(name) for name, _ in rows)
    return "\n".join([head, *(f"{name:<{width}}  {text}" for name, text in rows)])


def _list_rows(models: ClientModels) -> Iterator[tuple[str, str]]:
    boot, shortage, fitted = models.boot, models.shortage, models.fitted_to
    yield "boot time", _describe_line(models)
    yield (
        "spread",
        f"factor with the standard deviation {boot.spread:.3g} of its logarithm"
        if boot.spread
        else "none: every boot is on the line",
    )
    yield (
        "slow boots",
        "none"
        if boot.slow is None
        else f"{boot.slow.share:.1%} ({fitted.slow}): additional time at least "
        f"{boot.slow.scale:.4g} s, Pareto with shape {boot.slow.shape:.3g}",
    )
    yield (
        "shortage",
        "none: no boot was queued at the provider"
        if shortage is None
        else f"in {shortage.share:.1%} of the executions, with {_describe_range(shortage.hosts)} "
        f"free hosts; {format_count(fitted.queued, 'boot')} queued",
    )
    yield "refused requests", _describe_share(boot.refused, fitted.refused)
    yield "failed boots", _describe_share(boot.failed, fitted.failed)
    errors = models.prediction_errors
    yield (
        "errors of run times",
        "unknown: no task has a predicted and a measured time"
        if errors is None
        else f"predicted time x {errors.factor:.4g} (median), standard deviation of the logarithm "
        f"{errors.spread:.3g} between tasks, {_describe_run_spread(models)} between executions",
    )
    if fitted.executions_left_out:
        count = format_count(fitted.executions_left_out, "execution")
        yield "left out", f"{count} without boots and requests of instances"
    if fitted.tasks_left_out:
        count = format_count(fitted.tasks_left_out, "task")
        yield "left out", f"{count} without a predicted and a measured time, or with a time of 0"


def _describe_run_spread(models: ClientModels) -> str:
    errors, count = models.prediction_errors, models.fitted_to.executions_with_tasks
    assert errors is not None
    return "unknown (one execution)" if count == 1 else f"{errors.run_spread:.3g}"


def _describe_line(models: ClientModels) -> str:
    boot, most = models.boot, models.fitted_to.most_booting
    if not boot.per_booting:
        return f"{boot.delay:.4g} s, whatever the number of booting instances (at most {most})"
    return (
        f"{boot.delay:.4g} s + {boot.per_booting:.4g} s x number of booting instances "
        f"(at most {most})"
    )


def _describe_range(numbers: tuple[int, int]) -> str:
    least, most = numbers
    return str(least) if least == most else f"{least} to {most}"


def _describe_share(share: float, count: int) -> str:
    return f"{share:.1%} ({count})" if count else "none"
