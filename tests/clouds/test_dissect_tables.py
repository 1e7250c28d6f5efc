"""The tables and figures of the article on DISSECT-CF, by the example that prints them."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.example_scripts import load_example

ROOT = Path(__file__).resolve().parents[2]
IDLE, MAX = 368.8, 722.7
#: Of the article, or by hand from its values; relative precision is that of the printed digits.
EXPECTED: dict[str, dict[str, list[float]]] = {
    "reproduce_table_1": {
        "off (W)": [36.4],
        "switching on (W, s)": [483.1, 200.0],
        "running, idle and full (W)": [IDLE, MAX],
        "switching off (W, s)": [409.2, 12.0],
        # (12 x (409.2 - 36.4) + 200 x (483.1 - 36.4)) / (368.8 - 36.4)
        "switching off pays after (s)": [93813.6 / 332.4],
    },
    "reproduce_table_2": {
        "switching off (s)": [2.5 + 2.5 + 4.5 + 1.0 + 1.52],
        "its energy (J)": [12.02 * IDLE + (0.275 + 0.855 + 0.228) * (MAX - IDLE)],
        "its mean power (W)": [IDLE + 1.358 / 12.02 * (MAX - IDLE)],
    },
    "reproduce_figure_7": {
        "4 cores, limit 1 (s)": [4, 7.5, 10.5, 13, 15, 17, 19, 21],
        "2 cores, limit 1 (s)": [8, 15, 21, 26, 30, 33, 35, 37],
        # Four tasks are left at 13 s, with 2, 4, 6 and 8 core-seconds; each uses 0.896 cores.
        "4 cores, limit 0.896 (s)": [4, 7.5, 10.5, 13, *(13 + 2 * i / 0.896 for i in range(1, 5))],
    },
    "reproduce_figure_9": {"t1, t2, t3, t4 (s)": [15, 60, 60, 30]},
    "reproduce_figure_10": {
        "0 to 8 cores (W)": [IDLE + (MAX - IDLE) / 8 * cores for cores in range(9)]
    },
}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example("dissect")


@pytest.mark.parametrize("part", EXPECTED)
def test_the_simulation_has_the_values_of_the_article(example: ModuleType, part: str) -> None:
    rows = getattr(example, part)()
    assert {row.name: list(row.here) for row in rows} == {
        name: pytest.approx(values, rel=1e-9) for name, values in EXPECTED[part].items()
    }
    for row in rows:
        # What is called published is not adapted to the simulation.
        assert list(row.published) == pytest.approx(
            EXPECTED[part][row.name], abs=0.5 / 10**row.digits
        )


def test_every_part_of_the_example_is_checked(example: ModuleType) -> None:
    assert [part.__name__ for part in example.PARTS.values()] == list(EXPECTED)


def test_the_page_shows_the_output(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    page = (ROOT / "docs" / "dissect-tables.md").read_text(encoding="utf-8")
    (shown,) = re.findall(
        r"^```console\n\$ python examples/dissect.py\n(.*?)^```$", page, re.M | re.S
    )
    assert capsys.readouterr().out == shown
