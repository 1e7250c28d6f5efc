"""The assessment of a twin against reality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from twinloop.description.errors import InputError
from twinloop.fidelity.alignment import Alignment, digest_trace
from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.completions import EMPTY as NO_CURVES
from twinloop.fidelity.criteria import Criteria
from twinloop.fidelity.errors import Errors
from twinloop.fidelity.finding_list import collect_findings
from twinloop.fidelity.noise_floor import NoiseFloor
from twinloop.fidelity.power_series import build_power_frame
from twinloop.fidelity.verdict import Finding, Mode, Verdict
from twinloop.trace.trace import Trace, format_count


def assess(
    real: Trace,
    twin: Trace,
    *,
    criteria: Criteria | str | Path | None = None,
    repeats: Sequence[Trace] = (),
    floor: NoiseFloor | None = None,
    alignment: Alignment | None = None,
) -> Verdict:
    """Say how far a twin can be trusted: PASS, FAIL or not assessable, criterion by criterion.

    Args:
        real: What really happened.
        twin: What the simulator says, or anything else that is to stand for the real run.
        criteria: What is demanded, or the file that says so; the defaults if not given.
        repeats: Other real runs of the same scenario. Each is assessed against the others as if
            it were the twin: the noise floor, by how much real runs differ from each other.
        floor: The noise floor instead of the repeats, where it is already known; the real run must
            be one of its runs.
        alignment: A factor on the real CPU usage and a time offset, fitted on other runs.

    >>> from twinloop.engine import simulate
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", policy="easy", workload={
    ...     "generate": {"name": "lublin", "parameters": {"tasks": 50, "machine": 16}}})
    >>> verdict = assess(simulate(scenario), simulate(scenario))
    >>> verdict.status, verdict["p95"].figure
    ('PASS', 0.0)
    """
    criteria = _demanded(criteria, repeats, floor)
    a = ComparedRun(real, "the real run")
    b = ComparedRun(twin, "the twin").as_twin_of(a)
    if repeats:
        others = [ComparedRun(other, f"repeat {n}") for n, other in enumerate(repeats, start=1)]
        floor = NoiseFloor.from_runs([a, *others], criteria)
    if alignment is not None:
        alignment.check_not_trained_on(real)
    others = [] if floor is None else floor.others(digest_trace(real))
    found = list(collect_findings(a, b, criteria, alignment or Alignment()))
    if alignment is not None:
        plain = collect_findings(a, b, criteria, Alignment(), unrelated=False)
        found = [_beside(one, without) for one, without in zip(found, plain, strict=True)]
    errors = Errors.from_runs(a, b, criteria.power.step)
    if floor is not None and others:
        found, errors = (
            [floor.annotate_finding(one) for one in found],
            floor.annotate_errors(errors),
        )
    mode, injected = _mode(real, twin)
    return Verdict(
        mode=mode,
        injected=injected,
        criteria=criteria,
        findings=tuple(found),
        errors=errors,
        series=_series(found, a, b, criteria),
        repeats=len(others),
        alignment=alignment,
        notes=(*_taken(injected), *_notes(a, b), *_strangers(a, others)),
    )


def _taken(injected: tuple[str, ...]) -> Iterator[str]:
    if "usage" in injected:
        yield (
            "the CPU usage was taken from the real run: that it is the same again says that the "
            "replay keeps it, no more"
        )


def _demanded(
    criteria: Criteria | str | Path | None, repeats: Sequence[Trace], floor: NoiseFloor | None
) -> Criteria:
    """The criteria, which are those of the floor if there is one."""
    if floor is None:
        return Criteria.resolve(criteria)
    if repeats:
        raise InputError("is of the repeats already", field="floor", remedy="give one of the two")
    if criteria is None:
        return floor.criteria
    given = Criteria.resolve(criteria)
    if given != floor.criteria:
        raise InputError(
            "was worked out by other criteria",
            field="floor",
            remedy="NoiseFloor.from_traces(runs, criteria)",
        )
    return given


def _beside(found: Finding, without: Finding) -> Finding:
    note = found.note
    if without.status != found.status:
        note = "; ".join(part for part in (note, f"{without.status} without the alignment") if part)
    return replace(found, unaligned=without.figure, note=note)


def _series(
    found: list[Finding], real: ComparedRun, twin: ComparedRun, criteria: Criteria
) -> dict[str, pl.DataFrame]:
    behind = {one.name: one.series for one in found}
    return {
        "waits": found[0].series,
        "completions": behind.get("curve RMSE", NO_CURVES),
        "usage": behind["sMAPE"],
        "power": build_power_frame(real, twin, criteria),
        "segments": behind["mean segment r"],
    }


def _mode(real: Trace, twin: Trace) -> tuple[Mode, tuple[str, ...]]:
    facts = twin.manifest.facts
    said = facts.get("mode")
    given = facts.get("injected")
    injected = tuple(map(str, given)) if isinstance(given, list | tuple) else ()
    if digest_trace(real) in facts.get("fitted_on", ()):
        # What was fitted to a run cannot predict it.
        return "replay", (*injected, "the fitted values of the model")
    if said == "replay":
        return "replay", injected
    return ("predict", injected) if said == "predict" else ("unknown", ())


def _notes(real: ComparedRun, twin: ComparedRun) -> Iterator[str]:
    for side in (real, twin):
        ended = side.completed
        if unknown := ended["status"].null_count():
            many = format_count(unknown, "task")
            yield f"{many} of {side.label} of unknown status, taken as completed"
        if waitless := ended["wait"].null_count():
            yield f"{format_count(waitless, 'completed task')} of {side.label} without a known wait"
        if early := int((ended["wait"] < 0).sum()):
            yield f"{format_count(early, 'task')} of {side.label} started before submission"
        if left := side.tasks.height - ended.height - side.left_out:
            yield f"{format_count(left, 'task')} of {side.label} did not complete: not compared"
        if side.left_out:
            yield f"{format_count(side.left_out, 'task')} completed only in {side.label}: not compared"


def _strangers(real: ComparedRun, others: list[ComparedRun]) -> Iterator[str]:
    mine = set(real.tasks["id"])
    for n, other in enumerate(others, start=1):
        if unlike := len(mine ^ set(other.tasks["id"])):
            yield f"repeat {n}: {format_count(unlike, 'task')} not in both it and the real run"
