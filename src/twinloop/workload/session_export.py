"""Export of session graphs to JSON, GraphML and SVG."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl

from twinloop.description.files import write_atomically

GRAPHML = "http://graphml.graphdrawing.org/xmlns"
SVG = "http://www.w3.org/2000/svg"

# Lengths in the picture (user units of SVG).
_ROW_HEIGHT, _WIDTH, _MARGIN, _TOP = 18, 960, 40, 24


def graph_to_dict(user: str, sessions: pl.DataFrame, edges: pl.DataFrame) -> dict[str, Any]:
    """Convert a graph to plain values; `before` is null for an edge from the root."""
    return {"user": user, "sessions": sessions.to_dicts(), "edges": edges.to_dicts()}


def write_json(graph: dict[str, Any], path: Path) -> None:
    """Write a graph as JSON."""
    with write_atomically(path) as stream:
        stream.write(json.dumps(graph, indent=1, allow_nan=False).encode() + b"\n")


def write_graphml(graph: dict[str, Any], path: Path) -> None:
    """Write a graph as GraphML, with a node for the root."""
    # Without a namespace prefix, which some readers do not support.
    top = ET.Element("graphml", {"xmlns": GRAPHML})
    fields = (
        ("start", "node", "double"),
        ("finish", "node", "double"),
        ("jobs", "node", "string"),
        ("think_time", "edge", "double"),
    )
    for name, target, kind in fields:
        attributes = {"id": name, "for": target, "attr.name": name, "attr.type": kind}
        ET.SubElement(top, "key", attributes)
    body = ET.SubElement(top, "graph", {"id": graph["user"], "edgedefault": "directed"})
    ET.SubElement(body, "node", {"id": "root"})
    for session in graph["sessions"]:
        node = ET.SubElement(body, "node", {"id": f"s{session['session']}"})
        _add_data(node, "start", repr(session["start"]))
        _add_data(node, "finish", repr(session["finish"]))
        _add_data(node, "jobs", " ".join(session["jobs"]))
    for edge in graph["edges"]:
        before = "root" if edge["before"] is None else f"s{edge['before']}"
        link = {"source": before, "target": f"s{edge['after']}"}
        _add_data(ET.SubElement(body, "edge", link), "think_time", repr(edge["think_time"]))
    ET.indent(top)
    with write_atomically(path) as stream:
        stream.write(ET.tostring(top, encoding="utf-8", xml_declaration=True) + b"\n")


def graph_to_svg(graph: dict[str, Any]) -> str:
    """Convert a graph to SVG: a bar per session on a time axis, a line per edge.

    A session is drawn in the highest row that is free at its start.
    """
    sessions = graph["sessions"]
    begin = min((s["start"] for s in sessions), default=0.0)
    end = max((s["finish"] for s in sessions), default=0.0)
    scale = (_WIDTH - 2 * _MARGIN) / max(end - begin, 1.0)
    rows: list[float] = []
    bars: list[tuple[float, float, float]] = []
    for session in sessions:
        left = _MARGIN + (session["start"] - begin) * scale
        # A minimum width, so that short sessions are visible.
        right = max(_MARGIN + (session["finish"] - begin) * scale, left + 2)
        row = next((r for r, occupied in enumerate(rows) if occupied <= left), len(rows))
        rows[row : row + 1] = [right]
        bars.append((left, right, _TOP + row * _ROW_HEIGHT))
    height = _TOP + len(rows) * _ROW_HEIGHT + 28
    top = ET.Element(
        "svg",
        {
            "xmlns": SVG,
            "viewBox": f"0 0 {_WIDTH} {height}",
            "font-family": "sans-serif",
            "fill": "#888",  # visible on a light and on a dark background
        },
    )
    ET.SubElement(top, "title").text = f"Sessions of user '{graph['user']}'"
    links = ET.SubElement(top, "g", {"stroke": "#888", "stroke-width": "0.8", "fill": "none"})
    for edge in graph["edges"]:
        x2, y2 = bars[edge["after"]][0], bars[edge["after"]][2] + 6
        x1, y1 = _MARGIN - 24.0, _TOP + 6.0
        if edge["before"] is not None:
            x1, y1 = bars[edge["before"]][1], bars[edge["before"]][2] + 6
        middle = (x1 + x2) / 2
        path = f"M{x1:.1f} {y1} C{middle:.1f} {y1} {middle:.1f} {y2} {x2:.1f} {y2}"
        line = ET.SubElement(links, "path", {"d": path})
        ET.SubElement(line, "title").text = f"think time {edge['think_time']:.0f} s"
    boxes = ET.SubElement(top, "g", {"fill": "#3b6ea5"})
    for session, (left, right, y) in zip(sessions, bars, strict=True):
        box = {"x": f"{left:.1f}", "y": str(y), "width": f"{right - left:.1f}", "height": "12"}
        bar = ET.SubElement(boxes, "rect", box | {"rx": "2"})
        jobs = len(session["jobs"])
        ET.SubElement(bar, "title").text = (
            f"session {session['session']}: {jobs} job{'' if jobs == 1 else 's'}, "
            f"{session['start']:.0f} to {session['finish']:.0f} s"
        )
    ET.SubElement(top, "circle", {"cx": str(_MARGIN - 24), "cy": str(_TOP + 6), "r": "4"})
    style = {"font-size": "11", "y": str(height - 8)}
    ET.SubElement(top, "text", style | {"x": str(_MARGIN)}).text = f"{begin:.0f} s"
    last = ET.SubElement(top, "text", style | {"x": str(_WIDTH - _MARGIN), "text-anchor": "end"})
    last.text = f"{end:.0f} s"
    return ET.tostring(top, encoding="unicode") + "\n"


def _add_data(parent: ET.Element, key: str, text: str) -> None:
    ET.SubElement(parent, "data", {"key": key}).text = text
