"""Parsing of YAML text into plain values with line numbers, and writing of YAML.

Scalars follow the core schema of YAML 1.2: `no` and `on` are texts, `1e3` is a number.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from twinloop.description.document import (
    MAX_DEPTH,
    MAX_YAML_LENGTH,
    MAX_YAML_VALUES,
    Address,
    ParsedDocument,
    is_representable,
    make_depth_error,
    make_range_error,
)
from twinloop.description.errors import InputError

_CORE = "tag:yaml.org,2002:"


def _use_core_schema(cls: Any) -> None:
    """Replace the rules of YAML 1.1 by which PyYAML recognises the type of a scalar."""
    cls.yaml_implicit_resolvers = {}
    for tag, pattern, first in (
        ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
        ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", list("-+0123456789")),
        (
            "float",
            r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
            list("-+.0123456789"),
        ),
    ):
        cls.add_implicit_resolver(_CORE + tag, re.compile(pattern), first)


class _Loader(yaml.SafeLoader):
    """A loader that limits the depth of nesting."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise make_depth_error(None)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Dumper(yaml.SafeDumper):
    """A dumper whose output `_Loader` reads back as the same values, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_use_core_schema(_Loader)
_use_core_schema(_Dumper)


def dump_yaml(data: Any) -> str:
    """Write plain values as YAML text, which `parse_yaml` reads back.

    >>> dump_yaml({"name": "on", "size": 1e3})
    'name: on\\nsize: 1000.0\\n'
    """
    # Unicode line breaks and directional marks do not survive unless they are escaped.
    printable = json.dumps(data, ensure_ascii=False).isprintable()
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=printable, width=100)
    return text


def parse_yaml(text: str, file: str | None) -> ParsedDocument:
    """Parse YAML text; a repeated key and a tag are errors."""
    if len(text) > MAX_YAML_LENGTH:
        raise InputError(
            f"is larger than {MAX_YAML_LENGTH:,} characters, the limit of a YAML description",
            kind="too-large",
            file=file,
            remedy="write it as JSON, whose limit is higher",
        )
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        line = None if mark is None else mark.line + 1
        raise InputError(
            f"is not valid YAML: {problem}", kind="not-yaml", file=file, line=line
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(
            f"is not valid YAML: {error.reason}", kind="not-yaml", file=file, line=line
        ) from None
    except InputError as error:
        raise InputError(error.problem, kind=error.kind, file=file) from None
    lines: dict[Address, int] = {}
    data = None if root is None else _NodeConverter(file, lines).convert(root, ())
    return ParsedDocument(data, file, lambda: lines)


class _NodeConverter:
    """Converter of YAML nodes to plain values, with aliases expanded."""

    def __init__(self, file: str | None, lines: dict[Address, int]) -> None:
        self.file = file
        self.lines = lines

    def convert(self, node: yaml.Node, address: Address) -> Any:
        self.lines.setdefault(address, _get_line(node))
        if len(address) > MAX_DEPTH:
            raise make_depth_error(self.file)
        if len(self.lines) > MAX_YAML_VALUES:
            raise InputError(
                f"has more than {MAX_YAML_VALUES:,} values, aliases expanded",
                kind="too-large",
                file=self.file,
            )
        if isinstance(node, yaml.MappingNode) and node.tag == _CORE + "map":
            return self._convert_mapping(node, address)
        if isinstance(node, yaml.SequenceNode) and node.tag == _CORE + "seq":
            return [self.convert(item, (*address, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._convert_scalar(node)
        raise self._make_tag_error(node)

    def _convert_mapping(self, node: yaml.MappingNode, address: Address) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(
                    "a key must be a plain text",
                    kind="not-yaml",
                    file=self.file,
                    line=_get_line(key),
                )
            name = key.value
            if name in values:
                raise InputError(
                    f"the key '{name}' occurs twice",
                    kind="duplicate-name",
                    file=self.file,
                    line=_get_line(key),
                )
            self.lines[(*address, name)] = _get_line(key)
            values[name] = self.convert(item, (*address, name))
        return values

    def _convert_scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        try:
            match node.tag.removeprefix(_CORE):
                case "str":
                    return text
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    number: float = int(text, 0 if text[:2] in ("0x", "0o") else 10)
                case "float":
                    number = float(text)
                case _:
                    raise self._make_tag_error(node)
        except InputError:
            raise
        except ValueError:
            if text.lstrip("+-").isdecimal():  # an integer with more digits than Python converts
                raise make_range_error(self.file, _get_line(node)) from None
            raise InputError(
                f"'{text[:40]}' does not match its tag",
                kind="not-yaml",
                file=self.file,
                line=_get_line(node),
            ) from None
        if not is_representable(number):
            raise make_range_error(self.file, _get_line(node))
        return number

    def _make_tag_error(self, node: yaml.Node) -> InputError:
        return InputError(
            f"the tag {node.tag.replace(_CORE, '!!')} is not allowed in a description",
            kind="not-yaml",
            file=self.file,
            line=_get_line(node),
        )


def _get_line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
