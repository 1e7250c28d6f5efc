"""Parsing of text files by the native parsers, with notes on invalid lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from twinloop._core import JsonLinesParser, LineProblem, SwfParser
from twinloop.description.cleaning import CleaningKind
from twinloop.description.errors import InputError
from twinloop.description.files import iterate_text_chunks, require_input
from twinloop.description.input_limit import check_input_limit, compute_input_limit
from twinloop.trace.formats.cleaning_counts import Tally

# The error for one line (with its text and number of fields), and the note for all such lines.
_MESSAGES: Final[dict[str, tuple[str, str]]] = {
    "too_long": ("is longer than 1 MiB", "lines longer than 1 MiB"),
    "field_count": ("has {found} fields, not {fields}", "lines without {fields} fields"),
    "not_a_number": ("'{text}' is not a number", "lines whose {field} is not a number"),
    "not_whole": ("'{text}' is not a whole number", "lines whose {field} is not a whole number"),
    "out_of_range": ("'{text}' is too large or too small", "lines whose {field} is out of range"),
    "malformed": ("is not valid JSON from '{text}' on", "lines that are not valid JSON"),
    "not_an_object": ("is not a JSON object: '{text}'", "lines that are not a JSON object"),
    "wrong_type": ("'{text}' is of the wrong type", "lines whose {field} is of the wrong type"),
    "duplicate": ("a field occurs twice: '{text}'", "lines that name a field twice"),
    "not_utf8": ("is not UTF-8 from '{text}' on", "lines that are not UTF-8"),
    "too_deep": ("is nested more than 64 deep", "lines nested more than 64 deep"),
    "negative": ("'{text}' is below zero", "values of {field} below zero, read as unknown"),
    "comment": ("is a comment between records", "comments that are not in the header"),
}
_KINDS: Final[dict[str, CleaningKind]] = {"negative": "repaired", "comment": "ignored"}


def parse_text_file(
    path: Path,
    parser: SwfParser | JsonLinesParser,
    fields: Sequence[str],
    *,
    strict: bool,
    tally: Tally,
) -> pl.DataFrame:
    """Parse a file into a table; invalid lines are counted, or raise an error if strict."""
    require_input(path)
    rows, limit = 0, compute_input_limit(path)
    for chunk in iterate_text_chunks(path):
        rows += chunk.count(b"\n")
        check_input_limit(path, rows * len(fields) * 8, f"has {rows:,} lines or more", limit)
        parser.feed(chunk)
        if strict:
            _raise_first(path, parser.problems, fields)
    table = pl.DataFrame(parser.finish())
    if strict or not table.height:
        _raise_first(path, parser.problems, fields)
    for problem in parser.problems:
        field = fields[problem.field] if problem.field >= 0 else ""
        tally.note(
            _KINDS.get(problem.kind, "skipped"),
            _MESSAGES[problem.kind][1].format(field=field, fields=len(fields)),
            count=problem.count,
            examples=[f"{path.name}:{line}" for line, _, _ in problem.places],
        )
    return table


def _raise_first(path: Path, problems: Sequence[LineProblem], fields: Sequence[str]) -> None:
    errors = [problem for problem in problems if problem.kind != "comment"]
    if not errors:
        return
    problem = min(errors, key=lambda each: each.places[0][0])
    line, found, text = problem.places[0]
    shown = text.decode("utf-8", errors="replace")
    raise InputError(
        _MESSAGES[problem.kind][0].format(found=found, fields=len(fields), text=shown),
        kind="invalid-value" if problem.field >= 0 else "malformed-row",
        file=path,
        line=line,
        field=fields[problem.field] if problem.field >= 0 else None,
        remedy="write -1 where it is unknown" if problem.kind == "negative" else None,
    )
