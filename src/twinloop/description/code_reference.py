"""Reference of the codes of problems: lookup of an entry, and the documentation page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import Final

from twinloop.description.address import suggest_name
from twinloop.description.codes import CODES, SECTIONS, ProblemCode
from twinloop.description.errors import InputError

#: The line width of the documentation.
_WIDTH: Final = 120
_EXAMPLE: Final = "log.swf: does not exist [TL0101]"


def find_code(word: str) -> ProblemCode:
    """Find an entry of the table by its code or its name; upper and lower case are the same.

    >>> find_code("tl0101").name, find_code("file-not-found").code
    ('file-not-found', 'TL0101')
    >>> find_code("file-missing")
    Traceback (most recent call last):
    twinloop.InputError: no code is called 'file-missing' (...) [TL0209]
    """
    for entry in CODES.values():
        if word.strip("[] ").lower() in (entry.code.lower(), entry.name):
            return entry
    raise InputError(
        f"no code is called '{word}'",
        kind="unknown-name",
        remedy=suggest_name(word, [*CODES, *(entry.code for entry in CODES.values())]),
    )


def describe_code(entry: ProblemCode) -> str:
    """Describe an entry in a few lines.

    >>> print(describe_code(CODES["file-not-found"]))
    TL0101 file-not-found
    <BLANKLINE>
    Problem: A file or folder does not exist.
    Remedy: Check the path; paths in a description are relative to the file of the description.
    """
    return "\n".join((f"{entry.code} {entry.name}", "", *_list_lines(entry)))


def _list_lines(entry: ProblemCode) -> Iterator[str]:
    if entry.severity is None:
        yield f"Problem: {entry.text}"
    else:
        yield f"Quality rule: {entry.text}"
        yield f"Severity: {entry.severity}" + (
            ", which closes the quality gate" if entry.severity == "error" else ""
        )
    if entry.repair:
        yield f"Repair: {entry.repair}"
    yield f"Remedy: {entry.remedy}"


def format_markdown() -> str:
    """Format the table as a page of the documentation.

    >>> format_markdown().splitlines()[0]
    '# Codes'
    """
    intro = (
        "Every rule of the quality gate and every error about an input has a code, which stays the "
        f"same in later versions. Messages end with it: `{_EXAMPLE}`. `twinloop explain TL0101` "
        "prints its entry; in Python an `InputError` has `code` and `kind`, the name of the code."
    )
    source = (
        "<!-- Output of `python -m twinloop.description.code_reference`; edit the table in "
        "description/codes.py. -->\n"
    )
    parts = [f"# Codes\n\n{source}\n{fill(intro, _WIDTH)}\n"]
    for digits, title in SECTIONS.items():
        entries = [entry for entry in CODES.values() if entry.code[2:4] == digits]
        lines = _format_rules(entries) if entries[0].severity else _format_problems(entries)
        parts.append("\n".join((f"## {title}\n", *lines)) + "\n")
    return "\n".join(parts)


def _format_rules(entries: Iterable[ProblemCode]) -> Iterator[str]:
    yield "| code | name | severity | condition | repair | remedy |"
    yield "|---|---|---|---|---|---|"
    for entry in entries:
        cells = (entry.severity or "", entry.text, entry.repair, entry.remedy)
        yield f"| {entry.code} | `{entry.name}` | {' | '.join(cells)} |"


def _format_problems(entries: Iterable[ProblemCode]) -> Iterator[str]:
    yield "| code | name | problem | remedy |"
    yield "|---|---|---|---|"
    for entry in entries:
        yield f"| {entry.code} | `{entry.name}` | {entry.text} | {entry.remedy} |"


if __name__ == "__main__":
    print(format_markdown(), end="")
