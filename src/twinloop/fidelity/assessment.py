"""The assessment of a twin against reality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl

from twinloop.fidelity.alignment import Alignment, digest
from twinloop.fidelity.completions import EMPTY as NO_CURVES
from twinloop.fidelity.completions import assess_completions
from twinloop.fidelity.cpu_usage import assess_usage
from twinloop.fidelity.criteria import Criteria
from twinloop.fidelity.errors import Errors
from twinloop.fidelity.power import assess_power
from twinloop.fidelity.power_series import trend
from twinloop.fidelity.side import Side
from twinloop.fidelity.verdict import Finding, Mode, Verdict
from twinloop.fidelity.waits import assess_waits
from twinloop.trace.errors import InputError
from twinloop.trace.trace import Trace, counted


def assess(
    real: Trace,
    twin: Trace,
    *,
    criteria: Criteria | str | Path | None = None,
    repeats: Sequence[Trace] = (),
    alignment: Alignment | None = None,
) -> Verdict:
    """Say how far a twin can be trusted: PASS, FAIL or not assessable, criterion by criterion.

    Args:
        real: What really happened.
        twin: What the simulator says, or anything else that is to stand for the real run.
        criteria: What is demanded, or the file that says so; the defaults if not given.
        repeats: Other real runs of the same scenario. Each is assessed against the others as if
            it were the twin: the noise floor, which no simulator can be expected to pass below.
        alignment: A factor on the real CPU usage and a time offset, fitted on other runs.

    >>> from twinloop.engine import simulate
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", policy="easy", workload={
    ...     "generate": {"name": "lublin", "parameters": {"tasks": 50, "machine": 16}}})
    >>> verdict = assess(simulate(scenario), simulate(scenario))
    >>> verdict.status, verdict["p95"].figure
    ('PASS', 0.0)
    """
    if not isinstance(criteria, Criteria):
        criteria = Criteria() if criteria is None else Criteria.load(criteria)
    a = Side(real, "the real run")
    b = Side(twin, "the twin").facing(a)
    others = [Side(other, f"repeat {n}") for n, other in enumerate(repeats, start=1)]
    _refuse_copies(a, others)
    if alignment is not None:
        alignment.refuse(real)
    findings = list(_findings(a, b, criteria, alignment or Alignment()))
    if alignment is not None:
        plain = _findings(a, b, criteria, Alignment(), unrelated=False)
        findings = [_beside(found, without) for found, without in zip(findings, plain, strict=True)]
    errors = Errors.of(a, b, criteria.power.step)
    if others:
        findings, errors = _with_floor(findings, errors, [a, *others], criteria)
    mode, injected = _mode(real, twin)
    return Verdict(
        mode=mode,
        injected=injected,
        criteria=criteria,
        findings=tuple(findings),
        errors=errors,
        series=_series(findings, a, b, criteria),
        repeats=len(others),
        alignment=alignment,
        notes=(*_notes(a, b), *_strangers(a, others)),
    )


def _findings(
    real: Side, twin: Side, criteria: Criteria, alignment: Alignment, *, unrelated: bool = True
) -> Iterator[Finding]:
    yield from assess_waits(real, twin, criteria)
    yield from assess_completions(real, twin, criteria, alignment.offset)
    yield from assess_usage(real, twin, criteria, alignment.k)
    yield from assess_power(real, twin, criteria, alignment.offset, unrelated=unrelated)


def _beside(found: Finding, without: Finding) -> Finding:
    note = found.note
    if without.status != found.status:
        note = "; ".join(part for part in (note, f"{without.status} without the alignment") if part)
    return replace(found, unaligned=without.figure, note=note)


def _with_floor(
    findings: list[Finding], errors: Errors, runs: list[Side], criteria: Criteria
) -> tuple[list[Finding], Errors]:
    """The same with what a perfect simulator would score: each run as the twin of each other."""
    scores: dict[tuple[str, str], list[Finding]] = {}
    between = []
    for one, other in permutations(runs, 2):
        as_twin = other.facing(one)
        for found in _findings(one, as_twin, criteria, Alignment(), unrelated=False):
            if found.status != "not assessable":
                scores.setdefault((found.metric, found.name), []).append(found)
        between.append(Errors.of(one, as_twin, criteria.power.step))
    floored = [_floored(found, scores.get((found.metric, found.name), ())) for found in findings]
    return floored, errors.with_floor(between)


def _floored(found: Finding, scores: Sequence[Finding]) -> Finding:
    known = [score.figure for score in scores if score.figure is not None]
    note = found.note
    fail = sum(score.status == "FAIL" for score in scores)
    if found.status != "not assessable" and 2 * fail > len(scores):
        said = "repetitions of the real run fail this too"
        note = f"{note}; {said}" if note else said
    return replace(found, floor=float(np.median(known)) if known else None, note=note)


def _series(
    findings: list[Finding], real: Side, twin: Side, criteria: Criteria
) -> dict[str, pl.DataFrame]:
    behind = {found.name: found.series for found in findings}
    return {
        "waits": findings[0].series,
        "completions": behind.get("curve RMSE", NO_CURVES),
        "usage": behind["sMAPE"],
        "power": trend(real, twin, criteria),
        "segments": behind["mean segment r"],
    }


def _mode(real: Trace, twin: Trace) -> tuple[Mode, tuple[str, ...]]:
    facts = twin.manifest.facts
    said = facts.get("mode")
    given = facts.get("injected")
    injected = tuple(map(str, given)) if isinstance(given, list | tuple) else ()
    if digest(real) in facts.get("fitted_on", ()):
        # What was fitted to a run cannot predict it.
        return "replay", (*injected, "the fitted values of the model")
    if said == "replay":
        return "replay", injected
    return ("predict", injected) if said == "predict" else ("unknown", ())


def _refuse_copies(real: Side, others: list[Side]) -> None:
    seen = {digest(real.trace): real.called}
    for other in others:
        copy = seen.setdefault(digest(other.trace), other.called)
        if copy != other.called:
            raise InputError(
                f"{other.called} is {copy} once more",
                field="repeats",
                remedy="other real runs of the same scenario",
            )


def _notes(real: Side, twin: Side) -> Iterator[str]:
    for side in (real, twin):
        ended = side.completed
        if unknown := ended["status"].null_count():
            many = counted(unknown, "task")
            yield f"{many} of {side.called} of unknown status, taken as completed"
        if waitless := ended["wait"].null_count():
            yield f"{counted(waitless, 'completed task')} of {side.called} without a known wait"
        if early := int((ended["wait"] < 0).sum()):
            yield f"{counted(early, 'task')} of {side.called} started before submission"
        if left := side.tasks.height - ended.height - side.left_out:
            yield f"{counted(left, 'task')} of {side.called} did not complete: not compared"
        if side.left_out:
            yield f"{counted(side.left_out, 'task')} completed only in {side.called}: not compared"


def _strangers(real: Side, others: list[Side]) -> Iterator[str]:
    mine = set(real.tasks["id"])
    for other in others:
        if unlike := len(mine ^ set(other.tasks["id"])):
            yield f"{other.called}: {counted(unlike, 'task')} not in both it and the real run"
