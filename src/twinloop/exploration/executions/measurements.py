"""The measured results of executions, as a table in a file: a row per execution.

They take precedence over what follows from the execution itself, which may not have recorded when
its instances stopped.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from twinloop.description.cleaning import EXAMPLES
from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import require_input
from twinloop.description.quantities import quote_value
from twinloop.exploration.executions.find_executions import SUFFIX
from twinloop.exploration.executions.plan import RecordedExecution
from twinloop.trace.formats.text_rows import read_lines

#: The columns with the name of the execution, and those of the measured values: the accepted names
#: of each, the names of the tables of SCHIaaS among them. Times are in s.
_EXECUTION_COLUMNS: Final = ("execution", "xp_id")
_VALUE_COLUMNS: Final = {
    "instances": ("instances", "nodes_count"),
    "units": ("units", "BTU_count"),
    "bill": ("bill",),
    "uptime_s": ("uptime_s", "uptime"),
    "runtime_s": ("runtime_s", "runtime"),
    "usage": ("usage",),
    "makespan_s": ("makespan_s", "makespan"),
}
#: In lower case.
_UNKNOWN_VALUES: Final = ("", "na", "nan", "null")
_SEPARATORS: Final = ("\t", ";", ",")
_FORM: Final = "first line: execution,uptime,makespan,usage"
#: Maximum number of excluded values that are listed.
_MAX_LISTED: Final = 10


@dataclass(frozen=True)
class MeasuredResults:
    """The measured values of executions, by name and column, and notes on rows that were not used.

    >>> MeasuredResults({"a": {"makespan_s": 95.0}}).values["a"]["makespan_s"]
    95.0
    """

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_measurements(
    path: str | Path | None, executions: Sequence[RecordedExecution]
) -> MeasuredResults:
    """Read the measured results of executions: a table with a header, separated by `,` `;` or tabs.

    A value that is not positive is an error of the measurement, as a negative uptime, because no
    relative error can be computed from it. It is excluded, not the whole study, and the note names
    the execution and the line.

    Args:
        path: The table; None: there is none.
        executions: The executions of the study; other rows are counted in a note.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "real.csv")
    ...     _ = file.write_text("xp_id,uptime,makespan,cores\\na,-20,95,4\\nz,10,10,4\\n")
    ...     found = read_measurements(file, [RecordedExecution("a", "a.tasks")])
    >>> found.values
    {'a': {'makespan_s': 95.0}}
    >>> for each in found.notes:
    ...     print(each)
    real.csv: excluded 1 measured value that is not positive: uptime of a (-20, line 2)
    real.csv: 1 row of no execution of the study (z)
    real.csv: ignored columns: cores
    """
    if path is None:
        return MeasuredResults()
    path = Path(path)
    require_input(path)
    rows = _read_rows(path)
    _, header = next(rows, (1, []))
    columns = _find_columns(header, path)
    known = {each.name for each in executions}
    values: dict[str, dict[str, float]] = {}
    excluded: list[str] = []
    others: list[str] = []
    lines: dict[str, int] = {}
    for line, cells in rows:
        if len(cells) != len(header):
            problem = f"has {len(cells)} cells, not {len(header)}"
            raise InputError(problem, kind="malformed-row", file=path, line=line)
        name = cells[columns["execution"]].removesuffix(SUFFIX)
        if name in lines:
            problem = f"'{name}' is also in line {lines[name]}"
            raise InputError(problem, kind="duplicate-name", file=path, line=line)
        lines[name] = line
        if name not in known:
            others.append(name)
            continue
        numbers = {
            column: _parse_number(cells[index], header[index], path, line)
            for column, index in columns.items()
            if column != "execution"
        }
        excluded += [
            f"{header[columns[column]]} of {name} ({number:g}, line {line})"
            for column, number in numbers.items()
            if number is not None and number <= 0
        ]
        positive = {k: number for k, number in numbers.items() if number is not None and number > 0}
        values[name] = _add_usage(positive, is_known="usage" in columns)
    if not values:
        raise InputError(
            "has no row of an execution of the study",
            kind="unknown-reference",
            file=path,
            remedy=f"name them as the files without {SUFFIX}, such as {executions[0].name}",
        )
    ignored = [name for index, name in enumerate(header) if index not in columns.values()]
    return MeasuredResults(values, tuple(_describe(path.name, excluded, others, ignored)))


def _add_usage(values: dict[str, float], *, is_known: bool) -> dict[str, float]:
    """Add the usage if the table has no such column, and the values that it follows from."""
    if not is_known and {"runtime_s", "uptime_s"} <= values.keys():
        values["usage"] = values["runtime_s"] / values["uptime_s"]
    return values


def _read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Generate the number and the cells of each line that is not empty."""
    separator = None
    for number, text in read_lines(path):
        text = text.removeprefix("\ufeff")
        if text.strip():
            if separator is None:
                separator = next((each for each in _SEPARATORS if each in text), ",")
            yield number, [cell.strip() for cell in next(csv.reader([text], delimiter=separator))]


def _find_columns(header: list[str], path: Path) -> dict[str, int]:
    """Return the index of the column with the names, and of each column of values."""
    wanted = {"execution": _EXECUTION_COLUMNS, **_VALUE_COLUMNS}
    columns: dict[str, int] = {}
    for column, names in wanted.items():
        found = [index for index, name in enumerate(header) if name in names]
        if len(found) > 1:
            problem = f"has more than one column {' or '.join(names)}"
            raise FormatError(problem, kind="wrong-columns", file=path, line=1, remedy=_FORM)
        if found:
            columns[column] = found[0]
    if "execution" not in columns or len(columns) == 1:
        missing = "of measured values" if "execution" in columns else "'execution'"
        problem = f"has no column {missing}"
        raise FormatError(problem, kind="wrong-columns", file=path, line=1, remedy=_FORM)
    return columns


def _parse_number(cell: str, column: str, path: Path, line: int) -> float | None:
    if cell.lower() in _UNKNOWN_VALUES:
        return None
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        problem = f"must be a number, not {quote_value(cell)}"
        raise InputError(
            problem,
            kind="wrong-type",
            file=path,
            line=line,
            field=column,
            remedy="leave the cell empty, or write nan, if it is not known",
        )
    return number


def _describe(
    name: str, excluded: list[str], others: list[str], ignored: list[str]
) -> Iterator[str]:
    """Describe what was not used."""
    if excluded:
        number = "value that is" if len(excluded) == 1 else "values that are"
        listed = _join(excluded, _MAX_LISTED)
        yield f"{name}: excluded {len(excluded):,} measured {number} not positive: {listed}"
    if others:
        rows = "row" if len(others) == 1 else "rows"
        yield f"{name}: {len(others):,} {rows} of no execution of the study ({_join(others)})"
    if ignored:
        yield f"{name}: ignored columns: {', '.join(ignored)}"


def _join(names: list[str], count: int = EXAMPLES) -> str:
    return ", ".join([*names[:count], *(["..."] if len(names) > count else [])])
