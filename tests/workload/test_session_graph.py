"""Session graphs, compared with a direct implementation of Definitions 3 to 6 of the paper.

Madon, Da Costa, Pierson: "Replay with feedback: how does the performance of HPC system impact user
submission behavior?", Future Generation Computer Systems 155 (2024).
"""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workload.test_sessions import direct, jobs, log, ways
from twinloop.description.errors import InputError
from twinloop.trace.formats.swf import read
from twinloop.trace.trace import Trace
from twinloop.workload import SessionGraphs, Sessions


class Direct:
    """The graphs by the definitions: every pair of sessions, then every path."""

    def __init__(self, rows, by, threshold):
        self.sessions = direct(rows, by, threshold)
        self.user = [rows[s[0]][0] if rows[s[0]][0] is not None else s[0] for s in self.sessions]
        self.start = [rows[s[0]][1] for s in self.sessions]
        self.finish = [max(sum(rows[i][1:]) for i in s) for s in self.sessions]
        count = range(len(self.sessions))
        # Definition 5, for the sessions that come before in the order of submission.
        self.depends = {
            (i, j)
            for j in count
            for i in range(j)
            if self.user[i] == self.user[j] and self.finish[i] <= self.start[j]
        }

    def direct_edges(self):
        """The predecessors without another session in between."""
        return {
            (i, j)
            for i, j in self.depends
            if not any((i, k) in self.depends and (k, j) in self.depends for k in range(i + 1, j))
        }


def closure(edges, count):
    reach = np.zeros((count, count), dtype=bool)
    for i, j in edges:
        reach[i, j] = True
    for k in range(count):
        reach |= np.outer(reach[:, k], reach[k])
    return {(int(i), int(j)) for i, j in np.argwhere(reach)}


def edges_of(graphs):
    after = np.repeat(np.arange(len(graphs.partition)), np.diff(graphs.offsets))
    return list(zip(graphs.predecessors.tolist(), after.tolist(), strict=True))


cases = (jobs, ways, st.integers(0, 4))


@given(*cases)
def test_the_graph_is_the_transitive_reduction_of_the_definition(rows, by, threshold):
    oracle = Direct(rows, by, threshold)
    edges = edges_of(SessionGraphs.from_log(log(rows), by=by, threshold=threshold))
    assert len(edges) == len(set(edges))
    assert set(edges) == oracle.direct_edges()
    assert closure(edges, len(oracle.sessions)) == oracle.depends


@given(*cases)
def test_every_edge_leads_to_a_later_session_after_a_think_time(rows, by, threshold):
    oracle = Direct(rows, by, threshold)
    graphs = SessionGraphs.from_log(log(rows), by=by, threshold=threshold)
    for (i, j), think in zip(edges_of(graphs), graphs.think_times, strict=True):
        assert i < j
        assert think == oracle.start[j] - oracle.finish[i] >= 0


@given(*cases)
def test_the_root_leads_to_the_sessions_without_predecessors(rows, by, threshold):
    oracle = Direct(rows, by, threshold)
    graphs = SessionGraphs.from_log(log(rows), by=by, threshold=threshold)
    found = set()
    for place, graph in enumerate(graphs):
        first = int(graphs.partition.user_offsets[place])
        for before, after, think in graph.edges.rows():
            if before is None:
                found.add(first + after)
                assert think == oracle.start[first + after]
            else:
                assert (first + before, first + after) in oracle.depends
    assert found == {
        j for j in range(len(oracle.sessions)) if not any(e[1] == j for e in oracle.depends)
    }


@given(*cases)
def test_statistics_are_those_of_the_definition(rows, by, threshold):
    oracle = Direct(rows, by, threshold)
    graphs = SessionGraphs.from_log(log(rows), by=by, threshold=threshold)
    depth = []
    for j in range(len(oracle.sessions)):
        depth.append(1 + max((depth[i] for i in range(j) if (i, j) in oracle.depends), default=0))
    edges = oracle.direct_edges()
    table = graphs.statistics()
    assert table["sessions"].sum() == len(oracle.sessions)
    assert table["edges"].sum() == len(edges)
    assert table["jobs"].sum() == len(rows)
    for place, row in enumerate(table.iter_rows(named=True)):
        mine = range(*graphs.partition.user_offsets[place : place + 2])
        assert row["longest_path"] == max(depth[j] for j in mine)
        assert row["arity"] == max(sum(e[0] == i for e in edges) for i in mine)


