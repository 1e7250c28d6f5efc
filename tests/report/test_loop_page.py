"""Page of a loop: the recommendation, all chapters, and links to them at the top."""

from html import escape
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.report.page_reader import PageReader, check_loads_nothing, read_figures
from tests.report.sample_results import make_loop
from twinloop.fidelity import assess
from twinloop.report import write_loop_page
from twinloop.report.pages.loop import CHAPTERS
from twinloop.report.pages.parameter_changes import render_parameter_changes
from twinloop.trace import Manifest, Trace

#: The attributes of a fit that the page reads, except its verdicts.
FIT = (
    "values", "defaults", "loss", "loss_before", "history", "confidence_region",
    "identifiability", "recipe", "warnings",
)  # fmt: skip
WHICH = ("real", "twin")


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, PageReader]:
    there = tmp_path_factory.mktemp("page") / "loop.html"
    text = write_loop_page(make_loop(), there).read_text(encoding="utf-8")
    return text, PageReader(text)


def test_the_recommendation_comes_first(usual: tuple[str, PageReader]) -> None:
    text, page = usual
    check_loads_nothing(text, page)
    places = [page.text.index(text) for text in ("Recommendation", "First line.", "Take easy.")]
    assert places == sorted(places)
    assert places[-1] < page.text.index(CHAPTERS["measured"])


def test_the_contents_lead_to_every_chapter(usual: tuple[str, PageReader]) -> None:
    _, page = usual
    links = [
        attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs.get("class") != "term"
    ]
    chapters = [attrs["id"] for tag, attrs in page.tags if attrs.get("class") == "chapter"]
    assert links == [f"#{anchor}" for anchor in CHAPTERS]
    assert chapters == list(CHAPTERS)


def test_ids_on_the_page_are_unique_and_every_figure_is_drawn(
    usual: tuple[str, PageReader],
) -> None:
    _, page = usual
    names = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(names) == len(set(names))
    drawn = [attrs["id"] for _, attrs in page.tags if attrs.get("class") == "picture"]
    assert drawn == list(read_figures(page))
    for name in ("real-gantt", "twin-gantt", "completions-after", "waits-after", "pareto", "ranks"):
        assert name in drawn


def test_every_figure_has_a_guide_and_can_be_saved(usual: tuple[str, PageReader]) -> None:
    text, page = usual
    for name in read_figures(page):
        section = text.split(f'id="{name}"')[0].rsplit("<section>", 1)[1]
        assert "<p>" in section
        kinds = {a["data-save"] for t, a in page.tags if t == "button" and a["data-of"] == name}
        assert kinds == {"png", "svg", "csv"}


def test_the_key_figures_of_three_runs_are_in_one_table(usual: tuple[str, PageReader]) -> None:
    text, page = usual
    rows = text.split("Comparison of the real run and the twin")[1].split("</table>")[0]
    cells = rows.split("<td>tasks</td>")[1].split("</tr>")[0]
    assert cells.count('<td class="number">30</td>') == 3
    assert make_loop().before.status in page.text
    assert "speed_factor" in page.text
    assert "probe of the cache" in page.text


def test_missing_data_are_listed(usual: tuple[str, PageReader]) -> None:
    _, page = usual
    end = page.text.rsplit(CHAPTERS["unmeasured"], 1)[1].split(CHAPTERS["glossary"])[0]
    assert "no energy was measured" in end
    assert "power: no energy and no carbon" in end


def test_a_loop_without_a_confirmation_reports_predictions_only(tmp_path: Path) -> None:
    bare = SimpleNamespace(
        **vars(make_loop()) | {"confirmation": None, "probes": (), "probe_names": ()}
    )
    bare.real = bare.real.replace(manifest=Manifest(kind="recorded"))
    page = PageReader(write_loop_page(bare, tmp_path / "loop.html").read_text(encoding="utf-8"))
    assert "all results of the study remain predictions" in page.text
    assert "Probe runs" not in page.text
    assert "was executed" in page.text


def write_page(tmp_path: Path, **changes: object) -> tuple[str, PageReader]:
    made = SimpleNamespace(**vars(make_loop()) | changes)
    text = write_loop_page(made, tmp_path / "loop.html").read_text(encoding="utf-8")
    return text, PageReader(text)


def test_every_fitted_run_has_its_verdicts_and_passes_are_counted(tmp_path: Path) -> None:
    kept = {
        "before": {"day": "FAIL", "probe": "FAIL", "long": "FAIL"},
        "after": {"day": "PASS", "probe": "FAIL", "long": "PASS"},
        "unseen": {},
    }
    fit = SimpleNamespace(
        **{name: getattr(make_loop().fit, name) for name in FIT} | {"before": (), "after": ()},
        statuses=kept,
    )
    text, page = write_page(tmp_path, fit=fit)
    assert "it passes on 2 of the 3 runs of the calibration" in page.text
    rows = text.split("Verdicts by run")[1].split("</table>")[0]
    row = rows.split("<td>probe</td>")[1].split("</tr>")[0]
    assert row.count("FAIL") == 2


def test_the_hold_out_run_has_a_column_and_reasons_if_not_assessable(tmp_path: Path) -> None:
    bare = assess(Trace(), Trace())
    text, page = write_page(tmp_path, unseen=bare)
    rows = text.split(">Criteria</h3>")[1].split("</table>")[0]
    assert "<th>hold-out</th>" in rows
    why = next(found.note for found in bare.findings if found.note)
    assert escape(why) in rows
    assert "One failing criterion makes the verdict FAIL." in page.text


def test_a_changed_value_is_named_once_below_its_cause() -> None:
    lines = ["slow (makespan_s):", "  a moved from 1 to 2", "late:", "  a moved from 1 to 2"]
    markup = render_parameter_changes(lines, once=True)
    assert markup.startswith("<ul><li>slow (makespan):<ul><li>a moved from 1 to 2</li></ul></li>")
    assert markup.count("a moved") == 1
    assert render_parameter_changes(lines).count("a moved") == 2


def test_the_real_run_is_drawn_from_its_start_like_the_twin(tmp_path: Path) -> None:
    real = make_loop().real
    dated = real.replace(manifest=real.manifest.model_copy(update={"epoch_ms": 10**12}))
    _, page = write_page(tmp_path, real=dated)
    found = read_figures(page)
    titles = {found[f"{which}-gantt"]["layout"]["xaxis"]["title"]["text"] for which in WHICH}
    assert len(titles) == 1
    assert titles.pop().endswith("since the start")


def test_levels_are_explained(usual: tuple[str, PageReader]) -> None:
    _, page = usual
    end = page.text.rsplit(CHAPTERS["glossary"], 1)[1]
    for text in ("2x4", "2 nodes of 4 cores each.", "1 node of 8 cores.", "pack-ic", "Overcommit"):
        assert text in end
