"""Options that name a scenario: a file, its parts, or a recorded run to replay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.scenario import Scenario

ScenarioFile = Annotated[
    Path | None,
    typer.Argument(help="A scenario in YAML, or the folder of a run.", show_default=False),
]
WorkloadOption = Annotated[
    str | None, typer.Option(help="The workload: a log, a trace or a folder.")
]
PlatformOption = Annotated[
    str | None,
    typer.Option(help="A file, or NODESxCORES such as 100x1."),
]
PolicyOption = Annotated[
    str | None, typer.Option(help="Scheduling policy: fcfs, easy, first-fit...")
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option(
        help="An option of the policy: depth=100.",
        metavar="NAME=VALUE",
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(help="Submission: rigid, or sessions:SECONDS."),
]
SeedOption = Annotated[int | None, typer.Option(help="Random seed.")]
TimeScaleOption = Annotated[
    float | None,
    typer.Option(help="Factor on the submission times."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Set a field: model.speed_factor=2.",
        metavar="PATH=VALUE",
    ),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Allow Python code named module:Class.")
]


def add_import_path(allow_code: bool) -> None:
    """Add the current folder to the import path if code is allowed."""
    if allow_code and "" not in sys.path:
        sys.path.insert(0, "")


#: Options whose name is not that of the field.
_OPTIONS = {"time_scale": "--time-scale", "model.speed_factor": "--speed"}


def make_scenario(
    path: Path | None,
    parts: dict[str, Any],
    options: dict[str, str],
    changes: dict[str, str],
) -> Scenario:
    """Make a scenario from a file, a recorded run or single parts, with changes.

    Args:
        path: A scenario, or the folder of a run.
        parts: Values of the command's options by field; None: not given.
        options: Options of the policy, which replace those in the file.
        changes: Other values by path, as text.
    """
    from twinloop.scenario import Scenario, replay_scenario
    from twinloop.trace import read

    given = {name: value for name, value in parts.items() if value is not None}
    set_values = {name: _parse_value(text, f"--set {name}") for name, text in changes.items()}
    _check_paths(given, set_values)
    _check_options(options, set_values)
    base = None
    if path is not None and path.is_dir():
        trace = read(path)
        if trace.manifest.scenario is None and {"platform", "policy"} <= set(given):
            given.setdefault("workload", str(path))
        else:
            base = replay_scenario(trace, path=str(path.absolute()))
    elif path is not None:
        base = Scenario.load(path)
    if options:
        values = {name: _parse_value(text, f"--option {name}") for name, text in options.items()}
        given["policy"] = _add_options(given.get("policy"), base, values)
    if base is not None:
        return base.replace(**given, **set_values)
    for name in ("workload", "platform", "policy"):
        if not given.get(name):
            raise InputError(
                f"a scenario file or --{name} is needed",
                kind="missing-argument",
                remedy="see --help",
            )
    nested = {name: given.pop(name) for name in list(given) if "." in name}
    return Scenario.from_dict(given).replace(**nested, **set_values)


def _add_options(
    name: str | None, base: Scenario | None, values: dict[str, Any]
) -> dict[str, Any] | None:
    """Add options to the policy; those in the file stay unless another policy is named.

    None if no policy is known.
    """
    if base is not None and name in (None, base.policy.name):
        return {"name": base.policy.name, "options": {**base.policy.options, **values}}
    return {"name": name, "options": values} if name else None


def _check_paths(given: dict[str, Any], set_values: dict[str, Any]) -> None:
    """Raise an error for a path of `--set` that another option sets too, or that is not a field."""
    from twinloop.description.address import address_from_path, suggest_name
    from twinloop.scenario import Scenario

    fields = list(Scenario.model_fields)
    for name in set_values:
        first = address_from_path(name)[0]
        if first not in fields:
            raise InputError(
                "is not a field of a scenario",
                kind="unknown-field",
                field=f"--set {name}",
                remedy=suggest_name(str(first), fields),
            )
        if name in given:
            option = _OPTIONS.get(name, f"--{name}")
            raise InputError(
                f"{option} and --set {name} set the same value",
                kind="conflicting-options",
                remedy="give only one of them",
            )


def _check_options(options: dict[str, str], set_values: dict[str, Any]) -> None:
    """Raise an error for a policy option that `--set` sets too."""
    for name in options:
        for path in ("policy", "policy.options", f"policy.options.{name}"):
            if path in set_values:
                raise InputError(
                    f"--option {name} and --set {path} set the same value",
                    kind="conflicting-options",
                    remedy="give only one of them",
                )


def _parse_value(text: str, option: str) -> Any:
    """Parse the value of an option as YAML."""
    from twinloop.description.text import parse_document

    try:
        return parse_document(text).data
    except InputError as error:
        raise InputError(
            f"cannot be read: {error}", kind="malformed-option", field=option
        ) from None


def list_inputs(given: Path | None, scenario: Scenario) -> list[Path | None]:
    """List the files and folders that a command reads, which its output must not replace.

    Args:
        given: The scenario file or the run that was given.
        scenario: The scenario made from it.
    """
    workload = scenario.workload.path
    return [given, *scenario._files(), None if workload is None else Path(workload)]
