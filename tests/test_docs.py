"""Law: the documentation describes all tables with their columns."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from twinloop.trace import TABLES
from twinloop.trace.tables import Column
from twinloop.workload import COLUMNS

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: The files of a workload are those of a Trace, and are on the page of the Trace.
OWN = {table: columns for table, columns in COLUMNS.items() if columns is not TABLES.get(table)}


def described(tables: Mapping[str, Mapping[str, Column]]) -> str:
    """Render the tables in Markdown, as on the pages."""
    parts = []
    for table, columns in tables.items():
        parts.append(f"### `{table}`\n\n| column | type | unit | meaning |\n|---|---|---|---|")
        for name, column in columns.items():
            kind = str(column.dtype).partition("(")[0].replace("Utf8", "String")
            parts.append(f"| `{name}` | {kind} | {column.unit} | {column.meaning} |")
        parts.append("")
    return "\n".join(parts)


@pytest.mark.parametrize(("page", "tables"), [("traces.md", TABLES), ("workload.md", OWN)])
def test_the_page_describes_every_column(
    page: str, tables: Mapping[str, Mapping[str, Column]]
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert described(tables) in text, "write described() into the page"
    assert text.count("| column | type | unit | meaning |") == len(tables)


def test_every_page_is_in_the_navigation() -> None:
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert {page for page in pages if f": {page}\n" not in nav} == set()
