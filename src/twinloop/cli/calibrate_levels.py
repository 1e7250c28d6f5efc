"""The part of `twinloop calibrate` that compares levels of detail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from twinloop.cli.console import err, escape, out
from twinloop.cli.output import print_json, require_positive, show_status
from twinloop.cli.recording_options import print_resume_hint
from twinloop.cli.study_progress import show_study_progress
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.trace import Trace

#: Exit status if searches failed.
INCOMPLETE = 1


def compare_levels(
    runs: Mapping[str, Trace],
    held_out: Mapping[str, Trace],
    levels: Path,
    output: Path,
    *,
    seed: int,
    seeds: int,
    workers: int | None,
    json: bool,
    **options: Any,
) -> None:
    """Calibrate all versions, write the page, and print the study."""
    from twinloop.calibration import calibrate_levels
    from twinloop.report import write_detail_study_page

    require_positive(workers=workers, seeds=seeds)
    with (
        print_resume_hint(output),
        show_study_progress("calibrating all versions", "searches and analyses") as progress,
    ):
        study = calibrate_levels(
            list(runs.values()),
            levels,
            validation=list(held_out.values()),
            names=[*runs, *held_out],
            seeds=range(seed, seed + seeds),
            folder=output,
            workers=workers,
            progress=progress,
            **options,
        )
    with show_status("writing the report"):
        write_detail_study_page(study, output / "report.html")
    err.print(escape(f"wrote {output}"), soft_wrap=True)
    if json:
        document = {"output": str(output), **study.to_dict(), **study.compute_results()}
        print_json(document | {"summary": study.summarise().to_dicts()})
    else:
        out.print(str(study), markup=False, soft_wrap=True)
    if study.failed:
        err.print(f"{study.failed:,} searches failed: see searches.csv")
        raise typer.Exit(INCOMPLETE)


def refuse_options(applicable: str, **options: Any) -> None:
    """Raise an error if an option is given that does not apply.

    >>> refuse_options("--levels", choose=None, warm_start=True)
    Traceback (most recent call last):
    twinloop.InputError: --warm-start applies to --levels [TL1103]
    """
    for name, given in options.items():
        if given not in (None, False, []):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} applies to {applicable}", kind="inapplicable-option")
