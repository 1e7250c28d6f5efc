"""Summary of a run, simulated or real, for the terminal and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinloop.cli.output import print_cleanings
from twinloop.metrics import Figures, figures
from twinloop.report.quantity_text import format_count, format_number
from twinloop.scenario import Scenario
from twinloop.trace import Trace


def compute_figures(scenario: Scenario, trace: Trace, warm_up: float) -> tuple[Figures, Trace]:
    """Compute the figures of a run, and add carbon and cost to its manifest.

    The figures leave out the tasks of the first `warm_up` seconds; carbon and cost in the manifest
    are those of the whole run.
    """
    run_figures = figures(trace, warm_up=warm_up, prices=scenario.prices)
    whole_run = figures(trace, prices=scenario.prices) if warm_up else run_figures
    totals = {
        "carbon_g": whole_run.carbon,
        "cost": whole_run.cost.total if whole_run.cost else None,
    }
    known_totals = {name: value for name, value in totals.items() if value is not None}
    if not known_totals:
        return run_figures, trace
    facts = dict(trace.manifest.facts)
    facts["run"] = {**facts["run"], **known_totals}
    return run_figures, trace.with_manifest(facts=facts)


def make_document(
    trace: Trace,
    run_figures: Figures,
    output: Path | None,
    total: float,
    *,
    allow_code: bool = False,
) -> dict[str, Any]:
    """Make the JSON object of a run."""
    from twinloop.report.cloud_results import find_cloud_results

    run = trace.manifest.facts["run"]
    values = run_figures.to_dict()
    clouds = find_cloud_results(trace, allow_code=allow_code)
    return {
        **values,
        "tasks": (values["tasks"] or 0) + run["skipped"],
        "skipped": run["skipped"],
        "policy": run["policy"],
        "events": run["events"],
        "wall_s": wall_time(trace),
        "total_s": total,
        "output": None if output is None else str(output),
        "meters": clouds.meters,
        "service_levels": clouds.service_levels,
        "notes": [*run_figures.notes, *clouds.notes],
        "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
    }


def wall_time(trace: Trace) -> float:
    """Return the wall time (s): of the simulator, or of the run itself if it was real."""
    measured = trace.timings.get("wall_s")
    return trace.manifest.facts["run"].get("wall_s", 0.0) if measured is None else measured


def show(trace: Trace, run_figures: Figures, *, allow_code: bool = False) -> None:
    """Print the figures, the chart and the data cleaning of a run."""
    # Imported here, because JSON needs no console and no chart.
    from twinloop.cli.console import escape, out
    from twinloop.report import render_run_chart
    from twinloop.report.key_figures import list_key_figures

    run = trace.manifest.facts["run"]
    machines, cores = format_count(run["machines"], "machine"), format_number(run["cores"])
    noun = "core" if run["cores"] == 1 else "cores"
    out.print(f"[bold]{escape(run['policy'])}[/] on {machines} with {cores} {noun}")
    for name, text in list_key_figures(run_figures):
        if name == "tasks" and run["skipped"]:
            text = (
                f"{run_figures.tasks + run['skipped']:,}, {run['skipped']:,} of which cannot be run"
            )
        out.print(f"  {name:22} {text}", highlight=False)
    if run_figures.left_out:
        out.print(f"  {'left out':22} {format_count(run_figures.left_out, 'task')} of the warm-up")
    for note in run_figures.notes:
        out.print(f"  {escape(f'note: {note}')}", soft_wrap=True)
    _show_clouds(trace, allow_code=allow_code)
    if trace.placements.height:
        out.print()
        out.print(render_run_chart(trace, width=min(100, out.width - 2)), markup=False)
    if trace.manifest.cleaned:
        out.print("\ndata cleaning")
        print_cleanings(trace.manifest.cleaned)


def _show_clouds(trace: Trace, *, allow_code: bool) -> None:
    """Print the meters and service levels of the clouds of a run."""
    from twinloop.cli.console import escape, out
    from twinloop.report.cloud_results import find_cloud_results, list_meters, list_service_levels

    results = find_cloud_results(trace, allow_code=allow_code)
    for title, rows in (
        ("energy by meter", list(list_meters(results))),
        ("service levels", list(list_service_levels(results))),
    ):
        if rows:
            out.print(f"\n{title}")
        width = max((len(name) for name, *_ in rows), default=0)
        for name, *values in rows:
            line = f"  {name:{max(22, width)}} {', '.join(values)}"
            out.print(escape(line), highlight=False, soft_wrap=True)
    for note in results.notes:
        out.print(f"  {escape(f'note: {note}')}", soft_wrap=True)
