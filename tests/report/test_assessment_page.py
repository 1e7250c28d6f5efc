"""Page of an assessment: the verdict comes first, nothing is loaded, names are escaped."""

import json
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.report.page_reader import EVIL, PageReader, check_loads_nothing, read_figures
from tests.report.sample_runs import draw_tasks, run_fcfs
from twinloop.description import InputError
from twinloop.fidelity import Alignment, Criteria, Verdict, assess
from twinloop.report import plot_assessment, write_assessment_page
from twinloop.trace import Manifest, Trace

TASKS = draw_tasks(60)


def make_run(factor: float, **facts: Any) -> Trace:
    """A run with power and CPU usage, with all times multiplied by a factor."""
    run = run_fcfs([(gap, factor * length, cores) for gap, length, cores in TASKS])
    t = np.arange(1.0, 1300.0)
    watts = 200 + 50 * np.sin(t / 97) + np.random.default_rng(1).normal(0, factor, t.size)
    samples = run.placements.filter(pl.col("end") - pl.col("start") >= 20).with_columns(
        t=pl.col("start") + 10.0, dt=10.0, cpu=2.0 + pl.col("cores")
    )
    return run.replace(
        power=pl.DataFrame({"t": t, "dt": 1.0, "watts": watts}),
        usage=samples.select("task", "machine", "t", "dt", "cpu"),
        manifest=Manifest(facts=facts),
    )


REAL = make_run(1.0)
TWIN = make_run(1.05, mode="replay", injected=["submissions", "CPU times"])
VERDICT = assess(REAL, TWIN)


def write_page(verdict: Verdict, folder: Path, **options: str) -> tuple[str, PageReader]:
    text = write_assessment_page(verdict, folder / "verdict.html", **options).read_text(
        encoding="utf-8"
    )
    return text, PageReader(text)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, PageReader]:
    return write_page(VERDICT, tmp_path_factory.mktemp("page"))


def text_after(page: PageReader, heading: str) -> str:
    return page.text.split(heading, 1)[1]


def test_the_first_line_is_the_provenance_and_the_next_the_verdict(
    tmp_path: Path,
) -> None:
    for verdict in (VERDICT, assess(Trace(), Trace())):
        _, page = write_page(verdict, tmp_path)
        lines = [line for line in text_after(page, "}\n").split("\n") if line.strip()]
        start = next(at for at, line in enumerate(lines) if line == verdict.provenance)
        assert lines[start - 1].endswith("}")  # the end of the style
        assert lines[start + 1 : start + 3] == ["Assessment of the twin", verdict.status]
    assert VERDICT.provenance.startswith("replay: submissions, CPU times")


def test_the_page_has_every_criterion_and_picture(usual: tuple[str, PageReader]) -> None:
    text, page = usual
    check_loads_nothing(text, page)
    for found in VERDICT.findings:
        row = f"<td>{found.metric}</td><td>{found.name}</td><td>"
        cells = text.split(row)[1].split("</tr>")[0]
        assert f">{found.status}</span>" in cells
        assert (
            f'<td class="number">{found.figure_text}</td><td>{escape(found.threshold)}</td>'
            in cells
        )
        assert escape(found.note) in cells
        assert found.method in page.text.replace("\n", " ")
    assert list(read_figures(page)) == ["waits", "completions", "usage", "trend", "segments"]
    for name, figure in plot_assessment(VERDICT).items():
        assert read_figures(page)[name]["data"] == json.loads(figure.to_json())["data"]
    over_time = {a["id"] for _, a in page.tags if a.get("data-over") == "time"}
    assert over_time == {"completions", "trend", "segments"}
    assert "Omitted figures" not in text


def test_each_status_has_its_colour(usual: tuple[str, PageReader]) -> None:
    text, _ = usual
    statuses = [found.status for found in VERDICT.findings] + list(VERDICT.metrics.values())
    for status, kind in (("PASS", "pass"), ("FAIL", "fail"), ("not assessable", "open")):
        count = text.count(f'<span class="status {kind}">{status}</span>')
        assert count == statuses.count(status)
    assert text.count('<span class="status fail big">FAIL</span>') == 1


