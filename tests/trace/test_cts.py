"""CTS: the JSON Lines parser against Python's, samples and tasks, round trips, broken files."""

import gzip
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop._core import JsonLinesParser
from twinloop.description import FormatError, InputError
from twinloop.trace import Manifest, Trace
from twinloop.trace.formats import cts
from twinloop.trace.formats.cts.attribution import attribute_samples
from twinloop.trace.tables import TABLES

# --- the slow parser -----------------------------------------------------------------------------

COLUMNS = [("n", "int64"), ("x", "float64"), ("s", "string"), ("é", "int64")]
LIMIT = 2**53
DEEPEST = 64


class Unreadable(ValueError):
    pass


class Pairs(list[tuple[str, Any]]):
    """A JSON object with all its members, including repeated names."""


def refuse(constant: str) -> None:
    raise Unreadable(constant)


def check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        value.encode()  # a lone surrogate is invalid
    elif isinstance(value, list):
        if depth > DEEPEST:
            raise Unreadable
        for each in value:
            if isinstance(value, Pairs):
                check(each[0], depth)
                each = each[1]
            check(each, depth + 1)


def slow_value(type_: str, value: Any) -> Any:
    if value is None:
        return None
    if type_ == "string":
        if not isinstance(value, str):
            raise Unreadable
        return value
    if not isinstance(value, Decimal):
        raise Unreadable
    if type_ == "int64":
        if value != 0 and value.adjusted() > 20:
            raise Unreadable
        if value != int(value) or abs(value) > LIMIT:
            raise Unreadable
        return int(value)
    number = float(value)
    if abs(number) == float("inf") or (number == 0 and value != 0):
        raise Unreadable
    return number


def slow_row(line: str) -> tuple[Any, ...]:
    members = json.loads(
        line,
        object_pairs_hook=Pairs,
        parse_int=Decimal,
        parse_float=Decimal,
        parse_constant=refuse,
    )
    if not isinstance(members, Pairs):
        raise Unreadable
    found = dict(members)
    if len(found) != len(members):
        raise Unreadable
    known = [name for name, _ in COLUMNS]
    for name, value in members:
        check(name, 0)
        if name not in known:
            check(value, 1)
    row = tuple(slow_value(type_, found.get(name)) for name, type_ in COLUMNS)
    check(row[2], 0)
    return row


def slow_parse(data: bytes) -> tuple[list[tuple[Any, ...]], int]:
    rows, unreadable = [], 0
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for number, line in enumerate(lines.split(b"\n"), start=1):
        if not line.strip(b" \t"):
            continue
        try:
            rows.append((number, *slow_row(line.decode())))
        except (ValueError, RecursionError):
            unreadable += 1
    return rows, unreadable


def native_parse(data: bytes, cuts: list[int]) -> tuple[list[tuple[Any, ...]], int]:
    parser = JsonLinesParser(COLUMNS, LIMIT)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in pairwise(edges):
        parser.feed(data[begin:end])
    table = pl.DataFrame(parser.finish())
    return table.rows(), sum(each.count for each in parser.problems)


number = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1.0", "1e3", "1.5e1", "12e-1", "10E-1", "-0", "-0.0", "9007199254740992"])
    | st.sampled_from(["9007199254740993", "9007199254740992.0", "1e400", "1e-400", "0e400", "01"])
    | st.sampled_from(["1.", ".5", "+1", "-", "1e", "0x1", "NaN", "-Infinity", "1_0", "1E+2"]),
)
text = st.one_of(
    st.text(max_size=6).map(json.dumps),
    st.text(
        st.characters(exclude_characters='"\\', exclude_categories=["Cc", "Cs"]), max_size=6
    ).map('"{}"'.format),
    st.sampled_from(['"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00x"', '"\\u00e9"', '"\\x"', '"\t"'])
    | st.sampled_from(['"\\u12"', '"\\/\\b\\f\\n\\r\\t\\"\\\\"', '"', '"\\', '"\\ud83d\\u0041"']),
)
scalar = st.one_of(number, text, st.sampled_from(["null", "true", "false", "nul", "True", "nulll"]))
nested = st.recursive(
    scalar,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(text, inner), max_size=3).map(
            lambda items: "{" + ",".join(f"{k} : {v}" for k, v in items) + "}"
        ),
    ),
    max_leaves=4,
)
member = st.one_of(
    st.tuples(st.sampled_from(['"n"', '"\\u006e"', '"é"']), number),
    st.tuples(st.just('"x"'), number),
    st.tuples(st.just('"s"'), text),
    st.tuples(st.sampled_from(['"n"', '"x"', '"s"', '"other"', '"more"', '""']), nested),
)
line = st.builds(
    lambda members, blank, end: (
        "{" + f",{blank}".join(f"{k}{blank}:{v}" for k, v in members) + "}" + end
    ),
    st.lists(member, max_size=4),
    st.sampled_from(["", " ", "\t"]),
    st.sampled_from(["", "", "", " ", "x", "}", ","]),
)
document = st.lists(
    st.tuples(
        st.one_of(line, line, line, nested, st.text(max_size=5), st.just("")),
        st.sampled_from(["\n", "\r\n", "\r"]),
    ).map("".join),
    max_size=8,
).map("".join)


def encoded(document: str) -> bytes:
    return document.encode("utf-8", errors="replace")


@given(document, st.lists(st.integers(0, 10**4), max_size=6), st.booleans())
def test_the_parser_agrees_with_python_for_any_cut_of_the_text(
    document: str, cuts: list[int], mark: bool
) -> None:
    data = (b"\xef\xbb\xbf" if mark else b"") + encoded(document)
    assert native_parse(data, cuts) == slow_parse(data)


@given(st.lists(line, min_size=1, max_size=3), st.integers(0, 10**6), st.integers(0, 255))
def test_one_byte_changed_anywhere_is_read_alike(lines: list[str], place: int, byte: int) -> None:
    data = bytearray(encoded("\n".join(lines)))
    data[place % len(data)] = byte
    assert native_parse(bytes(data), []) == slow_parse(bytes(data))


