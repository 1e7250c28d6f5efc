"""The example that prints the tables of the draft on SCHIaaS beside those of a study."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.example_scripts import load_example
from tests.exploration.sample_executions import write_executions

#: δ of the means against `best` as printed in Figures 11 and 12: uptime, makespan, usage.
PRINTED_DELTA = {"no-boot-times": (0.003, 0.042, 0.009), "no-threads": (0.009, 0.021, 0.010)}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example("schlouder")


def test_it_prints_all_tables(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two clouds named as those of the draft; one execution begins before t = 0."""
    source = write_executions(tmp_path / "source", 4, 3)
    for path in sorted(source.iterdir()):
        name = path.name.replace("east", "openstack-icps").replace("north", "de-hlrs")
        path.rename(path.with_name(name))
    early, longer, *others = sorted(source.glob("*.tasks"))
    early.write_text(early.read_text().replace(" 5 ", " -7123 ", 1))
    longer.write_text(longer.read_text().replace(" 1.5", " 9999", 1))
    measured = tmp_path / "measured.tsv"
    names = [path.stem for path in (early, longer, *others)]
    measured.write_text(
        "xp_id\tuptime\tmakespan\tusage\n" + "".join(f"{name}\t3600\t900\t0.2\n" for name in names)
    )
    output = tmp_path / "output"
    example.main([str(source), str(measured), "-o", str(output)])
    assert (output / "study" / "statistics.csv").is_file()
    printed = capsys.readouterr().out
    for name in example.SETS:
        assert f"\n{name} (" in printed
    assert "replay: boot_times, wall_times" in printed
    assert "predict: nothing is injected" in printed
    assert f"tasks are submitted at t = 0: 1 in 1 execution ({early.stem})\n" in printed
    assert f"management time > wall time:\n    {longer.stem}\n" in printed
    rows = [line.split() for line in printed.splitlines()]
    # Published values stand beside those here, each in its cell.
    (best,) = (
        row for row in rows if row[:4] == ["icps", "/", "omssa", "makespan"] and "205" in row
    )
    assert best[4] == "1"
    assert best[8:12] == ["205", "0.001", "0.000", "0.079"]
    # The published results with wall times have no execution with negative work.
    counts = {row[0]: row[2] for row in rows if len(row) > 4 and row[1] == "all"}
    assert counts == {
        "best": "3", "no-threads": "4", "no-boot-times": "3", "predictions": "4"
    }  # fmt: skip


@pytest.mark.parametrize("name", PRINTED_DELTA)
def test_the_differences_of_the_draft_follow_from_its_tables(
    example: ModuleType, name: str
) -> None:
    for at, printed in enumerate(PRINTED_DELTA[name]):
        means = [example.DRAFT[each, "all"][1 + 3 * at] for each in (name, "best")]
        # Three rounded numbers.
        assert means[0] - means[1] == pytest.approx(printed, abs=0.0015)


def test_the_tables_of_the_cells_add_up(example: ModuleType) -> None:
    cells = [example.DRAFT["best", cell] for cell in example.CELLS[1:]]
    whole = example.DRAFT["best", "all"]
    assert sum(row[0] for row in cells) == whole[0]
    for at in range(1, 10, 3):
        mean = sum(row[0] * row[at] for row in cells) / whole[0]
        assert mean == pytest.approx(whole[at], abs=0.001)
        assert max(row[at + 2] for row in cells) == whole[at + 2]
