"""The page of a loop tells the whole story, and every chapter can be reached from the top."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.report.pages import Reader, loads_nothing, pictures
from tests.report.studies import loop
from twinloop.report import loop_page
from twinloop.report.loop import CHAPTERS
from twinloop.trace import Manifest


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Reader]:
    there = tmp_path_factory.mktemp("page") / "loop.html"
    text = loop_page(loop(), there).read_text(encoding="utf-8")
    return text, Reader(text)


def test_what_to_do_stands_first(usual: tuple[str, Reader]) -> None:
    text, page = usual
    loads_nothing(text, page)
    places = [page.text.index(said) for said in ("What to do", "First line.", "Take easy.")]
    assert places == sorted(places)
    assert places[-1] < page.text.index(CHAPTERS["measured"])


def test_the_contents_lead_to_every_chapter(usual: tuple[str, Reader]) -> None:
    _, page = usual
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    chapters = [attrs["id"] for tag, attrs in page.tags if attrs.get("class") == "chapter"]
    assert links == [f"#{anchor}" for anchor in CHAPTERS]
    assert chapters == list(CHAPTERS)


def test_names_on_the_page_are_unique_and_every_picture_is_drawn(
    usual: tuple[str, Reader],
) -> None:
    _, page = usual
    names = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(names) == len(set(names))
    drawn = [attrs["id"] for _, attrs in page.tags if attrs.get("class") == "picture"]
    assert drawn == list(pictures(page))
    for name in ("real-gantt", "twin-gantt", "completions-after", "waits-after", "pareto", "ranks"):
        assert name in drawn


def test_every_picture_says_what_to_look_at_and_can_be_saved(usual: tuple[str, Reader]) -> None:
    text, page = usual
    for name in pictures(page):
        section = text.split(f'id="{name}"')[0].rsplit("<section>", 1)[1]
        assert "<p>" in section
        kinds = {a["data-save"] for t, a in page.tags if t == "button" and a["data-of"] == name}
        assert kinds == {"png", "svg", "csv"}


def test_figures_of_all_three_runs_stand_side_by_side(usual: tuple[str, Reader]) -> None:
    text, page = usual
    rows = text.split("Real run and twin side by side")[1].split("</table>")[0]
    cells = rows.split("<td>tasks</td>")[1].split("</tr>")[0]
    assert cells.count('<td class="number">30</td>') == 3
    assert loop().before.status in page.text
    assert "speed_factor" in page.text
    assert "probe of the cache" in page.text


def test_what_was_not_measured_ends_the_page(usual: tuple[str, Reader]) -> None:
    _, page = usual
    end = page.text.rsplit(CHAPTERS["unmeasured"], 1)[1]
    assert "no energy was measured" in end
    assert "power: no energy and no carbon" in end


def test_a_loop_without_a_confirmation_says_that_all_remains_a_prediction(tmp_path: Path) -> None:
    bare = SimpleNamespace(**vars(loop()) | {"confirmation": None, "probes": (), "probe_names": ()})
    bare.real = bare.real.replace(manifest=Manifest(kind="recorded"))
    page = Reader(loop_page(bare, tmp_path / "loop.html").read_text(encoding="utf-8"))
    assert "so that they remain predictions" in page.text
    assert "Probe runs" not in page.text
    assert "was executed" in page.text
