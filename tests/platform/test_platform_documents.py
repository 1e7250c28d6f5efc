"""Texts are parsed to plain values with lines; errors name the line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import InputError
from twinloop.description.address import address_from_path, address_to_path
from twinloop.description.text import load_document, parse_document
from twinloop.description.yaml_text import dump_yaml

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(["on", "no", "1e3", "0x1F", "1:30", "~", "null", "2001-01-01", "<<", "=", ""])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


@given(VALUES)
def test_what_is_written_as_yaml_reads_back_as_the_same(value: Any) -> None:
    assert parse_document(dump_yaml(value)).data == value


@given(st.dictionaries(TEXTS, VALUES, max_size=4) | st.lists(VALUES, max_size=4))
def test_json_is_read_as_the_json_module_reads_it(value: Any) -> None:
    assert parse_document(json.dumps(value, indent="\t"), file="x.json").data == value
    assert parse_document(json.dumps(value, indent="\t")).data == value


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for file in ("x.yaml", "x.json"):
        try:
            parse_document(text, file=file)
        except InputError as error:
            refused = error
        else:
            continue
        assert refused.file == file


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1e3", 1000.0),
        ("0x10", 16),
        ("0o10", 8),
        ("010", 10),
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("'7'", "7"),
        ("!!str 7", "7"),
        ("", None),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    data = parse_document(text).data
    assert data == value
    assert type(data) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' occurs twice"),
        ("a: 1\nb: [1,\n", 3, "is not valid YAML"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "tag"),
        ("a: 1\nb: !thing {}\n", 2, "tag !thing"),
        ("a: 1\n? [1, 2]\n: 3\n", 2, "a key must be a plain text"),
        ("a: 1\nb: *nothing\n", 2, "is not valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, "is not valid YAML"),
        ("a: 1\nb: 1e999\n", 2, "out of range"),
        (f"a: 1\nb: {'9' * 30}\n", 2, "out of range"),
        (f"a: 1\nb: {'9' * 5000}\n", 2, "out of range"),
        ("a: 1\nb: \x07\n", 2, "is not valid YAML"),
        ("a: 1\nb: !!int x\n", 2, "does not match its tag"),
    ],
)
def test_a_yaml_text_that_cannot_be_used_is_refused_by_line(
    text: str, line: int, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, file="x.yaml")
    assert (caught.value.file, caught.value.line) == ("x.yaml", line)
    assert said in caught.value.problem


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('{\n"a": 1,\n"b": 2,\n"a": 3}', 4, "'a' occurs twice"),
        ('{"x": {\n"a": 1},\n"y": [{"a": 1,\n"a": 2}]}', 4, "'a' occurs twice"),
        ('{\n"a": 1,,\n}', 2, "is not valid JSON"),
        ('{\n"a": NaN}', None, "NaN"),
        ('{\n"a": 1e999}', 2, "out of range"),
        ('{\n"a": [0,\n' + "9" * 40 + "]}", 3, "out of range"),
        ("[" * 100_000, None, "nested deeper"),
        ("[" * 70 + "]" * 70, None, "nested deeper"),
        ("", 1, "is not valid JSON"),
        (f'{{"a": {"9" * 5000}}}', None, "cannot be read: Exceeds the limit"),
    ],
)
def test_a_json_text_that_cannot_be_used_is_refused_by_line(
    text: str, line: int | None, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, file="x.json")
    assert (caught.value.file, caught.value.line) == ("x.json", line)
    assert said in caught.value.problem


def test_aliases_are_followed_but_cannot_multiply_without_end() -> None:
    assert parse_document("a: &x [1, 2]\nb: *x\n").data == {"a": [1, 2], "b": [1, 2]}
    laughs = ["a0: &a0 [x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(InputError, match="values, aliases expanded"):
        parse_document("\n".join(laughs))


@pytest.mark.parametrize("text", ["&a [*a]", "[" * 100 + "]" * 100, "- " * 100_000])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(InputError, match="nested deeper"):
        parse_document(text, file="x.yaml")


def test_size_is_bounded() -> None:
    with pytest.raises(InputError, match="larger than"):
        parse_document("a: " + "x" * (1 << 20))


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_document(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="is a folder, not a file"):
        load_document(tmp_path)
    broken = tmp_path / "broken.yaml"
    broken.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError, match="UTF-8") as caught:
        load_document(broken)
    assert caught.value.line == 2


@given(
    st.lists(
        st.integers(0, 9) | TEXTS | st.sampled_from(["cores", "a.b", "x[0]"]), min_size=1
    ).filter(lambda steps: isinstance(steps[0], str))
)
def test_a_path_reads_back_as_the_address_it_was_written_from(steps: list[str | int]) -> None:
    assert address_from_path(address_to_path(steps)) == tuple(steps)


@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", "a[", "a[x]", "a[-1]", "a b", 'a["x]'])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InputError):
        address_from_path(path)
