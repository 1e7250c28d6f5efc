"""What a command says of a run, simulated or real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinloop.cli.output import escape, out, print_cleanings
from twinloop.metrics import Figures, figures
from twinloop.report import run_chart, words
from twinloop.report.key_figures import key_figures
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.errors import InputError
from twinloop.trace.formats.opendc import read_carbon


def figures_of(scenario: Scenario, trace: Trace, warm_up: float) -> tuple[Figures, Trace]:
    """The figures of a run, and the run with what its scenario makes of them noted."""
    files = {cluster.carbon for cluster in scenario.effective_platform().clusters}
    intensity = None
    if len(files) == 1 and trace.power.height and (file := files.pop()) is not None:
        intensity = read_carbon(file)
        if trace.manifest.epoch_ms is None:
            raise InputError(
                "the workload does not say when it began, so nobody knows its carbon intensity",
                field="platform.clusters[0].carbon",
                remedy="leave the carbon intensity out, or use a log with an epoch",
            )
    found = figures(trace, warm_up=warm_up, intensity=intensity, prices=scenario.prices)
    facts = dict(trace.manifest.facts)
    cost = found.cost.total if found.cost else None
    facts["run"] = {**facts["run"], "carbon_g": found.carbon, "cost": cost}
    return found, trace.noting(facts=facts)


def document(trace: Trace, found: Figures, output: Path | None, total: float) -> dict[str, Any]:
    """What `--json` prints of a run."""
    run = trace.manifest.facts["run"]
    values = found.to_dict()
    return {
        **values,
        "tasks": (values["tasks"] or 0) + run["skipped"],
        "skipped": run["skipped"],
        "policy": run["policy"],
        "events": run["events"],
        "wall_s": run["wall_s"],
        "total_s": total,
        "output": None if output is None else str(output),
        "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
    }


def show(trace: Trace, found: Figures) -> None:
    """Print what is worth knowing of a run."""
    run = trace.manifest.facts["run"]
    machines, cores = words.count(run["machines"], "machine"), words.number(run["cores"])
    many = "core" if run["cores"] == 1 else "cores"
    out.print(f"[bold]{escape(run['policy'])}[/] on {machines} with {cores} {many}")
    for name, said in key_figures(found):
        if name == "tasks" and run["skipped"]:
            said = f"{found.tasks + run['skipped']:,}, {run['skipped']:,} of which cannot be run"
        out.print(f"  {name:22} {said}", highlight=False)
    if found.left_out:
        out.print(f"  {'left out':22} {words.count(found.left_out, 'task')} of the warm-up")
    if trace.placements.height:
        out.print()
        out.print(run_chart(trace, width=min(100, out.width - 2)), markup=False)
    if trace.manifest.cleaned:
        out.print("\nwhat was not taken as it stood")
        print_cleanings(trace.manifest.cleaned)
