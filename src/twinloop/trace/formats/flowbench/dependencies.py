"""Dependencies of tasks in a JSON file with the children of each task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinloop.description.errors import InputError
from twinloop.trace.dependency_cycles import find_blocked_tasks
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.wfcommons.document import FieldReader, parse_json_file


def read_dependencies(path: Path, tally: Tally) -> dict[str, list[str]]:
    """Read the parents of each task, in the order in which the tasks first occur in the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     file = Path(temporary, "dag.json")
    ...     _ = file.write_text('{"a": ["b", "c"], "b": ["c"]}')
    ...     read_dependencies(file, Tally())
    {'a': [], 'b': ['a'], 'c': ['a', 'b']}
    """
    fields = FieldReader(path, tally, strict=False)
    document = fields.read_object(parse_json_file(path), "the document")
    parents: dict[str, list[str]] = {}
    repeated = 0
    for parent, value in document.items():
        parents.setdefault(fields.read_name(parent, "the document"), [])
        for child in fields.read_names(value, parent):
            names = parents.setdefault(child, [])
            repeated += parent in names
            if parent not in names:
                names.append(parent)
    tally.note("repaired", "children that a task lists more than once", count=repeated)
    rows = {name: row for row, name in enumerate(parents)}
    edges = [(rows[parent], rows[child]) for child, names in parents.items() for parent in names]
    parent_rows, child_rows = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    cycle = find_blocked_tasks(parent_rows, child_rows, len(rows))[1]
    if cycle:
        names = [list(parents)[row] for row in cycle]
        shown = names if len(names) <= 10 else [*names[:9], "...", names[-1]]
        raise InputError(
            f"the tasks wait for each other: {' -> '.join(shown)}",
            kind="dependency-cycle",
            file=path,
        )
    return parents
