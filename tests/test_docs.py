"""Law: what the documentation says of the tables is what the tables are."""

from pathlib import Path

from twinloop.trace import TABLES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "traces.md"


def described() -> str:
    """The tables in Markdown, as docs/traces.md holds them."""
    parts = []
    for table, columns in TABLES.items():
        parts.append(f"### `{table}`\n\n| column | type | unit | meaning |\n|---|---|---|---|")
        for name, column in columns.items():
            kind = str(column.dtype).partition("(")[0].replace("Utf8", "String")
            parts.append(f"| `{name}` | {kind} | {column.unit} | {column.meaning} |")
        parts.append("")
    return "\n".join(parts)


def test_the_page_describes_every_column() -> None:
    assert described() in PAGE.read_text(encoding="utf-8"), "write described() into the page"
