"""Reader of the workflow diagram of Nextflow: DOT, Mermaid, or HTML with a Mermaid diagram.

A diagram has vertices for processes, operators and channels. Edges between processes are those of
the diagram and the paths through vertices of any other kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import read_text

_MAX_BYTES: Final = 64 << 20

_DOT_EDGE: Final = re.compile(r'^\s*"?([\w.$-]+)"?\s*->\s*"?([\w.$-]+)"?')
_DOT_VERTEX: Final = re.compile(r'^\s*"?([\w.$-]+)"?\s*\[(.*)\]')
_DOT_LABEL: Final = re.compile(r'(?<![a-z])label="((?:[^"\\]|\\.)*)"')
_MERMAID: Final = re.compile(r"^\s*(?:flowchart|graph)\b", re.MULTILINE)
_MERMAID_EDGE: Final = re.compile(r"^\s*([\w.$-]+)\s*-->\s*(?:\|[^|]*\|)?\s*([\w.$-]+)\s*;?\s*$")
# Processes are in brackets, [NAME] or ([NAME]); channels are in quotes or, as operators, (( )).
_MERMAID_VERTEX: Final = re.compile(r'^\s*([\w.$-]+)\s*\(?\[\s*(?!")(.*?)\s*\]\)?\s*;?\s*$')
_SUBGRAPH: Final = re.compile(r'^\s*subgraph\s+(?:.*\[(.*)\]|"?(.*?)"?)\s*$')


class Diagram(NamedTuple):
    """The vertices of a diagram with their labels, and its edges."""

    #: Label of each vertex, with the names of the workflows around it: `ALIGN:SORT`.
    labels: dict[str, str]
    edges: list[tuple[str, str]]


def read_diagram(path: Path) -> Diagram:
    """Read the diagram in a file."""
    text = read_text(path, limit=_MAX_BYTES)
    start = _MERMAID.search(text)
    if start is not None:
        body = text[start.start() :]
        if "<" in text[: start.start()]:  # inside of an HTML page
            import html  # its table of characters would slow down every start

            body = html.unescape(body.partition("</")[0])
        diagram = _parse_mermaid(body)
    elif re.search(r"\bdigraph\b", text):
        diagram = _parse_dot(text)
    else:
        raise FormatError(
            "contains no diagram in DOT or Mermaid",
            kind="wrong-format",
            file=path,
            remedy="write it with: nextflow run ... -with-dag dag.mmd (or dag.dot, dag.html)",
        )
    if not diagram.edges:
        raise InputError("contains a diagram without edges", kind="empty-log", file=path)
    return diagram


def _parse_dot(text: str) -> Diagram:
    r"""Parse a graph of Graphviz.

    >>> _parse_dot('digraph "d" {\np0 [label="A"];\np1 [label="B"];\np0 -> p1 [label="x"];\n}')
    Diagram(labels={'p0': 'A', 'p1': 'B'}, edges=[('p0', 'p1')])
    """
    labels: dict[str, str] = {}
    edges = []
    for line in text.splitlines():
        if edge := _DOT_EDGE.match(line):
            edges.append((edge[1], edge[2]))
        elif vertex := _DOT_VERTEX.match(line):
            label = _DOT_LABEL.search(vertex[2])
            if label and label[1]:
                labels[vertex[1]] = label[1]
    return Diagram(labels, list(dict.fromkeys(edges)))


def _parse_mermaid(text: str) -> Diagram:
    r"""Parse a flowchart of Mermaid.

    >>> _parse_mermaid("flowchart TB\n subgraph W\n p0([A])\n end\n p1(( ))\n p0 --> p1")
    Diagram(labels={'p0': 'W:A'}, edges=[('p0', 'p1')])
    """
    labels: dict[str, str] = {}
    edges = []
    around: list[str] = []
    for line in text.splitlines():
        if subgraph := _SUBGRAPH.match(line):
            around.append((subgraph[1] or subgraph[2] or "").strip())
        elif line.strip() == "end":
            del around[-1:]
        elif edge := _MERMAID_EDGE.match(line):
            edges.append((edge[1], edge[2]))
        elif vertex := _MERMAID_VERTEX.match(line):
            label = vertex[2].strip()
            if label:
                labels[vertex[1]] = ":".join([*filter(None, around), label])
    return Diagram(labels, list(dict.fromkeys(edges)))


def match_processes(labels: Mapping[str, str], processes: Iterable[str]) -> dict[str, str]:
    """Match the vertices of a diagram with the processes of a trace, by name.

    A label in a diagram may lack the outer workflows of the name of the process. A label that fits
    several processes, or none, has no process.

    >>> match_processes({"p0": "A:SORT", "p1": "map"}, ["MAIN:A:SORT", "MAIN:B:SORT"])
    {'p0': 'MAIN:A:SORT'}
    """
    by_end: dict[str, list[str]] = {}
    for process in processes:
        parts = process.split(":")
        for first in range(len(parts)):
            by_end.setdefault(":".join(parts[first:]), []).append(process)
    found = {}
    for vertex, label in labels.items():
        parts = label.split(":")
        for first in range(len(parts)):
            candidates = by_end.get(":".join(parts[first:]), [])
            if label in candidates:
                candidates = [label]
            if len(candidates) == 1:
                found[vertex] = candidates[0]
            if candidates:
                break
    return found


def link_processes(diagram: Diagram, processes: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the parents of each process: along edges, and paths through other vertices.

    >>> diagram = Diagram({}, [("p0", "p1"), ("p1", "p2"), ("p0", "p2")])
    >>> link_processes(diagram, {"p0": "A", "p2": "B"})
    {'B': ['A']}
    """
    before: dict[str, list[str]] = {}
    for source, target in diagram.edges:
        before.setdefault(target, []).append(source)
    parents: dict[str, dict[str, None]] = {}
    for vertex, process in processes.items():
        pending, seen = list(before.get(vertex, ())), {vertex}
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            if each in processes:
                if processes[each] != process:
                    parents.setdefault(process, {})[processes[each]] = None
            else:
                pending += before.get(each, ())
    return {process: sorted(names) for process, names in parents.items()}
