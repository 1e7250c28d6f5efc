"""A scenario as a command is given it: a file, its parts as options, or a run to replay."""

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
    typer.Argument(help="A scenario in YAML; or give its parts as options.", show_default=False),
]
WorkloadOption = Annotated[
    str | None, typer.Option(help="A log, a trace, or a folder: what is to run.")
]
PlatformOption = Annotated[
    str | None,
    typer.Option(help="NODESxCORES such as 100x1 or 2x8@2400MHz/64GiB, or a platform file."),
]
PolicyOption = Annotated[
    str | None, typer.Option(help="Scheduling policy: fcfs, easy, first-fit...")
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option(
        help="An option of the policy, beside those in the file: --option depth=100.",
        metavar="NAME=VALUE",
    ),
]
ReplayOption = Annotated[
    str | None,
    typer.Option(help="rigid: submit as recorded; sessions:SECONDS: users who wait."),
]
SeedOption = Annotated[int | None, typer.Option(help="Random seed.")]
TimeScaleOption = Annotated[
    float | None,
    typer.Option(help="Times the times of submission: 0.1 lets tasks come ten times as fast."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any other value of the scenario: --set model.kill_at_requested_time=true.",
        metavar="PATH=VALUE",
    ),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let a policy named module:Class be imported.")
]


def find_code(allow_code: bool) -> None:
    """Where code is allowed, let a policy be found in the folder that the user is in."""
    if allow_code and "" not in sys.path:
        sys.path.insert(0, "")


#: Parts whose option is called otherwise.
_OPTIONS = {"source": "--replay", "time_scale": "--time-scale", "model.speed_factor": "--speed"}


def scenario_of(
    path: Path | None,
    parts: dict[str, Any],
    options: dict[str, str],
    changes: dict[str, str],
) -> Scenario:
    """The scenario of a file or of a run, or of parts alone, with these changes.

    Args:
        path: A scenario, or the folder of a run.
        parts: What the options of the command say, by field; None: not given.
        options: Options of the policy, beside those that it has in the file.
        changes: Other values by their path, as text.
    """
    from twinloop.scenario import Scenario, replaying
    from twinloop.trace import read

    given = {name: value for name, value in parts.items() if value is not None}
    more = {name: _value(text, f"--set {name}") for name, text in changes.items()}
    _check_paths(given, more)
    _check_options(options, more)
    base = None
    if path is not None and path.is_dir():
        trace = read(path)
        if trace.manifest.scenario is None and {"platform", "policy"} <= set(given):
            given.setdefault("workload", str(path))
        else:
            base = replaying(trace, path=str(path.absolute()))
    elif path is not None:
        base = Scenario.load(path)
    if options:
        values = {name: _value(text, f"--option {name}") for name, text in options.items()}
        given["policy"] = _with_options(given.get("policy"), base, values)
    if base is not None:
        return base.replace(**given, **more)
    for name in ("workload", "platform", "policy"):
        if not given.get(name):
            raise InputError(f"a scenario file or --{name} is needed", remedy="see --help")
    nested = {name: given.pop(name) for name in list(given) if "." in name}
    return Scenario.from_dict(given).replace(**nested, **more)


def _with_options(
    name: str | None, base: Scenario | None, values: dict[str, Any]
) -> dict[str, Any] | None:
    """The policy with these options; those in the file stay, unless another policy is named."""
    if base is not None and name in (None, base.policy.name):
        return {"name": base.policy.name, "options": {**base.policy.options, **values}}
    return {"name": name, "options": values} if name else None


def _check_paths(given: dict[str, Any], more: dict[str, Any]) -> None:
    """Refuse a value that two options set, and one that no scenario has."""
    from twinloop.description.address import nearest, read
    from twinloop.scenario import Scenario

    known = list(Scenario.model_fields)
    for name in more:
        first = read(name)[0]
        if first not in known:
            raise InputError(
                "is no field of a scenario",
                field=f"--set {name}",
                remedy=nearest(str(first), known),
            )
        if name in given:
            option = _OPTIONS.get(name, f"--{name}")
            raise InputError(f"{option} and --set {name} set the same value", remedy="give one")


def _check_options(options: dict[str, str], more: dict[str, Any]) -> None:
    """Refuse an option of the policy that `--set` sets too, alone or with the whole policy."""
    for name in options:
        for path in ("policy", "policy.options", f"policy.options.{name}"):
            if path in more:
                raise InputError(
                    f"--option {name} and --set {path} set the same value", remedy="give one"
                )


def _value(text: str, option: str) -> Any:
    """A value as a file would have it, which an option gives as text."""
    from twinloop.description.text import parse

    try:
        return parse(text).data
    except InputError as error:
        raise InputError(f"cannot be read: {error}", field=option) from None