@pytest.mark.parametrize("depth", [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 5000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_bounded(depth: int, begin: str, end: str) -> None:
    data = ('{"n":1,"deep":' + begin * depth + "1" + end * depth + "}").encode()
    assert native_parse(data, []) == slow_parse(data)
    assert native_parse(data, [])[1] == (depth > DEEPEST)


def test_invalid_utf8_is_found_in_known_and_unknown_fields() -> None:
    bad = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"]
    for each in bad:
        for key in (b"s", b"other"):
            data = b'{"' + key + b'":"a' + each + b'"}'
            assert native_parse(data, []) == slow_parse(data) == ([], 1)


def test_unused_fields_are_counted_by_name() -> None:
    parser = JsonLinesParser([("n", "int64")])
    parser.feed(b'{"a":1,"n":1,"b":[1,{"c":2}]}\n{"a":{}}\n{"a":1,"n":"unreadable"}\n')
    parser.feed(b"".join(b'{"k%d":1}\n' % i for i in range(300)))
    assert len(parser.finish()) == 302
    others = parser.others
    assert (others["a"], others["b"], others["k0"], len(others)) == (2, 1, 1, 257)
    assert others[""] == 300 - 254


def test_unused_fields_keep_their_complete_name() -> None:
    parser = JsonLinesParser([("n", "int64")])
    parser.feed(b'{"k\\u0000one":1,"k\\u0000two":2,"k":3}\n')
    parser.finish()
    assert parser.others == {"k\x00one": 1, "k\x00two": 1, "k": 1}


def test_a_column_of_an_unknown_type_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown column type 'int32'"):
        JsonLinesParser([("n", "int32")])


# --- meaning of the files ------------------------------------------------------------------------

INVOCATIONS = """\
{"trace_id":"job-0001","pid":32104,"ts_enqueue":1726128005000,"ts_start":1726128007100,"ts_end":1726128009320}
{"trace_id":"job-0002","pid":32105,"ts_enqueue":1726128004500,"ts_start":1726128009000,"ts_end":1726128009500,"exit_status":3,"node_id":"n1"}
"""
SAMPLES = """\
{"ts_ms":1726128007100,"pid":32104,"dt_ms":200,"cpu_ms":180,"rss_kb":420000}
{"ts_ms":1726128007300,"pid":32104,"dt_ms":300,"cpu_ms":220,"rss_kb":421200}
{"ts_ms":1726128007300,"pid":1,"dt_ms":300,"cpu_ms":1,"rss_kb":1}
"""
NODES = '{"node_id":"n1","cpu_cores":8,"mem_mb":16384,"cpu_freq_mhz":2400}'


def lay(
    folder: Path,
    invocations: str | bytes = INVOCATIONS,
    samples: str | bytes = SAMPLES,
    nodes: str = NODES,
) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in (("invocations", invocations), ("proc_metrics", samples)):
        data = content if isinstance(content, bytes) else content.encode()
        (folder / f"{name}.jsonl").write_bytes(data)
    (folder / "nodes.json").write_text(nodes)
    return folder


def test_the_files_become_these_tables(tmp_path: Path) -> None:
    trace = cts.read(lay(tmp_path))
    assert trace.manifest.epoch_ms == 1726128004500
    assert trace.tasks.select("id", "submit", "status", "exit_code", "pid", "line").rows() == [
        ("job-0001", 0.5, None, None, 32104, 1),
        ("job-0002", 0.0, "failed", 3, 32105, 2),
    ]
    assert trace.placements.drop("cores", "memory").rows() == [
        ("job-0001", 0, None, 2.6, 4.82, None),
        ("job-0002", 0, "n1", 4.5, 5.0, "failed"),
    ]
    assert trace.usage.drop("machine").rows() == [
        ("job-0001", 32104, 2.6, 0.2, 0.18, 420000 * 1024.0, 1),
        ("job-0001", 32104, 2.8, 0.3, 0.22, 421200 * 1024.0, 2),
        (None, 1, 2.8, 0.3, 0.001, 1024.0, 3),
    ]
    assert trace.nodes.drop("cluster", "resources").rows() == [("n1", 8.0, 2400.0, 2.0**34)]
    assert trace.manifest.cleaned == ()
    assert trace.manifest.source is not None
    assert [file.name for file in trace.manifest.source.files] == [
        *("invocations.jsonl", "proc_metrics.jsonl", "nodes.json")
    ]


def test_a_list_of_nodes_and_compressed_lines_are_read(tmp_path: Path) -> None:
    lay(tmp_path, nodes=f"[{NODES}, {NODES.replace('n1', 'n2')}]")
    (tmp_path / "invocations.jsonl").unlink()
    (tmp_path / "invocations.jsonl.gz").write_bytes(gzip.compress(INVOCATIONS.encode()))
    assert cts.FORMAT.recognises(tmp_path, b"")
    trace = cts.read(tmp_path)
    assert trace.tasks.height == 2
    assert trace.nodes["node"].to_list() == ["n1", "n2"]


def slow_attribute(samples: pl.DataFrame, invocations: pl.DataFrame) -> list[int | None]:
    nodes_count = all(
        any(node is not None for node in frame["node_id"]) for frame in (samples, invocations)
    )
    result: list[int | None] = []
    for sample in samples.to_dicts():
        best: tuple[bool, float, int] | None = None
        for row, run in enumerate(invocations.to_dicts()):
            if sample["pid"] is None or sample["ts_ms"] is None or run["pid"] != sample["pid"]:
                continue
            if nodes_count and run["node_id"] != sample["node_id"]:
                continue
            start = -(10.0**18) if run["ts_start"] is None else run["ts_start"]
            end = 10.0**18 if run["ts_end"] is None else run["ts_end"]
            start, end = min(start, end), max(start, end)
            begin = sample["ts_ms"] - max(sample["dt_ms"] or 0, 0)
            if start <= sample["ts_ms"] and end >= begin:
                # A task that began at the end of the window is last.
                found = (start < sample["ts_ms"], start, row)
                best = found if best is None else max(best, found)
        result.append(None if best is None else best[2])
    return result


def test_a_window_that_ends_at_the_start_of_the_next_run_belongs_to_the_previous_run(
    tmp_path: Path,
) -> None:
    invocations = (
        '{"trace_id":"a","pid":7,"ts_enqueue":0,"ts_start":2000,"ts_end":5000}\n'
        '{"trace_id":"b","pid":7,"ts_enqueue":0,"ts_start":5000,"ts_end":8000}\n'
    )
    samples = '{"ts_ms":5000,"pid":7,"dt_ms":1000,"cpu_ms":900,"rss_kb":1}\n'
    trace = cts.read(lay(tmp_path / "in", invocations, samples))
    assert trace.usage["task"].to_list() == ["a"]


maybe_node = st.sampled_from(["a", "a", "b", None])
maybe_pid = st.sampled_from([1, 1, 1, 2, None])
moment = st.one_of(*[st.integers(0, 30)] * 5, st.none())
INTS = {"pid": pl.Int64, "node_id": pl.String}


@given(
    st.lists(st.tuples(maybe_pid, maybe_node, moment, moment), min_size=1, max_size=8),
    st.lists(
        st.tuples(maybe_pid, maybe_node, moment, st.integers(-1, 4)),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_samples_are_assigned_to_the_task_that_ran_at_their_time(
    runs: list[Any], windows: list[Any], nodes: bool
) -> None:
    invocations = pl.DataFrame(
        runs, schema=INTS | {"ts_start": pl.Int64, "ts_end": pl.Int64}, orient="row"
    )
    samples = pl.DataFrame(
        windows, schema=INTS | {"ts_ms": pl.Int64, "dt_ms": pl.Int64}, orient="row"
    )
    if not nodes:
        samples = samples.with_columns(node_id=pl.lit(None, pl.String))
    assert attribute_samples(samples, invocations).to_list() == slow_attribute(samples, invocations)


def test_with_equal_pids_a_sample_is_assigned_to_the_last_possible_task() -> None:
    # Without node ids: a long task, and two short tasks on other nodes with the same PID by chance.
    invocations = pl.DataFrame(
        {
            "pid": [7, 7, 7],
            "node_id": pl.Series([None] * 3, dtype=pl.String),
            "ts_start": [0, 1000, 2000],
            "ts_end": [9000, 1500, 2500],
        }
    )
    samples = pl.DataFrame(
        {
            "pid": [7] * 4,
            "node_id": pl.Series([None] * 4, dtype=pl.String),
            "ts_ms": [900, 2600, 5000, 9500],
            "dt_ms": [200, 200, 200, 200],
        }
    )
    assert attribute_samples(samples, invocations).to_list() == [0, 2, 0, None]


def test_a_reused_pid_belongs_to_the_later_task_and_not_to_another_node() -> None:
    run = {"pid": 7, "node_id": "a"}
    invocations = pl.DataFrame(
        [
            run | {"ts_start": 0, "ts_end": 1000},
            run | {"ts_start": 5000, "ts_end": 6000},
            run | {"ts_start": 0, "ts_end": 9000, "node_id": "b"},
        ]
    )
    samples = pl.DataFrame(
        [
            run | {"ts_ms": 900, "dt_ms": 200},
            run | {"ts_ms": 1100, "dt_ms": 200},  # ended within the window
            run | {"ts_ms": 5000, "dt_ms": 200},  # first sample, at the very start
            run | {"ts_ms": 5100, "dt_ms": 5000},  # touches both
            run | {"ts_ms": 3000, "dt_ms": 200},
            run | {"ts_ms": 3000, "dt_ms": 200, "node_id": "b"},
        ]
    )
    assert attribute_samples(samples, invocations).to_list() == [0, 0, 1, 1, None, 2]


# --- broken files --------------------------------------------------------------------------------

BAD_LINES = [
    ('{"ts_ms":1', "is not valid JSON from '' on", "lines that are not valid JSON"),
    ("[1,2]", r"is not a JSON object: '\[1,2\]'", "lines that are not a JSON object"),
    ('{"pid":"x"}', "pid: '\"x\"}' is of the wrong type", "lines whose pid is of the wrong type"),
    ('{"pid":true}', "pid: 'true}' is of the wrong type", "lines whose pid is of the wrong type"),
    ('{"pid":1.5}', "pid: '1.5}' is not a whole number", "lines whose pid is not a whole number"),
    ('{"pid":1e99}', "pid: '1e99}' is too large", "lines whose pid is out of range"),
    ('{"ts_ms":562949953421313}', "ts_ms: '.*' is too large", "lines whose ts_ms is out of range"),
    ('{"pid":01}', "pid: '01}' is not a number", "lines whose pid is not a number"),
    ('{"pid":1,"pid":1}', "pid: a field occurs twice", "lines that name a field twice"),
    ('{"z":1,"z":1}', "a field occurs twice: '\"z\":1}'", "lines that name a field twice"),
    ('{"pid":1}\x00', r"is not valid JSON from '\\x00' on", "lines that are not valid JSON"),
    ('{"z":' + "[" * 99, "is nested more than 64 deep", "lines nested more than 64 deep"),
    ('{"z":"' + "x" * (1 << 20), "is longer than 1 MiB", "lines longer than 1 MiB"),
]


@pytest.mark.parametrize(("bad", "error", "what"), BAD_LINES)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_line_that_cannot_be_read_is_counted_or_raised(
    tmp_path: Path, bad: str, error: str, what: str, ending: str
) -> None:
    good = SAMPLES.splitlines()
    text = ending.join([good[0], bad, good[1]])
    trace = cts.read(lay(tmp_path, samples=text))
    assert trace.usage["line"].to_list() == [1, 3]
    (note,) = trace.manifest.cleaned
    assert (note.kind, note.what, note.count) == ("skipped", what, 1)
    assert note.examples == ("proc_metrics.jsonl:2",)
    with pytest.raises(InputError, match=f"proc_metrics.jsonl:2: {error}"):
        cts.read(tmp_path, strict=True)


def test_wrong_encodings_are_errors_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"invocations\.jsonl:1: is not a JSON object"):
        cts.read(lay(tmp_path, invocations=INVOCATIONS.encode("utf-16")))
    latin = INVOCATIONS.replace("job-0002", "é").encode("latin-1")
    (note,) = cts.read(lay(tmp_path, invocations=latin)).manifest.cleaned
    assert str(note) == "skipped 1: lines that are not UTF-8 (invocations.jsonl:2)"


def test_missing_and_null_fields_are_unknown(tmp_path: Path) -> None:
    trace = cts.read(lay(tmp_path, invocations='{"pid":null}\n{}\n', samples='{"pid":4}\n'))
    assert trace.tasks.drop("line").null_count().row(0) == (2,) * (len(TABLES["tasks"]) - 1)
    assert trace.placements.height == 0
    assert trace.usage.select("task", "t", "pid").row(0) == (None, None, 4)
    assert trace.manifest.epoch_ms is None


def test_missing_files_and_unknown_fields_are_reported(tmp_path: Path) -> None:
    lay(tmp_path, invocations=INVOCATIONS.replace('"pid"', '"colour":["red"],"pid"'))
    (tmp_path / "proc_metrics.jsonl").unlink()
    (tmp_path / "nodes.json").unlink()
    assert [str(note) for note in cts.read(tmp_path).manifest.cleaned] == [
        "assumed 1: there is no proc_metrics.jsonl: its values are unknown",
        "assumed 1: there is no nodes.json: its values are unknown",
        "ignored 2: field 'colour' of invocations.jsonl",
    ]
    (tmp_path / "invocations.jsonl").rename(tmp_path / "other.jsonl")
    with pytest.raises(FormatError, match=r"has no invocations\.jsonl"):
        cts.read(tmp_path)
    assert not cts.FORMAT.recognises(tmp_path, b"")


def test_two_files_of_the_same_kind_are_refused(tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "invocations.jsonl.gz").write_bytes(gzip.compress(INVOCATIONS.encode()))
    with pytest.raises(
        InputError, match=r"contains both invocations\.jsonl and invocations\.jsonl\.gz"
    ):
        cts.read(tmp_path)


@pytest.mark.parametrize(
    ("nodes", "error"),
    [
        ("[", r"nodes\.json:1: is not valid JSON"),
        ("{}\n{}", r"nodes\.json:2: is not valid JSON"),
        ('{"cpu_cores": 1, "cpu_cores": 2}', "a field occurs twice in one object"),
        ('{"cpu_cores": NaN}', "NaN is not a number in JSON"),
        ('{"cpu_cores": 1' + "0" * 5000 + "}", "is not valid JSON|is out of range"),
        ('{"node_id": 3}', r"nodes\.json: node_id: 3 is not text"),
        ('{"node_id": "a", "cpu_cores": "8"}', r"nodes\.json: cpu_cores: '8' is not a number"),
        ("[3]", r"nodes\.json: \[0\]: is not a JSON object"),
        ("[" * 100_000, r"nodes\.json: is not valid JSON"),
    ],
)
def test_nodes_that_cannot_be_read_are_an_error(tmp_path: Path, nodes: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        cts.read(lay(tmp_path, nodes=nodes))


def test_one_bad_node_among_others_is_left_out_and_counted(tmp_path: Path) -> None:
    nodes = f'[{NODES}, {{"node_id": "n2", "mem_mb": -1, "rack": 4}}]'
    trace = cts.read(lay(tmp_path, nodes=nodes))
    assert trace.nodes["node"].to_list() == ["n1"]
    assert [str(note) for note in trace.manifest.cleaned] == [
        "ignored 1: field 'rack' of nodes.json",
        "skipped 1: nodes that cannot be read (nodes.json: [1].mem_mb: -1 is out of range)",
    ]
    with pytest.raises(InputError, match=r"\[1\]\.mem_mb"):
        cts.read(tmp_path, strict=True)


# --- round trips ---------------------------------------------------------------------------------

name = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5))
whole = st.one_of(st.none(), st.integers(0, 2**40))
late = st.one_of(st.none(), st.integers(1_700_000_000_000, 2**41))
invocation = st.fixed_dictionaries(
    {
        "pid": whole,
        "ts_enqueue": late,
        "ts_start": late,
        "ts_end": late,
        "node_id": name,
        "exit_status": st.one_of(st.none(), st.integers(-15, 255)),
    }
)
sample = st.fixed_dictionaries(
    {"ts_ms": late, "pid": whole, "dt_ms": whole, "cpu_ms": whole, "rss_kb": whole, "node_id": name}
)
node = st.fixed_dictionaries(
    {"node_id": name, "cpu_cores": whole, "mem_mb": whole, "cpu_freq_mhz": whole}
)


@given(
    st.lists(invocation, min_size=1, max_size=5),
    st.lists(sample, max_size=5),
    st.lists(node, max_size=3),
    st.sampled_from([None, "gz", "zst"]),
)
def test_every_integer_survives_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    invocations: list[dict[str, Any]],
    samples: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
    compression: str | None,
) -> None:
    base = tmp_path_factory.getbasetemp()
    rows = [{"trace_id": f"t{i}"} | each for i, each in enumerate(invocations)]
    lines = ["".join(json.dumps(each) + "\n" for each in table) for table in (rows, samples)]
    trace = cts.read(lay(base / "in", *lines, nodes=json.dumps(nodes)), strict=True)
    notes = cts.write(trace, base / "out.cts", compression=compression)
    known = trace.manifest.epoch_ms is not None
    nameless = sum(each["pid"] is None for each in rows)
    expected_notes = [*(() if known else ["assumed"]), *(["noticed"] if nameless else ())]
    assert [note.kind for note in notes] == expected_notes
    again = cts.read(base / "out.cts", strict=True)
    assert again.manifest.epoch_ms == trace.manifest.epoch_ms
    assert all(frame.equals(again.tables[table]) for table, frame in trace.tables.items())
    if compression is None:
        for table, expected in (("invocations", rows), ("proc_metrics", samples)):
            text = (base / "out.cts" / f"{table}.jsonl").read_text()
            assert [json.loads(line) for line in text.split("\n")[:-1]] == expected
    assert json.loads((base / "out.cts" / "nodes.json").read_text()) == nodes


def test_values_that_the_schema_cannot_represent_are_counted(tmp_path: Path) -> None:
    trace = Trace(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c"],
                "user": ["ann", None, None],
                "submit": [0.0, 0.0004, 1e300],
                "status": ["completed", "failed", "killed"],
                "run_time": [1.0, None, 5.0],
            }
        ),
        placements=pl.DataFrame(
            {"task": ["a", "a"], "attempt": [0, 1], "start": [0.0, 2.0], "end": [1.0, 3.0]}
        ),
        usage=pl.DataFrame({"task": ["a", "b"], "t": [2.5, 0.5], "dt": [0.5, 0.5]}),
        power=pl.DataFrame({"watts": [1.0]}),
        manifest=Manifest(epoch_ms=1000),
    )
    notes = cts.write(trace, tmp_path / "out")
    assert sorted(map(str, notes)) == [
        "ignored 1: placements of a task besides its last",
        "ignored 1: submissions out of range",
        "ignored 1: table power",
        "ignored 1: tasks: run_time without start",
        "ignored 1: tasks: status",
        "ignored 1: tasks: user",
        "invented 2: exit statuses: 0 where a task completed, 1 where it failed",
        "invented 3: process ids of tasks",
        "noticed 2: samples without a resident size, which the schema requires",
        "repaired 1: submissions rounded to milliseconds",
    ]
    again = cts.read(tmp_path / "out")
    assert again.tasks["submit"].to_list() == [0.0, 0.0, None]
    assert again.placements.select("task", "start", "end").row(0) == ("a", 2.0, 3.0)
    assert again.usage["task"].to_list() == ["a", "b"]


