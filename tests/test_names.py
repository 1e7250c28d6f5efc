"""Laws of names: one class name means one thing, and reserved names are free."""

import ast
from collections import Counter
from pathlib import Path

import twinloop

SOURCE = Path(twinloop.__file__).parent
#: Names that the simulator's core will use.
RESERVED = {"Machine", "Order", "Step", "Execution", "DataStore", "RunRecord"}


def list_classes() -> list[str]:
    """The names of all classes at the top level of modules."""
    return [
        node.name
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]


def test_a_class_name_occurs_once_in_the_whole_package() -> None:
    found = list_classes()
    assert len(found) > 300
    assert {name: count for name, count in Counter(found).items() if count > 1} == {}


def test_reserved_names_are_free() -> None:
    assert RESERVED & set(list_classes()) == set()
