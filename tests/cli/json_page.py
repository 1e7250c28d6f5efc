"""The keys of --json that docs/json.md lists for each command."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"


def list_commands() -> list[str]:
    """The commands that have a section."""
    return re.findall(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def list_keys(command: str) -> set[str]:
    """The keys in the first column of the tables of a command, without those of --dry-run."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {command}\n", 1)[1].split("\n## ")[0]
    cells = [
        line.split("|")[1]
        for line in section.partition("\nWith `--")[0].splitlines()
        if line.startswith("|")
    ]
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}