def test_a_sample_of_unknown_size_gets_the_size_of_its_neighbour(tmp_path: Path) -> None:
    """The last sample of an ended process has no size, but the schema requires one."""
    kib = 1024.0
    trace = Trace(
        tasks=pl.DataFrame(
            {"id": ["a", "b", "c"], "pid": [1, 2, 3], "memory_used": [9 * kib, 5 * kib, None]}
        ),
        usage=pl.DataFrame(
            {
                "task": ["a", "a", "a", "b", "c"],
                "pid": [1, 1, 1, 2, 3],
                "t": [3.0, 1.0, 2.0, 1.0, 1.0],
                "dt": [1.0] * 5,
                "cpu": [0.5] * 5,
                "rss": [None, None, 7 * kib, None, None],
            }
        ),
    )
    notes = cts.write(trace, tmp_path / "run")
    sizes = cts.read(tmp_path / "run").usage.sort("task", "t")["rss"].to_list()
    assert sizes == [7 * kib, 7 * kib, 7 * kib, 5 * kib, None]
    assert [str(note) for note in notes if "size" in note.what] == [
        "invented 3: resident sizes of samples, from the nearest sample or the peak of the task",
        "noticed 1: samples without a resident size, which the schema requires",
    ]


def test_a_folder_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.cts"
    with pytest.raises(InputError, match="'lzma' is not a compression"):
        cts.write(Trace(), path, compression="lzma")
    with pytest.raises(InputError, match=r"tasks\.id"):
        cts.write(Trace(tasks=pl.DataFrame({"id": ["a", "a"]})), path)
    assert list(tmp_path.iterdir()) == []
    cts.write(Trace(), path)
    assert {file.name for file in path.iterdir()} == {
        *("invocations.jsonl", "proc_metrics.jsonl", "nodes.json", ".twinloop.json")
    }
    assert cts.read(path).tasks.height == 0
