"""Browser window with a page, and the errors and requests of the page."""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Request

#: The timeout of every step on a busy machine (ms).
PATIENCE = 120_000
#: A browser asks its user before a page saves its eleventh file, which a test cannot answer.
MOST_SAVES = 9
#: Addresses that are not on the network.
LOCAL = ("file:", "data:", "blob:")


class BrowserWindow:
    """Window of a browser with one page."""

    def __init__(
        self,
        browser: Browser,
        shots: Path,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        allowed: tuple[str, ...] = LOCAL,
    ) -> None:
        self.shots = shots
        self.allowed = allowed
        self.errors: list[str] = []
        self._saves = 0
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
            offline=allowed == LOCAL,
        )
        self.context.set_default_timeout(PATIENCE)
        self.context.set_default_navigation_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        self.page.on("request", self._request)
        self.page.on("crash", lambda _: self.errors.append("crashed"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(self.allowed):
            self.errors.append(f"asked for {request.url}")

    def open(self, path: Path) -> None:
        """Open a page from disk, and wait until all its figures are drawn."""
        self.page.goto(path.resolve().as_uri())
        self._saves = 0
        self.wait_for_figures()

    def follow(self, link: Locator) -> None:
        """Click on a link to another page, and wait until that page is loaded and drawn.

        The previous page may have no figures, so waiting for figures alone would end too early.
        """
        with self.page.expect_navigation():
            link.click()
        self.wait_for_figures()

    def wait_for_figures(self) -> None:
        """Wait until all figures are drawn."""
        self.wait_until(
            "[...document.querySelectorAll('.picture')].every((p) => p.querySelector('.main-svg'))"
        )
        assert not self.page.locator("#problem").is_visible()

    def close(self) -> None:
        self.context.close()

    def take_screenshot(self, name: str, *, full: bool = True) -> None:
        """Take a screenshot of the page for manual inspection."""
        self.shots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self.shots / f"{name}.png", full_page=full)

    def has_error(self, text: str) -> bool:
        """Wait for an error with this text, which the browser reports with a delay."""
        end = time.monotonic() + PATIENCE / 1000
        while not any(text in error for error in self.errors) and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        return any(text in error for error in self.errors)

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def wait_until(self, script: str, argument: Any = None) -> None:
        """Wait until a script is true, by polling, because the page forbids `eval`."""
        end = time.monotonic() + PATIENCE / 1000
        while not self.evaluate(script, argument):
            assert time.monotonic() < end, f"never came true: {script}"
            self.page.wait_for_timeout(50)

    @property
    def text(self) -> str:
        """The visible text, with single spaces."""
        return re.sub(r"\s+", " ", self.page.inner_text("body"))

    @property
    def pictures(self) -> list[str]:
        return [str(name) for name in self.evaluate(
            "[...document.querySelectorAll('.picture')].map((p) => p.id)")]  # fmt: skip

    def cards(self) -> dict[str, str]:
        """Read the key figures from the page."""
        found = self.evaluate(
            "[...document.querySelectorAll('.figures div')].map((d) => "
            "[d.querySelector('dt').innerText, d.querySelector('dd').innerText])"
        )
        return dict(found)

    def hover(self, picture: str, trace: int, point: int) -> str:
        """Move the mouse to a point or the middle of a bar, and return the hover text."""
        self.page.locator(f"#{picture}").scroll_into_view_if_needed()
        x, y = self.evaluate(
            """([id, trace, point]) => {
              const gd = document.getElementById(id), full = gd._fullData[trace];
              const { xaxis, yaxis } = gd._fullLayout;
              const box = gd.getBoundingClientRect(), number = (v) => Number(v);
              const x = full.base === undefined
                ? number(full.x[point]) : number(full.base[point]) + number(full.x[point]) / 2;
              const y = full.y[point];
              const [left, top] = [box.left + xaxis._offset, box.top + yaxis._offset];
              return [left + xaxis.d2p(x), top + yaxis.d2p(y)];
            }""",
            [picture, trace, point],
        )
        self.page.mouse.move(x - 3, y)
        self.page.mouse.move(x, y)
        label = self.page.locator(f"#{picture} .hoverlayer .hovertext")
        label.first.wait_for(state="visible")
        return " ".join(label.all_text_contents())

    def save_figure(self, picture: str, kind: str) -> tuple[str, bytes]:
        """Click the button that saves a figure, and return the name and the bytes of the file."""
        self._saves += 1
        if self._saves > MOST_SAVES:
            self.page.reload()
            self._saves = 1
            self.wait_for_figures()
        button = self.page.locator(f'[data-of="{picture}"][data-save="{kind}"]')
        with self.page.expect_download(timeout=PATIENCE) as coming:
            button.click()
        return coming.value.suggested_filename, Path(coming.value.path()).read_bytes()


def read_figures(page: Path) -> dict[str, Any]:
    """Read the figures of a page from its file."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/gzip" id="pictures">([^<]*)</script>', text)
    assert found
    figures: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return figures
