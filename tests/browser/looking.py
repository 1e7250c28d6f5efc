"""A page in a browser, and all that it complains of."""

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

#: How long anything may take on a busy machine (ms).
PATIENCE = 120_000
#: A browser asks its user before a page saves its eleventh file; here nobody would answer.
MOST_SAVES = 9
#: What is no network.
LOCAL = ("file:", "data:", "blob:")


class Look:
    """One page in a window of its own."""

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
        self.complaints: list[str] = []
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
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._request)
        self.page.on("crash", lambda _: self.complaints.append("crashed"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(self.allowed):
            self.complaints.append(f"asked for {request.url}")

    def open(self, path: Path) -> None:
        """Open a page from disk, and wait until all its pictures are drawn."""
        self.page.goto(path.resolve().as_uri())
        self._saves = 0
        self.drawn()

    def follow(self, link: Locator) -> None:
        """Click on what leads to another page, and wait until that is there and drawn.

        The page before may have no pictures: to wait for these alone would be to look too soon.
        """
        with self.page.expect_navigation():
            link.click()
        self.drawn()

    def drawn(self) -> None:
        """Wait until all pictures are drawn."""
        self.until(
            "[...document.querySelectorAll('.picture')].every((p) => p.querySelector('.main-svg'))"
        )
        assert not self.page.locator("#problem").is_visible()

    def close(self) -> None:
        self.context.close()

    def shot(self, name: str, *, full: bool = True) -> None:
        """Take a picture of the page for whoever wants to look."""
        self.shots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self.shots / f"{name}.png", full_page=full)

    def complains(self, of: str) -> bool:
        """Wait for a complaint: the browser tells of it when it finds the time."""
        end = time.monotonic() + PATIENCE / 1000
        while not any(of in said for said in self.complaints) and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        return any(of in said for said in self.complaints)

    def ask(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def until(self, script: str, argument: Any = None) -> None:
        """Wait until this is true; from outside, because the page forbids to evaluate strings."""
        end = time.monotonic() + PATIENCE / 1000
        while not self.ask(script, argument):
            assert time.monotonic() < end, f"never came true: {script}"
            self.page.wait_for_timeout(50)

    @property
    def text(self) -> str:
        """What a reader sees, with single spaces."""
        return re.sub(r"\s+", " ", self.page.inner_text("body"))

    @property
    def pictures(self) -> list[str]:
        return [str(name) for name in self.ask(
            "[...document.querySelectorAll('.picture')].map((p) => p.id)")]  # fmt: skip

    def cards(self) -> dict[str, str]:
        """The key figures as they are shown."""
        found = self.ask(
            "[...document.querySelectorAll('.figures div')].map((d) => "
            "[d.querySelector('dt').innerText, d.querySelector('dd').innerText])"
        )
        return dict(found)

    def hover(self, picture: str, trace: int, point: int) -> str:
        """Put the mouse on a point or the middle of a bar; what is shown there."""
        self.page.locator(f"#{picture}").scroll_into_view_if_needed()
        x, y = self.ask(
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

    def saved(self, picture: str, kind: str) -> tuple[str, bytes]:
        """Press the button that saves a picture; the name and the bytes of the file."""
        self._saves += 1
        if self._saves > MOST_SAVES:
            self.page.reload()
            self._saves = 1
            self.drawn()
        button = self.page.locator(f'[data-of="{picture}"][data-save="{kind}"]')
        with self.page.expect_download(timeout=PATIENCE) as coming:
            button.click()
        return coming.value.suggested_filename, Path(coming.value.path()).read_bytes()


def drawn_data(page: Path) -> dict[str, Any]:
    """The pictures that are packed in a page, as Python reads them."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/gzip" id="pictures">([^<]*)</script>', text)
    assert found
    unpacked: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return unpacked
