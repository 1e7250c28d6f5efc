"""The part of `twinloop explore` that simulates real executions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinloop.cli.console import err, escape, out
from twinloop.cli.output import print_json, show_status
from twinloop.cli.recording_options import print_resume_hint
from twinloop.cli.scenario_options import add_import_path
from twinloop.cli.study_progress import show_study_progress
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.exploration.executions.study import ExecutionStudy


def is_over_executions(scenario: Path, factors: Path | None, *, is_stored: bool) -> bool:
    """Whether the arguments of `explore` describe a study over real executions."""
    from twinloop.exploration.executions.design import is_execution_design
    from twinloop.exploration.executions.storage import is_execution_study

    return is_execution_study(scenario) if is_stored else is_execution_design(factors or scenario)


def run_execution_study(
    scenario: Path, factors: Path | None, output: Path | None, *, allow_code: bool, **options: Any
) -> ExecutionStudy:
    """Simulate the executions of a design, show the progress, and write the page."""
    from twinloop.exploration import explore_executions
    from twinloop.exploration.executions.design import read_execution_design
    from twinloop.report import write_execution_study_page

    if output is None:
        raise InputError("an output folder is needed", kind="missing-argument", remedy="-o study")
    design = read_execution_design(factors or scenario)
    if factors is not None:
        design = design.model_copy(update={"scenario": str(scenario)})
    add_import_path(allow_code)
    with print_resume_hint(output), show_study_progress() as progress:
        study = explore_executions(
            design, folder=output, allow_code=allow_code, progress=progress, **options
        )
    with show_status("writing the report"):
        write_execution_study_page(study, output / "report.html")
    err.print(escape(f"wrote {output}"), soft_wrap=True)
    return study


def load_execution_study(folder: Path) -> ExecutionStudy:
    """Read a study from its folder."""
    from twinloop.exploration import ExecutionStudy

    return ExecutionStudy.load(folder)


def print_execution_study(study: ExecutionStudy, top: int, *, json: bool) -> None:
    """Print a study: its errors by set and cell, and the `top` largest errors."""
    from twinloop.exploration.executions.text import execution_study_to_text

    if json:
        print_json(_make_document(study, top))
    else:
        out.print(execution_study_to_text(study, top), markup=False, soft_wrap=True)


def _make_document(study: ExecutionStudy, top: int) -> dict[str, Any]:
    return {
        "output": None if study.folder is None else str(study.folder),
        "planned": study.planned,
        "done": study.done,
        "failed": study.failed,
        "errors": list(study.errors[:3]),
        "executions": len(study.executions),
        "unmeasured": len(study.unmeasured),
        "factors": list(study.factors),
        "notes": list(study.notes),
        "sets": [
            {
                "name": each.name,
                "mode": each.mode,
                "injected": list(each.keys),
                "fitted": list(each.fitted),
            }
            for each in study.sets
        ],
        "statistics": study.statistics.to_dicts(),
        "frequencies": study.frequencies.to_dicts(),
        "differences": study.differences.to_dicts(),
        "repetitions": study.repetitions.to_dicts(),
        "coverage": study.coverage.to_dicts(),
        "largest": study.list_largest_errors(top).to_dicts(),
    }
