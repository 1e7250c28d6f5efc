"""The result of a closed loop: real runs, twins, fit, study and confirmation."""

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
from twinloop.exploration.confirmation.result import MANIFEST as CONFIRMATION_MANIFEST
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.study.study import MANIFEST as STUDY_MANIFEST
from twinloop.exploration.study.study import Study
from twinloop.fidelity import Verdict, assess
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.folder import MANIFEST as TRACE_MANIFEST

#: The manifest of a loop, and the folders of its parts.
MANIFEST: Final = "loop.json"
REAL: Final = "real"
PROBES: Final = "probes"
TWIN: Final = "twin"
FIT: Final = "fit"
STUDY: Final = "study"
CONFIRMATION: Final = "confirmation"
#: The file with the work rates that all runs of a loop share.
RATES: Final = "rates.json"
#: The required parts of a finished loop, with a file that marks each as complete.
_PARTS: Final = {REAL: TRACE_MANIFEST, FIT: FIT_MANIFEST, STUDY: STUDY_MANIFEST}


@dataclass(frozen=True, repr=False)
class Loop:
    """The result of a closed loop.

    `real` is the first real run, `probes` are the short additional runs. `twin` is the simulation
    before calibration, and `before` the verdict on it. `after` is the verdict on the fitted twin
    for the run that it was fitted to, and `unseen` that for the baseline of the confirmation, a run
    that the calibration did not use.
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
    #: Whether runs that were recorded earlier were used instead of new ones.
    offline: bool = False

    @property
    def scenario(self) -> Scenario:
        """The scenario of the first real run."""
        return self.plan.scenario

    @cached_property
    def unseen(self) -> Verdict | None:
        """The verdict on a run of the baseline that the fit did not use; None if there is none."""
        confirmation = self.confirmation
        if confirmation is None or confirmation.folder is None:
            return None
        rows = confirmation.runs.filter(
            confirmation.runs["baseline"] & confirmation.runs["trace"].is_not_null()
        )
        if rows.is_empty():
            return None
        real = Trace.load(join_below(confirmation.folder, rows["trace"][0], deep=True))
        twin = simulate(confirmation.baseline.scenario, usage_step=self.plan.period)
        return assess(real, twin)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The results in five lines."""
        from twinloop.exploration.closed_loop.text import summarise_loop

        return summarise_loop(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on missing measurements and on the conditions of the runs."""
        from twinloop.exploration.closed_loop.text import list_notes

        return list_notes(self)

    @property
    def plot(self) -> Any:
        """The report of the loop: `loop.plot.page(path)`; see `LoopPlots`."""
        return load_component("loop-plots")(self)

    @classmethod
    def load(cls, folder: str | Path) -> Loop:
        """Read a loop from its folder; its twins are simulated again."""
        folder = Path(folder)
        manifest = read_loop_manifest(folder)
        if manifest is None:
            raise InputError(
                "contains no loop",
                kind="not-a-result",
                file=folder,
                remedy=f"the folder of a loop contains {MANIFEST}",
            )
        try:
            plan, offline = LoopPlan.from_dict(manifest["plan"]), bool(manifest["offline"])
        except KeyError as error:
            raise InputError(
                f"has no field {error}: it is not a loop, or is damaged",
                kind="damaged-file",
                file=folder / MANIFEST,
            ) from None
        for part, marker in _PARTS.items():
            if not (folder / part / marker).is_file():
                raise InputError(
                    f"the loop is not finished: '{part}' is missing",
                    kind="incomplete-result",
                    file=folder,
                    remedy="run the same `twinloop loop` again: it resumes",
                )
        confirmation_folder, file = folder / CONFIRMATION, folder / MANIFEST
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
            Confirmation.load(confirmation_folder)
            if (confirmation_folder / CONFIRMATION_MANIFEST).is_file()
            else None,
            offline=offline,
        )

    def __str__(self) -> str:
        return join_lines(self.lines)

    def __repr__(self) -> str:
        return escape_name(f"<Loop in {self.folder}: {self.lines[-1]}>")


def assess_before_calibration(plan: LoopPlan, real: Trace) -> tuple[Trace, Verdict]:
    """Simulate the scenario of the real run before calibration, and assess the twin."""
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
    """Make a loop from its parts; the fitted twin is simulated and assessed."""
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


def describe_passed_criteria(verdict: Verdict) -> str:
    """Describe in words how many of the assessable criteria pass.

    >>> from twinloop.fidelity import assess
    >>> describe_passed_criteria(assess(Trace(), Trace()))
    'no criterion is assessable'
    """
    statuses = [finding.status for finding in verdict.findings]
    passed, failed = statuses.count("PASS"), statuses.count("FAIL")
    if not passed + failed:
        return "no criterion is assessable"
    return f"{passed} of {passed + failed} criteria pass"


def read_loop_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of a loop; None if there is none.

    >>> read_loop_manifest(Path("nowhere"))
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", kind="damaged-file", file=path) from None
    if not isinstance(manifest, dict):
        raise InputError(
            "is not a mapping: it is not a loop, or is damaged", kind="damaged-file", file=path
        )
    return manifest
