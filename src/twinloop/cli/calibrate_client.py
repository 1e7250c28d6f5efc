"""The part of `twinloop calibrate` that fits models of boots and run times to executions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from twinloop.cli.console import err, escape, out
from twinloop.cli.log_options import read_trace
from twinloop.cli.output import print_json, show_status
from twinloop.cli.recording_options import parse_duration
from twinloop.description.errors import InputError
from twinloop.description.files import refuse_file
from twinloop.description.replacement import check_not_input

if TYPE_CHECKING:
    from twinloop.calibration import ClientModels
    from twinloop.scenario import Scenario

#: The options of `calibrate` that apply with --client.
_APPLICABLE = frozenset({"real", "output", "client", "unit", "scenario", "strict", "json"})
#: Executions that a note lists.
_MAX_LISTED = 20


def fit_client(
    context: typer.Context,
    executions: Sequence[Path],
    output: Path | None,
    *,
    scenario: Path | None,
    unit: str | None,
    strict: bool,
    json: bool,
) -> None:
    """Fit models to executions, write them into a folder, and print a summary."""
    from twinloop.calibration import fit_client_models
    from twinloop.calibration.boot_fitting import has_instances
    from twinloop.calibration.client_models import SCENARIO

    _refuse_other_options(context)
    if output is None:
        raise InputError("an output folder is needed", kind="missing-argument", remedy="-o fit")
    seconds = 3600.0 if unit is None else parse_duration(unit, "--unit")
    if seconds <= 0:
        raise InputError("must be positive", kind="out-of-range", field="--unit", remedy="1h")
    paths = _find_executions(executions)
    _refuse_existing(output, [*paths, *([] if scenario is None else [scenario])])
    base = None if scenario is None else _load_scenario(scenario)
    traces = [read_trace(path, None, strict) for path in paths]
    left_out = [path for path, trace in zip(paths, traces, strict=True) if not has_instances(trace)]
    with show_status("fitting"):
        models = fit_client_models(traces, unit=seconds, files=paths)
    fitted = None if base is None else models.apply(base)
    with _remove_unfinished(output):
        if fitted is not None:
            fitted.save(output / SCENARIO)
        models.save(output)
    notes = [*_list_fit_notes(models, left_out), *_list_scenario_notes(models, base)]
    err.print(escape(f"wrote {output}"), soft_wrap=True)
    if json:
        print_json(
            {
                "output": str(output),
                "scenario": None if fitted is None else str(output / SCENARIO),
                **models.to_dict(),
                "notes": notes,
            }
        )
    else:
        out.print("\n".join([str(models), *notes]), markup=False, soft_wrap=True)


def _refuse_other_options(context: typer.Context) -> None:
    """Raise an error if an option is given that applies to other calibrations only."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _APPLICABLE:
            raise InputError(
                f"{max(parameter.opts, key=len)} applies to other calibrations, not to --client",
                kind="inapplicable-option",
            )


def _find_executions(patterns: Sequence[Path]) -> list[Path]:
    from twinloop.exploration.executions.find_executions import find_executions

    if not patterns:
        raise InputError(
            "at least one execution is needed",
            kind="missing-argument",
            remedy="twinloop calibrate --client runs -o fit",
        )
    try:
        return [Path(each.path) for each in find_executions(patterns)]
    except InputError as error:
        # The field is that of a study.
        raise InputError(
            error.problem, kind=error.kind, file=error.file, remedy=error.remedy
        ) from None


def _load_scenario(path: Path) -> Scenario:
    """Read the scenario for the models, which must have a cloud."""
    from twinloop.scenario import Scenario

    scenario = Scenario.load(path)
    if not scenario.platform.clouds:
        raise InputError(
            "has no cloud: boots and shortages are those of clouds",
            kind="missing-field",
            file=path,
            field="platform.clouds",
            remedy="name the scenario of a cloud, or leave --scenario out",
        )
    return scenario


def _refuse_existing(output: Path, inputs: Sequence[Path]) -> None:
    """Raise an error if the output exists and is not an empty folder, or is an input."""
    check_not_input(output, inputs)
    refuse_file(output)
    if output.is_dir() and any(output.iterdir()):
        raise InputError(
            "exists already",
            kind="output-exists",
            file=output,
            remedy="name a folder that does not exist",
        )


@contextmanager
def _remove_unfinished(output: Path) -> Iterator[None]:
    """Remove the folder again if it cannot be written completely."""
    exists = output.exists()
    try:
        yield
    except BaseException:
        for path in [] if not output.is_dir() else list(output.iterdir()):
            path.unlink(missing_ok=True)
        if not exists:
            shutil.rmtree(output, ignore_errors=True)
        raise


def _list_fit_notes(models: ClientModels, left_out: Sequence[Path]) -> list[str]:
    """List what the fit leaves out, and what it cannot know."""
    notes = []
    if left_out:
        names = ", ".join(map(str, left_out[:_MAX_LISTED]))
        more = f" and {len(left_out) - _MAX_LISTED:,} more" if len(left_out) > _MAX_LISTED else ""
        notes.append(f"left out, without boots and requests of instances: {names}{more}")
    if models.fitted_to.executions_with_tasks == 1:
        notes.append(
            "one execution does not show how errors of predictions differ between executions: "
            "intervals of simulations with these models are too narrow"
        )
    return notes


def _list_scenario_notes(models: ClientModels, base: Scenario | None) -> list[str]:
    """List what the models leave out, or replace, in the scenario."""
    from twinloop.calibration.client_models import predicts_run_times

    if base is None:
        return []
    notes = []
    if models.prediction_errors is not None and not predicts_run_times(base):
        notes.append(
            "the scenario has no errors of predictions, because its workload predicts no run "
            "times (workload: inject: predictions)"
        )
    if base.policy.options.get("boots_as_predicted"):
        notes.append("instances no longer boot as predicted: boots_as_predicted is false")
    options: dict[str, Any] = base.policy.options
    if options.get("boot") is not None:
        notes.append("the broker predicts boots as before: policy.options.boot is unchanged")
    repeated = _list_repeated_delays(base)
    if repeated:
        notes.append(
            "recorded boots contain the decision of the provider and the copy of the image: remove "
            f"{', '.join(repeated)}, or simulations count them twice"
        )
    return notes


def _list_repeated_delays(base: Scenario) -> list[str]:
    """List the fields of delays that fitted boots contain."""
    fields = []
    for number, cloud in enumerate(base.platform.clouds):
        place = f"platform.clouds[{number}]"
        if cloud.decision_delay:
            fields.append(f"{place}.decision_delay")
        for index, image in enumerate(cloud.images):
            if image.size:
                fields.append(f"{place}.images[{index}].size")
    return fields
