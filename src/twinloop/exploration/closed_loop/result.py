"""What one way round the whole loop gave: what was measured, simulated, fitted, confirmed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from twinloop.calibration.fit import MANIFEST as FIT_MANIFEST
from twinloop.calibration.fit import Fit
from twinloop.description.errors import InputError
from twinloop.description.file_names import join_below
from twinloop.description.plugins import load_component
from twinloop.description.safe_text import escape_name, join_lines
from twinloop.engine import simulate
from twinloop.exploration.closed_loop.plan import LoopPlan
from twinloop.exploration.confirmation.result import MANIFEST as CONFIRMED
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.study.study import MANIFEST as STUDY_MANIFEST
from twinloop.exploration.study.study import Study
from twinloop.fidelity import Verdict, assess
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.folder import MANIFEST as TRACE_MANIFEST

#: The file that says what a folder of a loop is of, and its parts.
MANIFEST: Final = "loop.json"
REAL: Final = "real"
PROBES: Final = "probes"
TWIN: Final = "twin"
FIT: Final = "fit"
STUDY: Final = "study"
CONFIRMATION: Final = "confirmation"
#: Rates of work that all runs of a loop have in common.
RATES: Final = "rates.json"
#: What a loop must have to be shown, and by which file that is known.
_PARTS: Final = {REAL: TRACE_MANIFEST, FIT: FIT_MANIFEST, STUDY: STUDY_MANIFEST}


@dataclass(frozen=True, repr=False)
class Loop:
    """All that a loop measured, simulated, fitted, explored and confirmed.

    `real` is the run that the twin was held against, `probes` the short ones beside it; `twin` is
    what was predicted before anything was fitted, and `before` the verdict on that. `after` is the
    verdict on the fitted twin for the run that it was fitted to, and `unseen` on the baseline of
    the confirmation, a run that the fit has never seen.
    """

    folder: Path
    plan: LoopPlan
    real: Trace
    probe_names: tuple[str, ...]
    probes: tuple[Trace, ...]
    twin: Trace
    before: Verdict
    fit: Fit
    fitted_twin: Trace
    after: Verdict
    study: Study
    confirmation: Confirmation | None = None
    #: Whether runs recorded earlier were taken in place of new ones.
    offline: bool = False

    @property
    def scenario(self) -> Scenario:
        """What was run for real first."""
        return self.plan.scenario

    @cached_property
    def unseen(self) -> Verdict | None:
        """The verdict on a run of the baseline that the fit has not seen; None: there is none."""
        made = self.confirmation
        if made is None or made.folder is None:
            return None
        rows = made.runs.filter(made.runs["baseline"] & made.runs["trace"].is_not_null())
        if rows.is_empty():
            return None
        real = Trace.load(join_below(made.folder, rows["trace"][0], deep=True))
        twin = simulate(made.baseline.scenario, usage_step=self.plan.period)
        return assess(real, twin)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """What was found, in five lines."""
        from twinloop.exploration.closed_loop.text import summarise_loop

        return summarise_loop(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was not measured, and what else should be known."""
        from twinloop.exploration.closed_loop.text import list_notes

        return list_notes(self)

    @property
    def plot(self) -> Any:
        """Its page: `loop.plot.page(path)`; see `LoopPlots`."""
        return load_component("loop-plots")(self)

    @classmethod
    def load(cls, folder: str | Path) -> Loop:
        """Read a loop back; its twins are simulated again, which takes no time."""
        folder = Path(folder)
        kept = read_loop_manifest(folder)
        if kept is None:
            raise InputError(
                "no loop is kept there", file=folder, remedy=f"it would have {MANIFEST}"
            )
        try:
            plan, offline = LoopPlan.from_dict(kept["plan"]), bool(kept["offline"])
        except KeyError as error:
            raise InputError(
                f"says nothing of {error}: it is no loop, or a damaged one", file=folder / MANIFEST
            ) from None
        for part, marker in _PARTS.items():
            if not (folder / part / marker).is_file():
                raise InputError(
                    f"this loop is not over: '{part}' is still to come",
                    file=folder,
                    remedy="give the same `twinloop loop` again: it goes on",
                )
        made, file = folder / CONFIRMATION, folder / MANIFEST
        real = Trace.load(folder / REAL)
        return assemble_loop(
            folder,
            plan,
            real,
            assess_before_calibration(plan, real),
            {
                name: Trace.load(join_below(folder / PROBES, name, file=file))
                for name in plan.probes
            },
            Fit.load(folder / FIT),
            Study.load(folder / STUDY),
            Confirmation.load(made) if (made / CONFIRMED).is_file() else None,
            offline=offline,
        )

    def __str__(self) -> str:
        return join_lines(self.lines)

    def __repr__(self) -> str:
        return escape_name(f"<Loop in {self.folder}: {self.lines[-1]}>")


def assess_before_calibration(plan: LoopPlan, real: Trace) -> tuple[Trace, Verdict]:
    """What is predicted of the real run before anything is fitted, and how good that is."""
    twin = simulate(plan.scenario, usage_step=plan.period)
    return twin, assess(real, twin)


def assemble_loop(
    folder: Path,
    plan: LoopPlan,
    real: Trace,
    before: tuple[Trace, Verdict],
    probes: Mapping[str, Trace],
    fit: Fit,
    study: Study,
    confirmation: Confirmation | None,
    offline: bool,
) -> Loop:
    """The loop from its parts: the fitted twin and the verdict on it follow from them."""
    fitted = simulate(fit.apply(plan.scenario), usage_step=plan.period)
    return Loop(
        folder,
        plan,
        real,
        tuple(probes),
        tuple(probes.values()),
        *before,
        fit,
        fitted,
        assess(real, fitted),
        study,
        confirmation,
        offline,
    )


def count_passed_criteria(verdict: Verdict) -> str:
    """How many criteria of those that can be assessed pass.

    >>> from twinloop.fidelity import assess
    >>> count_passed_criteria(assess(Trace(), Trace()))
    'too little to assess'
    """
    found = [finding.status for finding in verdict.findings]
    passed, judged = found.count("PASS"), found.count("PASS") + found.count("FAIL")
    return f"{passed} of {judged} criteria pass" if judged else "too little to assess"


def read_loop_manifest(folder: Path) -> dict[str, Any] | None:
    """What a folder says it is a loop of; None: it says nothing.

    >>> read_loop_manifest(Path("nowhere"))
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    if not isinstance(found, dict):
        raise InputError("holds no mapping: it is no loop, or a damaged one", file=path)
    return found
