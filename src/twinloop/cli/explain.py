"""`twinloop explain`: the meaning of a code."""

from __future__ import annotations

from typing import Annotated

import typer

from twinloop.cli.console import out
from twinloop.cli.output import Json, print_json, report_errors
from twinloop.description.codes import CODES


def explain(
    code: Annotated[
        str | None,
        typer.Argument(help="A code such as TL0101, or its name; by default all are listed."),
    ] = None,
    json: Json = False,
) -> None:
    """Explain the code of an error or of a quality rule.

    Messages about an input end with its code: `log.swf: does not exist [TL0101]`.

    - `twinloop explain TL0101`
    - `twinloop explain lifecycle-order`
    """
    from twinloop.description.code_reference import describe_code, find_code

    with report_errors(json):
        entries = list(CODES.values()) if code is None else [find_code(code)]
        if json:
            print_json({"codes": [entry._asdict() for entry in entries]})
        elif code is None:
            for entry in entries:
                out.print(f"{entry.code} {entry.name}: {entry.text}", markup=False, soft_wrap=True)
        else:
            out.print(describe_code(entries[0]), markup=False, soft_wrap=True)
