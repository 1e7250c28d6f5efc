"""`twinloop view` as somebody meets it who clicks."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import twinloop as tl
from tests.browser import sample_results
from tests.browser.browser_window import LOCAL, BrowserWindow
from tests.browser.conftest import SHOTS
from twinloop.metrics.trace_figures import figures
from twinloop.report.quantity_text import format_duration
from twinloop.report.view.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real run, its twin, another twin, and a study that is not over."""
    root = tmp_path_factory.mktemp("view")
    sample_results.make_real_run().save(root / "runs/real")
    sample_results.make_run().save(root / "runs/twin")
    sample_results.make_run(40).save(root / "runs/small")
    factors = {"policy": ["fifo", "easy", "sjf"]}
    study = tl.explore(sample_results.make_scenario(20), factors, folder=root / "study")
    assert study.folder is not None
    journal = study.folder / "journal.jsonl"
    shutil.copy(journal, root / "journal.whole")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    with Server(root) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture
def shown(browser: Browser, server: Server) -> Iterator[BrowserWindow]:
    """The list, in a window that may speak with this server alone."""
    here = f"http://127.0.0.1:{server.server_address[1]}/"
    look = BrowserWindow(browser, SHOTS, allowed=(here, *LOCAL))
    look.page.goto(server.url)
    look.page.wait_for_selector("#list tr")
    yield look
    look.close()
    assert look.errors == []


def list_names(look: BrowserWindow) -> set[str]:
    rows = look.page.locator("#list tr:visible td:nth-child(2)")
    return set(rows.all_inner_texts())


def test_the_token_leaves_the_address_and_the_list_is_there(
    shown: BrowserWindow, server: Server
) -> None:
    assert "token" not in shown.page.url
    assert shown.evaluate("document.cookie") == ""  # no script can read it
    assert list_names(shown) == {"runs/real", "runs/twin", "runs/small", "study"}
    real = shown.page.locator("#list tr", has_text="runs/real").inner_text()
    assert "real run" in real
    assert format_duration(figures(sample_results.make_real_run()).makespan) in real
    shown.take_screenshot("view")
    shown.page.reload()
    assert "runs/real" in list_names(shown)
    assert server.token not in shown.page.content()


def test_the_filter_keeps_rows_with_all_words(shown: BrowserWindow) -> None:
    box = shown.page.get_by_label("Filter")
    box.fill("SIMULATED run")
    assert list_names(shown) == {"runs/twin", "runs/small"}
    box.press("Enter")
    assert shown.page.url.endswith("/")
    box.fill("nothing like it")
    assert list_names(shown) == set()
    box.fill("")
    assert len(list_names(shown)) == 4


def test_a_click_shows_the_report_and_leads_back(shown: BrowserWindow) -> None:
    shown.follow(shown.page.get_by_role("link", name="runs/twin"))
    assert shown.cards()["tasks"] == "120"
    shown.follow(shown.page.get_by_role("link", name="All results"))
    shown.page.wait_for_selector("#list tr")


def test_two_ticked_runs_are_compared_and_assessed(shown: BrowserWindow) -> None:
    button = shown.page.get_by_role("button", name="Compare")
    assert button.is_disabled()
    shown.page.get_by_label("compare runs/real").check()
    assert button.is_disabled()
    shown.page.get_by_label("compare runs/twin").check()
    shown.follow(button)
    shown.take_screenshot("view-compare")
    assert shown.page.locator(".big").inner_text() == sample_results.make_verdict().status
    assert "the makespan is" in shown.text
    row = shown.page.locator("tr", has=shown.page.get_by_text("makespan", exact=True)).first
    cells = row.locator("td").all_inner_texts()
    both = [
        format_duration(figures(trace).makespan)
        for trace in (sample_results.make_real_run(), sample_results.make_run())
    ]
    assert sorted(cells[1:3]) == sorted(both)
    shown.follow(shown.page.get_by_role("link", name="Complete assessment"))
    assert sample_results.make_verdict().provenance in shown.text


def test_three_selected_runs_are_compared(shown: BrowserWindow) -> None:
    for name in ("real", "twin", "small"):
        shown.page.get_by_label(f"compare runs/{name}").check()
    shown.follow(shown.page.get_by_role("button", name="Compare"))
    assert "Comparison of 3 runs" in shown.text
    assert "makespan_s" in shown.pictures
    bars = shown.evaluate("[...document.getElementById('makespan_s')._fullData[0].x]")
    runs = (sample_results.make_real_run(), sample_results.make_run(), sample_results.make_run(40))
    assert sorted(bars) == pytest.approx(sorted(figures(run).makespan for run in runs))
    shown.take_screenshot("view-three")


def test_a_running_study_shows_its_progress(shown: BrowserWindow, server: Server) -> None:
    assert "2 of 3 runs done" in shown.text
    shown.follow(shown.page.get_by_role("link", name="study").first)
    assert shown.cards()["runs"].startswith("2")
    shutil.copy(server.folder / "journal.whole", server.folder / "study/journal.jsonl")
    shown.page.reload()
    shown.wait_for_figures()
    assert shown.cards()["runs"].startswith("3")
    shown.follow(shown.page.get_by_role("link", name="All results"))
    shown.page.wait_for_selector("#list tr")
    assert "2 of 3" not in shown.text
    assert "3 runs" in shown.text


def test_the_list_is_readable_on_a_phone_in_the_dark(browser: Browser, server: Server) -> None:
    here = f"http://127.0.0.1:{server.server_address[1]}/"
    look = BrowserWindow(browser, SHOTS, width=390, height=844, dark=True, allowed=(here, *LOCAL))
    look.page.goto(server.url)
    look.page.wait_for_selector("#list tr")
    look.take_screenshot("view-phone")
    assert look.evaluate("document.documentElement.scrollWidth") <= 390
    look.close()
    assert look.errors == []


def test_a_browser_without_the_token_sees_nothing(browser: Browser, server: Server) -> None:
    here = f"http://127.0.0.1:{server.server_address[1]}/"
    look = BrowserWindow(browser, SHOTS, allowed=(here, *LOCAL))
    answer = look.page.goto(here)
    assert answer is not None
    assert answer.status == 403
    assert "runs/real" not in look.text
    look.close()


def test_a_script_that_got_into_the_list_would_not_run(shown: BrowserWindow) -> None:
    shown.evaluate(
        "() => { const code = document.createElement('script');"
        " code.textContent = 'window.ran = true'; document.body.append(code); }"
    )
    assert shown.evaluate("window.ran") is None
    assert shown.has_error("Content Security Policy")
    shown.errors.clear()
