"""A folder of runs and studies, served to the browsers of this machine that know the token."""

from __future__ import annotations

import hmac
import secrets
import sys
import traceback
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from twinloop.description import InputError, TwinloopError
from twinloop.description.safe_text import escape_controls
from twinloop.report.view.index import Index
from twinloop.report.view.listing import render_listing
from twinloop.report.view.page_cache import PageCache

LOOPBACK: Final = "127.0.0.1"
#: What a browser on this machine may call this server: not a name that a foreign DNS server lets
#: point here.
_NAMES: Final = frozenset({LOOPBACK, "localhost"})
#: Nothing is loaded from elsewhere, nor into a page of another site.
_NOWHERE: Final = (
    "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; "
    "img-src data: blob:"
)
_REPORT: Final = (
    f"{_NOWHERE}; script-src 'unsafe-inline'; style-src 'unsafe-inline'; font-src data:"
)
#: A browser that says nothing for so long is cut off (s).
_PATIENCE: Final = 30
#: Fields that an address has at most; the runs to compare are fewer.
_FIELDS: Final = 100


class Server(ThreadingHTTPServer):
    """Serves a folder on the loopback interface, to be started with `serve_forever`.

    A browser that opens `url` is sent to a secret path and given a cookie for that path; a request
    without both is refused. A browser sends the cookies of 127.0.0.1 to all ports of it, and so to
    servers of other users; a cookie of a path goes only to addresses below the path, which other
    servers do not know. Nothing can be changed through the server: it answers GET only, with pages
    made of the contents of the folder.

    Args:
        folder: What is served.
        port: 0 takes one that is free.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there, Server(there) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        root = Path(folder)
        if not root.is_dir():
            problem = "is no folder" if root.exists() else "does not exist"
            raise InputError(problem, file=folder, remedy="name a folder of runs and studies")
        self.folder = root.resolve()
        self.token = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
        self.secret = secrets.token_urlsafe(32)
        #: The name of the cookie: no two servers of this machine have the same.
        self.cookie = f"twinloop-{secrets.token_hex(8)}"
        self.index = Index(self.folder)
        self.pages = PageCache(self.folder, self.base)
        self._once: set[str] = set()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port} cannot be had: {error.strerror}", remedy="without --port, a free one"
            ) from None

    @property
    def url(self) -> str:
        """What to open; good as long as the server runs."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/?token={self.token}"

    def make_single_use_url(self) -> str:
        """What to open, good for one time: the command line of a browser is no secret."""
        token = secrets.token_urlsafe(32)
        self._once.add(token)
        return f"http://{LOOPBACK}:{self.server_address[1]}/?token={token}"

    @property
    def base(self) -> str:
        """The path below which all pages are."""
        return f"/{self.secret}/"

    def accepts(self, token: str) -> bool:
        """Whether this token is good; one for a single time is so no longer."""
        if is_same_secret(token, self.token):
            return True
        for known in tuple(self._once):
            if is_same_secret(token, known):
                self._once.discard(known)
                return True
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: every user of this machine can send what cannot be answered."""


def is_same_secret(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell how far they are.

    >>> is_same_secret("abc", "abc"), is_same_secret("abc", "é")
    (True, False)
    """
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "twinloop"
    sys_version = ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        if not self._is_known_host():
            self._send_refusal(
                HTTPStatus.FORBIDDEN, "This server is called 127.0.0.1 or localhost."
            )
            return
        try:
            parts = urlsplit(self.path)
            asked = parse_qs(parts.query, max_num_fields=_FIELDS)
        except ValueError:
            self._send_refusal(HTTPStatus.BAD_REQUEST, "This address cannot be read.")
            return
        secret, slash, path = parts.path.removeprefix("/").partition("/")
        if parts.path == "/" and "token" in asked:
            self._start_session(asked["token"][0])
        elif not (self._has_session() and slash and is_same_secret(secret, self.server.secret)):
            self._send_refusal(
                HTTPStatus.FORBIDDEN, "Open the address that twinloop view printed, with its token."
            )
        else:
            self._send_page(f"/{path}", asked)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, without repeating any of it."""
        self.close_connection = True
        self._send_refusal(
            HTTPStatus(code), "This is no request that can be answered.", Connection="close"
        )

    def _refuse(self) -> None:
        self._send_refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is answered.", Allow="GET")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _refuse

    def _is_known_host(self) -> bool:
        host = self.headers.get_all("Host") or []
        return len(host) == 1 and host[0].partition(":")[0].lower() in _NAMES

    def _has_session(self) -> bool:
        # Those of other programs on this machine come along, and may be of any form.
        pairs = (part.partition("=") for part in self.headers.get("Cookie", "").split(";"))
        return any(
            name.strip() == self.server.cookie
            and is_same_secret(value.strip(), self.server.session)
            for name, _, value in pairs
        )

    def _start_session(self, token: str) -> None:
        if not self.server.accepts(token):
            self._send_refusal(HTTPStatus.FORBIDDEN, "This token is not, or no longer, good.")
            return
        base = self.server.base
        # A page that goes on by itself, and no redirection: a browser that came from another site
        # would not send the cookie along with the latter.
        self._send(
            HTTPStatus.OK,
            _render_message(
                "One moment.", f'<meta http-equiv="refresh" content="0; url={base}">', base
            ),
            _NOWHERE,
            **{
                "Set-Cookie": f"{self.server.cookie}={self.server.session}; HttpOnly; "
                f"SameSite=Strict; Path={base}"
            },
        )

    def _send_page(self, path: str, asked: dict[str, list[str]]) -> None:
        pages = self.server.pages
        try:
            if path == "/":
                nonce = secrets.token_urlsafe(16)
                entries, more = self.server.index.entries()
                name, base = self.server.folder.name or "/", self.server.base
                page = render_listing(name, entries, more, nonce, base).encode()
                policy = f"{_NOWHERE}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
                self._send(HTTPStatus.OK, page, policy)
                return
            if path.startswith("/page/"):
                page = pages.make_report(unquote(path.removeprefix("/page/")))
            elif path == "/compare":
                page = pages.make_comparison(asked.get("run", []))
            elif path == "/assess" and {"real", "twin"} <= asked.keys():
                page = pages.make_assessment(asked["real"][0], asked["twin"][0])
            else:
                self._send_message(HTTPStatus.NOT_FOUND, "There is no such page.")
                return
        except (TwinloopError, OSError) as error:
            # Paths as the list has them, without the place of the folder.
            said = str(error).replace(f"{self.server.folder}/", "")
            self._send_message(HTTPStatus.NOT_FOUND, f"This cannot be shown: {said}")
            return
        except Exception as error:
            print(escape_controls(traceback.format_exc()), file=sys.stderr, end="")
            self._send_message(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"This cannot be shown, for a reason that twinloop did not foresee "
                f"({type(error).__name__}); the terminal says more.",
            )
            return
        self._send(HTTPStatus.OK, page, _REPORT)

    def _send_refusal(self, status: HTTPStatus, said: str, **headers: str) -> None:
        """Answer a request that may be a stranger's."""
        self._send(status, _render_message(said), _NOWHERE, **headers)

    def _send_message(self, status: HTTPStatus, said: str) -> None:
        """Answer a browser that was let in."""
        self._send(status, _render_message(said, base=self.server.base), _NOWHERE)

    def _send(self, status: HTTPStatus, page: bytes, policy: str, **headers: str) -> None:
        self.send_response(status)
        told = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(page)),
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        for name, value in (told | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: an address may hold the token."""


def _render_message(said: str, head: str = "", base: str = "") -> bytes:
    """A page of one sentence, with the way back for a browser that was let in."""
    back = f'<p><a href="{base}">All runs and studies</a></p>' if base else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">{head}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>twinloop</title></head>\n"
        f"<body><main><p>{escape(said)}</p>{back}</main></body>\n</html>\n"
    ).encode()