def test_the_errors_are_named(usual: tuple[str, PageReader]) -> None:
    _, page = usual
    rest = text_after(page, "Errors")
    for line in VERDICT.errors.lines():
        assert line in rest
    for name in ("makespan", "energy", "user 0", "user 2", "By size", "10 s - 1 min"):
        assert name in rest


def test_the_noise_floor_and_unaligned_figures_have_columns(
    usual: tuple[str, PageReader], tmp_path: Path
) -> None:
    text, page = usual
    assert "the noise floor is not known" in page.text
    assert "without alignment" not in text
    verdict = assess(REAL, TWIN, repeats=[make_run(1.01)], alignment=Alignment(k=1.5))
    text, page = write_page(verdict, tmp_path)
    floor, without = verdict["p95"].floor, verdict["sMAPE"].unaligned
    assert floor is not None
    assert without is not None
    assert f'<td class="number">{100 * floor:.3g} %</td>' in text
    assert f'<td class="number">{100 * without:.3g} %</td>' in text
    assert str(verdict.alignment) in page.text


def test_the_thresholds_are_on_the_page(tmp_path: Path) -> None:
    file = tmp_path / "strict.yaml"
    file.write_text("waits: {p50: 0.02}\n")
    criteria = Criteria.load(file)
    _, page = write_page(assess(REAL, TWIN, criteria=criteria), tmp_path)
    rest = text_after(page, "Thresholds")
    assert "strict.yaml" in rest
    assert "waits.p50 0.02 (default 0.05)" in rest
    assert criteria.to_commented_yaml().strip() in rest


def test_omitted_figures_are_listed(tmp_path: Path) -> None:
    text, page = write_page(assess(Trace(), Trace()), tmp_path)
    check_loads_nothing(text, page)
    assert read_figures(page) == {}
    rest = text_after(page, "Omitted figures")
    for name in ("waits", "completions", "usage", "power", "segments"):
        assert f"no figure of {name}: " in rest


def test_notes_on_the_data_are_on_the_page(tmp_path: Path) -> None:
    unknown = REAL.replace(tasks=REAL.tasks.with_columns(status=pl.lit(None, dtype=pl.String)))
    verdict = assess(unknown, TWIN)
    assert verdict.notes
    _, page = write_page(verdict, tmp_path)
    for note in verdict.notes:
        assert note in text_after(page, "Notes on the data")


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    def evil(run: Trace) -> Trace:
        task = pl.lit(EVIL) + pl.col("task")
        return run.replace(
            tasks=run.tasks.with_columns(
                id=pl.lit(EVIL) + pl.col("id"), user=pl.lit(EVIL), kind=pl.lit(EVIL)
            ),
            placements=run.placements.with_columns(task=task, machine=pl.lit(EVIL)),
            usage=run.usage.with_columns(task=task),
            manifest=Manifest(facts={"mode": "replay", "injected": [EVIL]}),
        )

    verdict = assess(evil(REAL), evil(TWIN))
    verdict = replace(verdict, notes=(EVIL,))
    text, page = write_page(verdict, tmp_path, title=EVIL)
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert all(attrs.get("class") == "term" for tag, attrs in page.tags if tag == "a")
    assert EVIL not in text
    assert "<a" not in json.dumps(read_figures(page))
    assert page.text.count(EVIL) >= 6


def test_the_same_verdict_gives_the_same_bytes(
    usual: tuple[str, PageReader], tmp_path: Path
) -> None:
    assert write_page(VERDICT, tmp_path)[0] == usual[0]


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "verdict.html").mkdir()
    with pytest.raises(InputError, match="is a folder, so it is not replaced"):
        write_assessment_page(VERDICT, tmp_path / "verdict.html")
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.html"]
