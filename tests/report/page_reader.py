"""Reading of report pages in tests."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from typing import Any

EVIL = "<script>alert('x')</script><a href=\"https://evil.example\">%{x}</a>&amp;"
VOID = {"meta", "br", "link", "img", "input", "hr"}


class PageReader(HTMLParser):
    """Tags, attributes and text of a page; an end without a begin is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.text = ""
        self.scripts: dict[str | None, str] = {}
        self.feed(text)
        self.close()
        assert not self.inside, f"never closed: {self.inside}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.inside and self.inside[-1] == "script":
            name = self.tags[-1][1].get("id")
            self.scripts[name] = self.scripts.get(name, "") + data
        else:
            self.text += data


def decompress(page: PageReader, name: str) -> str:
    return gzip.decompress(base64.b64decode(page.scripts[name])).decode()


def read_figures(page: PageReader) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(decompress(page, "pictures"))
    return found


def check_loads_nothing(text: str, page: PageReader) -> None:
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert not {"src", "srcset", "action", "data"} & set(attrs)
        assert (attrs.get("href") or "#").startswith("#")  # within the page
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest|import\(", text)
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none';")
