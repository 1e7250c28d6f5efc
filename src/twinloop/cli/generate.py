"""`twinloop generate`: synthetic logs from a seed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from twinloop.cli.console import escape, out
from twinloop.cli.convert import TargetFormat
from twinloop.cli.output import (
    Json,
    Overwrite,
    print_cleanings,
    print_json,
    refuse_existing,
    report_errors,
    show_status,
)
from twinloop.report.quantity_text import format_count
from twinloop.trace import write
from twinloop.workload.generators import (
    Generator,
    GeneratorParameter,
    list_generators,
    make_generator,
)
from twinloop.workload.generators.workflow import WorkflowGenerator

generate = typer.Typer(
    name="generate",
    help="Generate a synthetic log from a seed.\n\n"
    "The same seed and parameters give the same log. `twinloop generate lublin --help` explains "
    "one model and its parameters.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
)

GeneratedPath = Annotated[
    Path,
    typer.Argument(
        help="Output; format by suffix: .swf, .swf.gz, .trace, .opendc or .cts.",
        show_default=False,
    ),
]


def _generate_log(
    name: str,
    output: Path,
    seed: int,
    to: str | None,
    overwrite: bool,
    json: bool,
    given: dict[str, str],
) -> None:
    with report_errors(json):
        inputs = [given.get(key) for key in list_generators()[name].path_parameters]
        refuse_existing(output, overwrite, *(Path(path) for path in inputs if path))
        model = make_generator(name, **given)
        with show_status(f"generating {name}"):
            trace = model.generate(seed)
        with show_status(f"writing {output}"):
            not_held = write(trace, output, to, overwrite=overwrite)
        if json:
            print_json(
                {
                    "generator": name,
                    "parameters": model.model_dump(mode="json"),
                    "seed": seed,
                    "output": str(output),
                    "tasks": trace.tasks.height,
                    "cleaned": [note.model_dump() for note in trace.manifest.cleaned],
                    "not_held": [note.model_dump() for note in not_held],
                }
            )
        else:
            text = f"wrote {output}: {format_count(trace.tasks.height, 'task')}, seed {seed}"
            out.print(escape(text))
            print_cleanings([*trace.manifest.cleaned, *not_held])
            if any(note.what == "table task_files" for note in not_held):
                out.print("this format has no files of tasks; a trace folder (.trace) has them")


def _make_command(model: type[Generator]) -> Callable[..., None]:
    """Make a command whose options are the parameters of a generator."""

    def run(
        output: Path,
        seed: int,
        to: str | None,
        overwrite: bool,
        json: bool,
        **parameters: str | None,
    ) -> None:
        given = {key: text for key, text in parameters.items() if text is not None}
        _generate_log(model.name, output, seed, to, overwrite, json, given)

    seed = Annotated[int, typer.Option(help="Random seed.")]
    options: list[tuple[str, Any, Any]] = [
        ("output", GeneratedPath, inspect.Parameter.empty),
        *((each.name, _make_option(each), None) for each in model.parameters()),
        ("seed", seed, 0),
        ("to", TargetFormat, None),
        ("overwrite", Overwrite, False),
        ("json", Json, False),
    ]
    # Typer reads the options of a command from its signature.
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind
            )
            for key, kind, default in options
        ]
    )
    run.__annotations__ = {key: kind for key, kind, _ in options}
    return run


def _make_option(parameter: GeneratorParameter) -> Any:
    unit = f" ({parameter.unit})" if parameter.unit else ""
    default = "" if parameter.default is None else f" \\[default: {parameter.default}]"
    text = f"{parameter.meaning[:1].upper()}{parameter.meaning[1:]}{unit}.{default}"
    return Annotated[str | None, typer.Option(help=text, metavar="VALUE", show_default=False)]


def _make_help(model: type[Generator]) -> str:
    about = (inspect.getdoc(model) or model.title).partition(">>>")[0].strip()
    if not issubclass(model, WorkflowGenerator):
        return f"{about}\n\n- `twinloop generate {model.name} made.swf --seed 1`"
    inputs = "".join(f" --{name} FILE" for name in model.path_parameters)
    about += "\n\nWrite a trace folder: an SWF log has no files, and one parent of each task."
    return f"{about}\n\n- `twinloop generate {model.name} made.trace{inputs} --seed 1`"


for _model in list_generators().values():
    generate.command(_model.name, help=_make_help(_model))(_make_command(_model))