@given(*cases)
def test_successors_are_the_inverse_of_predecessors(rows, by, threshold):
    graphs = SessionGraphs.from_log(log(rows), by=by, threshold=threshold)
    offsets, after = graphs.successors
    before = np.repeat(np.arange(len(graphs.partition)), np.diff(offsets))
    assert sorted(edges_of(graphs)) == sorted(zip(before.tolist(), after.tolist(), strict=True))


# Fig. 1 of the paper in minutes: j1 and j2 are one session, j3, j4 and {j5, j6} are others.
FIGURE = [
    ("u", 0.0, 0.0, 30.0),
    ("u", 40.0, 0.0, 150.0),
    ("u", 110.0, 0.0, 50.0),
    ("u", 200.0, 0.0, 60.0),
    ("u", 330.0, 0.0, 10.0),
    ("u", 350.0, 0.0, 20.0),
]


def figure():
    return SessionGraphs.from_log(log(FIGURE), threshold=60)["u"]


def test_a_worked_example():
    graph = figure()
    assert graph.sessions.select("start", "finish", "jobs", "submits").rows() == [
        (0.0, 190.0, ["0", "1"], [0.0, 40.0]),
        (110.0, 160.0, ["2"], [0.0]),
        (200.0, 260.0, ["3"], [0.0]),
        (330.0, 370.0, ["4", "5"], [0.0, 20.0]),
    ]
    assert graph.edges.rows() == [
        (None, 0, 0.0),
        (None, 1, 110.0),
        (0, 2, 10.0),
        (1, 2, 40.0),
        (2, 3, 70.0),
    ]
    assert (graph.longest_path(), graph.arity()) == (3, 1)


def test_sessions_of_zero_length_at_the_same_time_are_ordered():
    graphs = SessionGraphs.from_log(log([("u", 5.0, 0.0, 0.0)] * 3), threshold=0)
    assert edges_of(graphs) == [(0, 1), (1, 2)]


def test_json_contains_the_whole_graph(tmp_path):
    graph = figure()
    graph.to_json(tmp_path / "graph.json")
    document = json.loads((tmp_path / "graph.json").read_text())
    assert document["user"] == "u"
    assert pl.DataFrame(document["edges"]).equals(graph.edges)
    assert pl.DataFrame(document["sessions"]).equals(graph.sessions)


def test_graphml_contains_the_whole_graph(tmp_path):
    graph = figure()
    graph.to_graphml(tmp_path / "graph.graphml")
    space = {"g": "http://graphml.graphdrawing.org/xmlns"}
    top = ET.parse(tmp_path / "graph.graphml").getroot()
    keys = {key.get("id") for key in top.iterfind("g:key", space)}
    nodes = {node.get("id"): node for node in top.iterfind("g:graph/g:node", space)}
    assert set(nodes) == {"root", "s0", "s1", "s2", "s3"}
    used = {data.get("key") for data in top.iterfind(".//g:data", space)}
    assert used == keys
    found = [
        (edge.get("source"), edge.get("target"), float(edge.findtext("g:data", None, space)))
        for edge in top.iterfind("g:graph/g:edge", space)
    ]
    assert found == [
        ("root" if before is None else f"s{before}", f"s{after}", think)
        for before, after, think in graph.edges.rows()
    ]


def test_the_picture_has_a_bar_per_session_and_a_line_per_edge():
    graph = figure()
    picture = ET.fromstring(graph.to_svg())
    space = {"s": "http://www.w3.org/2000/svg"}
    bars = picture.findall(".//s:rect", space)
    assert len(bars) == graph.sessions.height
    assert len(picture.findall(".//s:path", space)) == graph.edges.height
    left = [float(bar.get("x")) for bar in bars]
    assert left == sorted(left)
    # Sessions 0 and 1 run at the same time, so they are in different rows.
    assert bars[0].get("y") != bars[1].get("y")


