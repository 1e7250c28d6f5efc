"""HTTP server for a folder of runs and studies, for local browsers with the token."""

from __future__ import annotations

import hmac
import secrets
import sys
import traceback
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from twinloop.description import InputError, TwinloopError
from twinloop.description.safe_text import escape_controls
from twinloop.report.pages.templating import render_template
from twinloop.report.view.index import Index
from twinloop.report.view.listing import render_listing
from twinloop.report.view.page_cache import PageCache

LOOPBACK: Final = "127.0.0.1"
#: The host names that are accepted, as a protection against DNS rebinding.
_HOST_NAMES: Final = frozenset({LOOPBACK, "localhost"})
#: The content security policy: no resource of another site is loaded, and no other site can embed
#: a page.
_BASE_POLICY: Final = (
    "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; "
    "img-src data: blob:"
)
_REPORT_POLICY: Final = (
    f"{_BASE_POLICY}; script-src 'unsafe-inline'; style-src 'unsafe-inline'; font-src data:"
)
#: The timeout of a connection (s).
_TIMEOUT: Final = 30
#: Maximum number of fields of the query of an address.
_MAX_FIELDS: Final = 100


class Server(ThreadingHTTPServer):
    """Server of a folder on the loopback interface, started with `serve_forever`.

    A browser that opens `url` gets a secret path and a cookie for this path; a request without
    both is refused. A browser sends the cookies of 127.0.0.1 to all its ports, and so to servers
    of other users; a cookie with a path is sent only to addresses below this path, which other
    servers do not have. The server is read-only: it supports GET, with pages from the contents of
    the folder.

    Args:
        folder: The folder to serve.
        port: 0 selects a free port.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        root = Path(folder)
        if not root.is_dir():
            problem = "is not a folder" if root.exists() else "does not exist"
            raise InputError(
                problem,
                kind="wrong-file-type" if root.exists() else "file-not-found",
                file=folder,
                remedy="give a folder of runs and studies",
            )
        self.folder = root.resolve()
        self.token = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
        self.secret = secrets.token_urlsafe(32)
        #: The name of the cookie, different for each server of this machine.
        self.cookie = f"twinloop-{secrets.token_hex(8)}"
        self.index = Index(self.folder)
        self.pages = PageCache(self.folder, self.base)
        self._once: set[str] = set()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port} is not available: {error.strerror}",
                kind="port-unavailable",
                remedy="leave out --port to use a free one",
            ) from None

    @property
    def url(self) -> str:
        """The address to open, valid as long as the server runs."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/?token={self.token}"

    def make_single_use_url(self) -> str:
        """Make an address that is valid once, because command lines are visible to other users."""
        token = secrets.token_urlsafe(32)
        self._once.add(token)
        return f"http://{LOOPBACK}:{self.server_address[1]}/?token={token}"

    @property
    def base(self) -> str:
        """The path of all pages."""
        return f"/{self.secret}/"

    def accepts(self, token: str) -> bool:
        """Whether a token is valid; a single-use token becomes invalid."""
        if is_same_secret(token, self.token):
            return True
        for single_use in tuple(self._once):
            if is_same_secret(token, single_use):
                self._once.discard(single_use)
                return True
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing, because every user of this machine can send invalid requests."""


def is_same_secret(one: str, other: str) -> bool:
    """Whether two secrets are equal, compared in constant time.

    >>> is_same_secret("abc", "abc"), is_same_secret("abc", "é")
    (True, False)
    """
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "twinloop"
    sys_version = ""
    timeout = _TIMEOUT

    def do_GET(self) -> None:
        if not self._is_known_host():
            self._send_refusal(
                HTTPStatus.FORBIDDEN, "Unknown host name. Use 127.0.0.1 or localhost."
            )
            return
        try:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, max_num_fields=_MAX_FIELDS)
        except ValueError:
            self._send_refusal(HTTPStatus.BAD_REQUEST, "This address is not valid.")
            return
        secret, slash, path = parts.path.removeprefix("/").partition("/")
        if parts.path == "/" and "token" in query:
            self._start_session(query["token"][0])
        elif not (self._has_session() and slash and is_same_secret(secret, self.server.secret)):
            self._send_refusal(
                HTTPStatus.FORBIDDEN, "Open the address that twinloop view printed, with its token."
            )
        else:
            self._send_page(f"/{path}", query)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse an invalid request, without repeating any of it."""
        self.close_connection = True
        self._send_refusal(HTTPStatus(code), "This request is not valid.", Connection="close")

    def _refuse(self) -> None:
        self._send_refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is supported.", Allow="GET")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _refuse

    def _is_known_host(self) -> bool:
        host = self.headers.get_all("Host") or []
        return len(host) == 1 and host[0].partition(":")[0].lower() in _HOST_NAMES

    def _has_session(self) -> bool:
        # The header also has cookies of other programs on this machine, in any form.
        pairs = (part.partition("=") for part in self.headers.get("Cookie", "").split(";"))
        return any(
            name.strip() == self.server.cookie
            and is_same_secret(value.strip(), self.server.session)
            for name, _, value in pairs
        )

    def _start_session(self, token: str) -> None:
        if not self.server.accepts(token):
            self._send_refusal(HTTPStatus.FORBIDDEN, "This token is not valid, or no longer valid.")
            return
        base = self.server.base
        # A page that refreshes itself instead of a redirection, because a browser that comes from
        # another site would not send the cookie after a redirection.
        self._send(
            HTTPStatus.OK,
            _render_message("Loading.", base, refresh=True),
            _BASE_POLICY,
            **{
                "Set-Cookie": f"{self.server.cookie}={self.server.session}; HttpOnly; "
                f"SameSite=Strict; Path={base}"
            },
        )

    def _send_page(self, path: str, query: dict[str, list[str]]) -> None:
        pages = self.server.pages
        try:
            if path == "/":
                nonce = secrets.token_urlsafe(16)
                entries, more = self.server.index.entries()
                name, base = self.server.folder.name or "/", self.server.base
                page = render_listing(name, entries, more, nonce, base).encode()
                policy = f"{_BASE_POLICY}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
                self._send(HTTPStatus.OK, page, policy)
                return
            if path.startswith("/page/"):
                page = pages.make_report(unquote(path.removeprefix("/page/")))
            elif path == "/compare":
                page = pages.make_comparison(query.get("run", []))
            elif path == "/assess" and {"real", "twin"} <= query.keys():
                page = pages.make_assessment(query["real"][0], query["twin"][0])
            else:
                self._send_message(HTTPStatus.NOT_FOUND, "There is no such page.")
                return
        except (TwinloopError, OSError) as error:
            # Paths in messages are relative to the folder, as in the list.
            problem = str(error).replace(f"{self.server.folder}/", "")
            self._send_message(HTTPStatus.NOT_FOUND, f"This page cannot be shown: {problem}")
            return
        except Exception as error:
            print(escape_controls(traceback.format_exc()), file=sys.stderr, end="")
            self._send_message(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"This page cannot be shown because of an unexpected error "
                f"({type(error).__name__}); the terminal has the details.",
            )
            return
        self._send(HTTPStatus.OK, page, _REPORT_POLICY)

    def _send_refusal(self, status: HTTPStatus, text: str, **headers: str) -> None:
        """Answer a request that is not authenticated."""
        self._send(status, _render_message(text), _BASE_POLICY, **headers)

    def _send_message(self, status: HTTPStatus, text: str) -> None:
        """Answer an authenticated request with a message."""
        self._send(status, _render_message(text, base=self.server.base), _BASE_POLICY)

    def _send(self, status: HTTPStatus, page: bytes, policy: str, **headers: str) -> None:
        self.send_response(status)
        common = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(page)),
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        for name, value in (common | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because an address may contain the token."""


def _render_message(text: str, base: str = "", *, refresh: bool = False) -> bytes:
    """Render a page of one sentence, with a link to the list for an authenticated request."""
    return render_template("message.html.j2", text=text, base=base, refresh=refresh).encode()
