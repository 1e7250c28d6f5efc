"""Whatever is wrong in a description is named by its path and its line."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import DescriptionError, InputError
from twinloop.platform import Host, Platform

EXAMPLE = Path(__file__).parents[2] / "examples" / "platform.yaml"
VALID: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
# No scalar field takes this.
WRONG = {"zz": 0}


def leaves(value: Any, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, f"{path}.{key}")]
    if isinstance(value, list):
        return [leaf for i, item in enumerate(value) for leaf in leaves(item, f"{path}[{i}]")]
    return [path.removeprefix(".")]


def broken(path: str, value: Any) -> dict[str, Any]:
    """A copy of the valid description with this value at the path."""
    steps = [
        int(s) if s.isdigit() else s for s in path.replace("[", ".").replace("]", "").split(".")
    ]
    result = copy.deepcopy(VALID)
    inner: Any = result
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = value
    return result


class Emitter:
    """Writes YAML with a value on each line, blank lines between them, and keeps the lines."""

    def __init__(self, gaps: list[int]) -> None:
        self.gaps = gaps
        self.out: list[str] = []
        self.lines: dict[str, int] = {}

    def put(self, text: str, path: str) -> None:
        self.out += ["# a comment"] * self.gaps[len(self.lines) % len(self.gaps)]
        self.out.append(text)
        self.lines[path.removeprefix(".")] = len(self.out)

    def emit(self, value: Any, path: str = "", pad: str = "") -> None:
        named = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in named:
            here = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
            start = f"{pad}-" if isinstance(key, int) else f"{pad}{key}:"
            if isinstance(item, dict | list) and item != WRONG:
                self.put(start, here)
                self.emit(item, here, pad + "  ")
            else:
                self.put(f"{start} {json.dumps(item)}", here)


@given(st.sampled_from(leaves(VALID)), st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_one_broken_value_is_named_by_exactly_its_path_and_line(path: str, gaps: list[int]) -> None:
    emitter = Emitter(gaps)
    emitter.emit(broken(path, WRONG))
    with pytest.raises(DescriptionError) as caught:
        Platform.from_text("\n".join(emitter.out), file="p.yaml")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.field) == ("p.yaml", emitter.lines[path], path)


@given(st.sampled_from(leaves(VALID)))
def test_the_same_in_json_with_tabs(path: str) -> None:
    text = json.dumps(broken(path, WRONG), indent="\t")
    # The wrong value opens on the line of its name, just before its own content.
    line = text[: text.index('"zz"')].count("\n")
    with pytest.raises(DescriptionError) as caught:
        Platform.from_text(text, file="p.json")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.field) == ("p.json", line, path)


@given(st.sets(st.sampled_from(leaves(VALID)), min_size=2, max_size=5))
def test_all_broken_values_are_reported_together_in_the_order_of_the_file(paths: set[str]) -> None:
    data = VALID
    for path in paths:
        steps = [
            int(s) if s.isdigit() else s for s in path.replace("[", ".").replace("]", "").split(".")
        ]
        data = copy.deepcopy(data)
        inner: Any = data
        for step in steps[:-1]:
            inner = inner[step]
        inner[steps[-1]] = WRONG
    # Where the name of a power model is wrong, its other fields cannot be judged.
    told = {
        path
        for path in paths
        if f"{path.rpartition('.power.')[0]}.power.model" not in paths or path.endswith(".model")
    }
    emitter = Emitter([0])
    emitter.emit(data)
    with pytest.raises(DescriptionError) as caught:
        Platform.from_text("\n".join(emitter.out))
    problems = caught.value.problems
    assert {problem.field for problem in problems} == told
    lines = [problem.line or 0 for problem in problems]
    assert lines == sorted(lines)
    assert (caught.value.line, caught.value.field) == (problems[0].line, problems[0].field)


HEAD = "clusters:\n- name: a\n  hosts:\n  - name: h\n    count: 2\n    cores: 8\n"


@pytest.mark.parametrize(
    ("text", "line", "field", "said"),
    [
        (HEAD.replace("8", "0"), 6, "clusters[0].hosts[0].cores", "must be positive, not 0"),
        (HEAD.replace("8", "-1"), 6, "clusters[0].hosts[0].cores", "must be positive"),
        (HEAD.replace("8", "'8'"), 6, "clusters[0].hosts[0].cores", "must be a number, not '8'"),
        (HEAD.replace("8", "true"), 6, "clusters[0].hosts[0].cores", "must be a number, not True"),
        (HEAD.replace("8", "~"), 6, "clusters[0].hosts[0].cores", "must be a number, not null"),
        (HEAD.replace("2", "1.5"), 5, "clusters[0].hosts[0].count", "must be a whole number"),
        (HEAD.replace("2", "1e9"), 5, "clusters[0].hosts[0].count", "must be at most 1000000"),
        (HEAD.replace("name: h", "name: 7"), 4, "clusters[0].hosts[0].name", "must be a text"),
        (HEAD.replace("name: h", "name: ' '"), 4, "clusters[0].hosts[0].name", "must be a name"),
        (
            HEAD.replace("name: h", f"name: {'h' * 201}"),
            4,
            "clusters[0].hosts[0].name",
            "must be a text of at most 200 characters, not 'hhh",
        ),
        (HEAD.replace("cores", "core"), 4, "clusters[0].hosts[0].cores", "is missing"),
        (HEAD.replace("cores", "core"), 6, "clusters[0].hosts[0].core", "did you mean 'cores'?"),
        (HEAD + "    zzzzzz: 1\n", 7, "clusters[0].hosts[0].zzzzzz", "known: name, count"),
        (HEAD + "queues: 3\n", 7, "queues", "must be a list, not 3"),
        (HEAD + "queues:\n\n  zz: 1\n", 7, "queues", "must be a list, not a mapping"),
        (HEAD + "queues: [3]\n", 7, "queues[0]", "must be a mapping of names to values, not 3"),
        ("clusters: []\n", 1, "clusters", "must have at least 1 item"),
        ("name: x\n", 1, "clusters", "is missing"),
        (HEAD + "    mhz: 2400 mhz\n", 7, "clusters[0].hosts[0].mhz", "did you mean 'MHz'?"),
        (HEAD + "    mhz: fast\n", 7, "clusters[0].hosts[0].mhz", "must be a frequency"),
        (HEAD + "    mhz: 0 GHz\n", 7, "clusters[0].hosts[0].mhz", "must be positive"),
        (HEAD + "    memory: 64G\n", 7, "clusters[0].hosts[0].memory", "'G' is not a unit for"),
        (HEAD + "    names: [x]\n", 5, "clusters[0].hosts[0].count", "but there are 1 names"),
        (
            HEAD + "    power: {model: linaer, idle: 1, max: 2}\n",
            7,
            "clusters[0].hosts[0].power.model",
            "did you mean 'linear'?",
        ),
        (
            HEAD + "    power: {idle: 1, max: 2}\n",
            7,
            "clusters[0].hosts[0].power.model",
            "is missing",
        ),
        (
            HEAD + "    power:\n      model: linear\n      idle: 5 W\n      max: 4 W\n",
            10,
            "clusters[0].hosts[0].power.max",
            "must not be below the idle power, 5 W",
        ),
        (
            HEAD
            + "    power:\n      model: table\n      points:\n      - [0, 1]\n      - [1, -2]\n",
            11,
            "clusters[0].hosts[0].power.points[1][1]",
            "must not be negative",
        ),
        (HEAD + "  - name: h\n    cores: 1\n", 7, "clusters[0].hosts[1].name", "called 'h'"),
        (HEAD + "- name: a\n  hosts: [{cores: 1}]\n", 7, "clusters[1].name", "called 'a'"),
        (
            HEAD + "  - {name: g, cores: 1, names: [a-h-001]}\n",
            7,
            "clusters[0].hosts[1].names",
            "another node",
        ),
        (
            HEAD + "queues:\n- name: q\n  hosts:\n  - a\n  - a-g\n",
            11,
            "queues[0].hosts[1]",
            "did you mean 'a-h'?",
        ),
        (
            HEAD + "maintenance:\n- {start: 2, end: 1}\n",
            8,
            "maintenance[0].end",
            "must be later than the start",
        ),
        (
            HEAD + "reservations:\n- {name: r, start: 0, end: 1, queues: [q]}\n",
            8,
            "reservations[0].queues[0]",
            "unknown queue 'q' (there is no queue)",
        ),
    ],
)
def test_each_kind_of_problem_is_reported_with_its_position(
    text: str, line: int, field: str, said: str
) -> None:
    with pytest.raises(DescriptionError) as caught:
        Platform.from_text(text, file="p.yaml")
    found = [problem for problem in caught.value.problems if said in str(problem)]
    assert [(problem.file, problem.line, problem.field) for problem in found] == [
        ("p.yaml", line, field)
    ]
    assert f"p.yaml:{line}: {field}: " in str(caught.value)


@pytest.mark.parametrize("text", ["", "7", "[1]", "~", "nonsense", "0x8", "2x0", "2x.", "1x1@x"])
def test_what_is_no_platform_at_all_is_refused(text: str) -> None:
    with pytest.raises(DescriptionError):
        Platform.from_text(text)


def test_a_call_reports_its_problems_as_a_file_does() -> None:
    with pytest.raises(DescriptionError) as caught:
        Host(cores=0, mzh=3)
    assert str(caught.value) == (
        "cores: must be positive, not 0 [TL0206]\n"
        "mzh: is not a field of the host (did you mean 'mhz'?) [TL0203]"
    )


def test_an_error_survives_the_way_to_another_process() -> None:
    with pytest.raises(DescriptionError) as caught:
        Platform.from_text(HEAD.replace("8", "0"), file="p.yaml")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)
    assert isinstance(copied, InputError)


def test_a_long_list_of_problems_is_cut() -> None:
    hosts = "".join("  - cores: 0\n" for _ in range(30))
    with pytest.raises(DescriptionError) as caught:
        Platform.from_text(f"clusters:\n- hosts:\n{hosts}")
    assert len(caught.value.problems) == 30
    assert str(caught.value).endswith("and 10 more")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.sampled_from(["clusters", "hosts", "cores", "cpu", "power",
                                                       "model", "names", "count", "queues"]),
                                      inner, max_size=4)))  # fmt: skip
def test_any_plain_values_make_a_platform_or_a_description_error(value: Any) -> None:
    try:
        platform = Platform.from_dict(value)
    except InputError:
        return
    assert platform.total_nodes >= 1
