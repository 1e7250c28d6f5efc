"""Assessment of a twin against a real run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from twinloop.description.errors import InputError
from twinloop.fidelity.alignment import Alignment, digest_trace
from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.completions import NO_CURVES
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
    """Assess a twin against a real run: PASS, FAIL or not assessable for each criterion.

    Args:
        real: The real run.
        twin: The simulated run, or another run to compare with the real one.
        criteria: Criteria, or a file with criteria; by default the defaults.
        repeats: Other real runs of the same scenario. Each is assessed as the twin of the others,
            which gives the noise floor: the differences between real runs.
        floor: A precomputed noise floor instead of the repeats; the real run must be one of its
            runs.
        alignment: Factor on the real CPU usage and time offset, fitted on other runs.

    >>> from twinloop.engine import simulate
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", policy="easy", workload={
    ...     "generate": {"name": "lublin", "parameters": {"tasks": 50, "machine": 16}}})
    >>> verdict = assess(simulate(scenario), simulate(scenario))
    >>> verdict.status, verdict["p95"].figure
    ('PASS', 0.0)
    """
    criteria = _resolve_criteria(criteria, repeats, floor)
    real_run = ComparedRun(real, "the real run")
    twin_run = ComparedRun(twin, "the twin").as_twin_of(real_run)
    if repeats:
        others = [ComparedRun(other, f"repeat {n}") for n, other in enumerate(repeats, start=1)]
        floor = NoiseFloor.from_runs([real_run, *others], criteria)
    if alignment is not None:
        alignment.check_not_trained_on(real)
    others = [] if floor is None else floor.others(digest_trace(real))
    findings = list(collect_findings(real_run, twin_run, criteria, alignment or Alignment()))
    if alignment is not None:
        unaligned = collect_findings(real_run, twin_run, criteria, Alignment(), unrelated=False)
        findings = [
            _add_unaligned(finding, without)
            for finding, without in zip(findings, unaligned, strict=True)
        ]
    errors = Errors.from_runs(real_run, twin_run, criteria.power.step)
    if floor is not None and others:
        findings = [floor.annotate_finding(finding) for finding in findings]
        errors = floor.annotate_errors(errors)
    mode, injected = _find_mode(real, twin)
    return Verdict(
        mode=mode,
        injected=injected,
        criteria=criteria,
        findings=tuple(findings),
        errors=errors,
        series=_collect_series(findings, real_run, twin_run, criteria),
        repeats=len(others),
        alignment=alignment,
        notes=(
            *_note_injected(injected),
            *_note_tasks(real_run, twin_run),
            *_note_unmatched(real_run, others),
        ),
    )


def _note_injected(injected: tuple[str, ...]) -> Iterator[str]:
    if "usage" in injected:
        yield (
            "the CPU usage was taken from the real run: its agreement only shows that the replay "
            "preserves it"
        )


def _resolve_criteria(
    criteria: Criteria | str | Path | None, repeats: Sequence[Trace], floor: NoiseFloor | None
) -> Criteria:
    """Return the criteria, which are those of the noise floor if one is given."""
    if floor is None:
        return Criteria.resolve(criteria)
    if repeats:
        raise InputError(
            "cannot be combined with repeats",
            kind="conflicting-fields",
            field="floor",
            remedy="give one of the two",
        )
    if criteria is None:
        return floor.criteria
    given = Criteria.resolve(criteria)
    if given != floor.criteria:
        raise InputError(
            "was computed with other criteria",
            kind="noise-floor-mismatch",
            field="floor",
            remedy="NoiseFloor.from_traces(runs, criteria)",
        )
    return given


def _add_unaligned(finding: Finding, without: Finding) -> Finding:
    """Add the figure without the alignment to a finding."""
    note = finding.note
    if without.status != finding.status:
        note = "; ".join(part for part in (note, f"{without.status} without the alignment") if part)
    return replace(finding, unaligned=without.figure, note=note)


def _collect_series(
    findings: list[Finding], real: ComparedRun, twin: ComparedRun, criteria: Criteria
) -> dict[str, pl.DataFrame]:
    series = {finding.name: finding.series for finding in findings}
    return {
        "waits": findings[0].series,
        "completions": series.get("curve RMSE", NO_CURVES),
        "usage": series["sMAPE"],
        "power": build_power_frame(real, twin, criteria),
        "segments": series["mean segment r"],
    }


def _find_mode(real: Trace, twin: Trace) -> tuple[Mode, tuple[str, ...]]:
    """Return the mode of the twin and the quantities taken from the real run."""
    facts = twin.manifest.facts
    stored_mode = facts.get("mode")
    stored = facts.get("injected")
    injected = tuple(map(str, stored)) if isinstance(stored, list | tuple) else ()
    if digest_trace(real) in facts.get("fitted_on", ()):
        # The twin of a run that its model was fitted to is not a prediction.
        return "replay", (*injected, "the fitted values of the model")
    if stored_mode == "replay":
        return "replay", injected
    return ("predict", injected) if stored_mode == "predict" else ("unknown", ())


def _note_tasks(real: ComparedRun, twin: ComparedRun) -> Iterator[str]:
    """Note the tasks that are not compared, or whose data are incomplete."""
    for side in (real, twin):
        completed = side.completed
        if unknown := completed["status"].null_count():
            tasks = format_count(unknown, "task")
            yield f"{tasks} of {side.label} of unknown status, treated as completed"
        if waitless := completed["wait"].null_count():
            yield f"{format_count(waitless, 'completed task')} of {side.label} without a known wait"
        if early := int((completed["wait"] < 0).sum()):
            yield f"{format_count(early, 'task')} of {side.label} started before submission"
        if failed := side.tasks.height - completed.height - side.left_out:
            yield f"{format_count(failed, 'task')} of {side.label} did not complete: not compared"
        if side.left_out:
            tasks = format_count(side.left_out, "task")
            yield f"{tasks} completed only in {side.label}: not compared"


def _note_unmatched(real: ComparedRun, others: list[ComparedRun]) -> Iterator[str]:
    ids = set(real.tasks["id"])
    for n, other in enumerate(others, start=1):
        if unmatched := len(ids ^ set(other.tasks["id"])):
            yield f"repeat {n}: {format_count(unmatched, 'task')} not in both it and the real run"