def test_a_name_with_markup_is_escaped(tmp_path):
    graphs = SessionGraphs.from_log(log([('<a&"b">', 0.0, 0.0, 1.0)]))
    graph = graphs['<a&"b">']
    graph.to_graphml(tmp_path / "graph.graphml")
    top = ET.parse(tmp_path / "graph.graphml").getroot()
    assert top[-1].get("id") == '<a&"b">'
    assert '<a&"b">' in "".join(ET.fromstring(graph.to_svg()).itertext())


def test_an_unknown_user_is_refused():
    with pytest.raises(InputError, match="unknown user 'x'"):
        SessionGraphs.from_log(log(FIGURE))["x"]


def test_a_source_creates_its_session_graphs():
    one = Sessions(threshold=60.0).graphs(log(FIGURE))
    assert edges_of(one) == edges_of(SessionGraphs.from_log(log(FIGURE), threshold=60.0))


def test_counts_of_one_are_singular():
    tasks = {"id": ["1", "2"], "user": ["ann", "ann"], "submit": [0.0, 100.0]}
    frame = pl.DataFrame(tasks).with_columns(requested_cores=pl.lit(1.0), run_time=pl.lit(5.0))
    one = SessionGraphs.from_log(Trace(tasks=frame.head(1)))
    assert repr(one) == "<SessionGraphs of 1 user: 1 session, 0 edges>"
    assert repr(one["ann"]) == "<SessionGraph of user ann: 1 session>"
    two = SessionGraphs.from_log(Trace(tasks=frame), threshold=0)
    assert repr(two) == "<SessionGraphs of 1 user: 2 sessions, 1 edge>"


@pytest.mark.realdata
def test_kth_has_the_structure_that_the_paper_reports(real_data):
    # Section 7.2, for KTH and SDSC together: 75 % of think times under 10 h and 35 % under 1 h
    # for a0, 50 % and about 13 % for a60, and no arity above 11 for a60.
    trace = read(real_data / "swf/KTH-SP2-1996-2.1-cln.swf.gz")
    published = {0.0: (0.75, 0.35), 3600.0: (0.50, 0.13)}
    sizes, figures = {}, []
    for threshold, shares in published.items():
        graphs = SessionGraphs.from_log(trace, threshold=threshold)
        assert len(graphs.users) == 214
        for hours, share in zip((10, 1), shares, strict=True):
            assert np.mean(graphs.think_times < hours * 3600) == pytest.approx(share, abs=0.03)
        sizes[threshold] = graphs.statistics()
        figures.append(
            {
                "users": f"{len(graphs.users)}",
                "sessions": f"{len(graphs.partition):,}",
                "edges": f"{len(graphs.predecessors):,}",
                "think times < 10 h": f"{np.mean(graphs.think_times < 36_000):.1%}",
                "think times < 1 h": f"{np.mean(graphs.think_times < 3600):.1%}",
                "largest arity": f"{sizes[threshold]['arity'].max()}",
                "longest path": f"{sizes[threshold]['longest_path'].max()}",
            }
        )
    assert sizes[0.0]["sessions"].sum() == 28_475
    assert sizes[3600.0]["arity"].max() <= 11 < sizes[0.0]["arity"].max()
    assert sizes[3600.0]["longest_path"].max() < sizes[0.0]["longest_path"].max()
    page = (Path(__file__).resolve().parents[2] / "docs/sessions.md").read_text(encoding="utf-8")
    table = page.partition("| | a0 | paper | a60 | paper |\n|---|---|---|---|---|\n")[2]
    rows = [line.split("|") for line in table.partition("\n\n")[0].splitlines()]
    for place, measured in zip((2, 4), figures, strict=True):
        said = {row[1].strip(): row[place].strip().replace(" %", "%") for row in rows}
        assert said == measured
