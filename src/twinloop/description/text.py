"""The text of a description, YAML or JSON: parsing and writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinloop.description import files
from twinloop.description.document import MAX_JSON_BYTES, MAX_YAML_LENGTH, ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.files import require_input
from twinloop.description.json_text import parse_json


def load_document(path: Path) -> ParsedDocument:
    """Read a description file; `.json` is JSON, everything else YAML or JSON."""
    require_input(path)
    return parse_document(files.read_text(path, limit=MAX_JSON_BYTES), file=str(path))


def parse_document(text: str, file: str | None = None) -> ParsedDocument:
    """Parse YAML or JSON text.

    Scalars follow the core schema of YAML 1.2: `no` and `on` are texts, `1e3` is a number. A
    repeated key, a tag, and a text beyond the limits of depth and size are errors.
    """
    if file is not None and file.removesuffix(".gz").removesuffix(".zst").endswith(".json"):
        return parse_json(text, file)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(text, file)
        except InputError:
            if len(text) > MAX_YAML_LENGTH:
                raise
    # Imported here, because a scenario made of options needs no YAML.
    from twinloop.description.yaml_text import parse_yaml

    return parse_yaml(text, file)


def dump_document(values: Any) -> str:
    """Write plain values as YAML text.

    >>> dump_document({"cores": 2, "power": "no"})
    'cores: 2\\npower: no\\n'
    """
    from twinloop.description.yaml_text import dump_yaml

    return dump_yaml(values)
