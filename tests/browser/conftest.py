"""A real browser, and pages for it made of quick runs.

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

from tests.browser.looking import PATIENCE, Look
from tests.browser.made import PAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAME = "TWINLOOP_BROWSER"
HERE = Path(__file__).resolve().parent
#: Where the pictures of the pages go, for whoever wants to look.
SHOTS = HERE.parents[1] / "build" / "browser"
#: When all of this is given up (s): a browser that hangs shall not hang the tests.
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
def look(browser: Browser) -> Iterator[Callable[..., Look]]:
    """Opens pages; at the end none may have complained or asked the network for anything."""
    opened: list[Look] = []

    def open_page(path: Path, **how: Any) -> Look:
        opened.append(Look(browser, SHOTS, **how))
        opened[-1].open(path)
        return opened[-1]

    yield open_page
    for each in opened:
        each.close()
    assert [said for each in opened for said in each.complaints] == []


@pytest.fixture(scope="session")
def windows(browser: Browser, page_of: Callable[[str], Path]) -> Iterator[Callable[[str], Look]]:
    """Opens each page once: to unpack and to draw it takes longer than most looks."""
    opened: dict[str, Look] = {}

    def open_page(name: str) -> Look:
        if name not in opened:
            shown = Look(browser, SHOTS)
            shown.open(page_of(name))
            opened[name] = shown
        return opened[name]

    yield open_page
    for each in opened.values():
        each.close()


@pytest.fixture
def at(windows: Callable[[str], Look]) -> Iterator[Callable[[str], Look]]:
    """The page of this name in a window of usual size, which several tests share."""
    used: list[Look] = []

    def show(name: str) -> Look:
        used.append(windows(name))
        return used[-1]

    yield show
    for each in used:
        each.page.emulate_media(media="screen", color_scheme="light")
        assert each.complaints == []


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of this name, made when it is first asked for."""
    there = tmp_path_factory.mktemp("pages")

    def make(name: str) -> Path:
        path = there / f"{name}.html"
        return path if path.exists() else PAGES[name](path)

    return make
