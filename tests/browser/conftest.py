"""Fixtures: a real browser and pages of sample results.

Under `make browser` the variable TWINLOOP_BROWSER names the browser, and then one that cannot be
started is an error. Without it these tests are skipped.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.browser_window import PATIENCE, BrowserWindow
from tests.browser.sample_results import PAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAME = "TWINLOOP_BROWSER"
HERE = Path(__file__).resolve().parent
#: The folder of the screenshots, for manual inspection.
SHOTS = HERE.parents[1] / "build" / "browser"
#: The time limit of all tests (s), in case the browser hangs.
LONGEST = 1500


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if NAME not in os.environ:
                item.add_marker(pytest.mark.skip(reason="run `make browser`"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = os.environ[NAME]
    assert path, f"{NAME} names no browser"
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    try:
        with sync_playwright() as driver:
            started = driver.chromium.launch(executable_path=path, timeout=PATIENCE)
            try:
                yield started
            finally:
                started.close()
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., BrowserWindow]]:
    """Open pages; at the end none may have an error or a request to the network."""
    opened: list[BrowserWindow] = []

    def open_page(path: Path, **how: Any) -> BrowserWindow:
        opened.append(BrowserWindow(browser, SHOTS, **how))
        opened[-1].open(path)
        return opened[-1]

    yield open_page
    for each in opened:
        each.close()
    assert [said for each in opened for said in each.errors] == []


@pytest.fixture(scope="session")
def windows(
    browser: Browser, page_of: Callable[[str], Path]
) -> Iterator[Callable[[str], BrowserWindow]]:
    """Open each page once, because decompression and drawing take longer than most tests."""
    opened: dict[str, BrowserWindow] = {}

    def open_page(name: str) -> BrowserWindow:
        if name not in opened:
            shown = BrowserWindow(browser, SHOTS)
            shown.open(page_of(name))
            opened[name] = shown
        return opened[name]

    yield open_page
    for each in opened.values():
        each.close()


@pytest.fixture
def at(windows: Callable[[str], BrowserWindow]) -> Iterator[Callable[[str], BrowserWindow]]:
    """The page of this name in a window of usual size, which several tests share."""
    used: list[BrowserWindow] = []

    def show(name: str) -> BrowserWindow:
        used.append(windows(name))
        return used[-1]

    yield show
    for each in used:
        each.page.emulate_media(media="screen", color_scheme="light")
        assert each.errors == []


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of this name, made when it is first asked for."""
    there = tmp_path_factory.mktemp("pages")

    def make(name: str) -> Path:
        path = there / f"{name}.html"
        return path if path.exists() else PAGES[name](path)

    return make
