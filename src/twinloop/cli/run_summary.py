"""Summary of a run, simulated or real, for the terminal and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinloop.cli.output import escape, out, print_cleanings
from twinloop.metrics import Figures, figures
from twinloop.report import render_run_chart
from twinloop.report.key_figures import list_key_figures
from twinloop.report.quantity_text import format_count, format_number
from twinloop.scenario import Scenario
from twinloop.trace import Trace


def compute_figures(scenario: Scenario, trace: Trace, warm_up: float) -> tuple[Figures, Trace]:
    """Compute the figures of a run, and add carbon and cost to its manifest."""
    found = figures(trace, warm_up=warm_up, prices=scenario.prices)
    whole = figures(trace, prices=scenario.prices) if warm_up else found
    made = {"carbon_g": whole.carbon, "cost": whole.cost.total if whole.cost else None}
    known = {name: value for name, value in made.items() if value is not None}
    if not known:
        return found, trace
    facts = dict(trace.manifest.facts)
    facts["run"] = {**facts["run"], **known}
    return found, trace.with_manifest(facts=facts)


def make_document(
    trace: Trace, found: Figures, output: Path | None, total: float
) -> dict[str, Any]:
    """Make the JSON object of a run."""
    run = trace.manifest.facts["run"]
    values = found.to_dict()
    return {
        **values,
        "tasks": (values["tasks"] or 0) + run["skipped"],
        "skipped": run["skipped"],
        "policy": run["policy"],
        "events": run["events"],
        "wall_s": wall_time(trace),
        "total_s": total,
        "output": None if output is None else str(output),
        "notes": list(found.notes),
        "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
    }


def wall_time(trace: Trace) -> float:
    """Return the wall time (s): of the simulator, or of the run itself if it was real."""
    measured = trace.timings.get("wall_s")
    return trace.manifest.facts["run"].get("wall_s", 0.0) if measured is None else measured


def show(trace: Trace, found: Figures) -> None:
    """Print the figures, the chart and the data cleaning of a run."""
    run = trace.manifest.facts["run"]
    machines, cores = format_count(run["machines"], "machine"), format_number(run["cores"])
    many = "core" if run["cores"] == 1 else "cores"
    out.print(f"[bold]{escape(run['policy'])}[/] on {machines} with {cores} {many}")
    for name, text in list_key_figures(found):
        if name == "tasks" and run["skipped"]:
            text = f"{found.tasks + run['skipped']:,}, {run['skipped']:,} of which cannot be run"
        out.print(f"  {name:22} {text}", highlight=False)
    if found.left_out:
        out.print(f"  {'left out':22} {format_count(found.left_out, 'task')} of the warm-up")
    for note in found.notes:
        out.print(f"  {escape(f'note: {note}')}", soft_wrap=True)
    if trace.placements.height:
        out.print()
        out.print(render_run_chart(trace, width=min(100, out.width - 2)), markup=False)
    if trace.manifest.cleaned:
        out.print("\ndata cleaning")
        print_cleanings(trace.manifest.cleaned)
