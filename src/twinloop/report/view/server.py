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

from twinloop.report.view.index import Index
from twinloop.report.view.listing import listing
from twinloop.report.view.pages import Pages
from twinloop.trace import InputError, TwinloopError

LOOPBACK: Final = "127.0.0.1"
#: What a browser on this machine may call this server; a name that somebody else's DNS lets point
#: here is none of them.
_NAMES: Final = frozenset({LOOPBACK, "localhost"})
#: Nothing is loaded from elsewhere, nor into a page of somebody else.
_NOWHERE: Final = (
    "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; "
    "img-src data: blob:"
)
_REPORT: Final = (
    f"{_NOWHERE}; script-src 'unsafe-inline'; style-src 'unsafe-inline'; font-src data:"
)
#: A browser that says nothing for so long is cut off (s).
_PATIENCE: Final = 30


class Server(ThreadingHTTPServer):
    """Serves a folder on the loopback interface, to be started with `serve_forever`.

    Who opens `url` is given a cookie; who has neither is refused. Nothing can be changed through
    it: it answers GET only, with pages made of what lies in the folder.

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
        self.index = Index(self.folder)
        self.pages = Pages(self.folder)
        self.token = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
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

    def url_for_once(self) -> str:
        """What to open, good for one time: the command line of a browser is no secret."""
        token = secrets.token_urlsafe(32)
        self._once.add(token)
        return f"http://{LOOPBACK}:{self.server_address[1]}/?token={token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie: a browser keeps those of all ports of a machine together."""
        return f"twinloop-{self.server_address[1]}"

    def admits(self, token: str) -> bool:
        """Whether this token opens the door."""
        if same(token, self.token):
            return True
        for known in tuple(self._once):
            if same(token, known):
                self._once.discard(known)
                return True
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong; that a browser went away is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell how far they are.

    >>> same("abc", "abc"), same("abc", "é")
    (True, False)
    """
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "twinloop"
    sys_version = ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        if not self._called_by_name():
            self._say(HTTPStatus.FORBIDDEN, "This server is called 127.0.0.1 or localhost.")
        elif parts.path == "/" and "token" in asked:
            self._enter(asked["token"][0])
        elif not self._known():
            self._say(
                HTTPStatus.FORBIDDEN, "Open the address that twinloop view printed, with its token."
            )
        else:
            self._answer(parts.path, asked)

    def _refuse(self) -> None:
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is answered.", Allow="GET")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _refuse

    def _called_by_name(self) -> bool:
        host = self.headers.get_all("Host") or []
        return len(host) == 1 and host[0].partition(":")[0].lower() in _NAMES

    def _known(self) -> bool:
        # Those of other programs on this machine come along, and may be of any form.
        pairs = (part.partition("=") for part in self.headers.get("Cookie", "").split(";"))
        return any(
            name.strip() == self.server.cookie and same(value.strip(), self.server.session)
            for name, _, value in pairs
        )

    def _enter(self, token: str) -> None:
        if not self.server.admits(token):
            self._say(HTTPStatus.FORBIDDEN, "This token is not, or no longer, good.")
            return
        # A page that goes on by itself, and no redirection: a browser that came from another site
        # would not send the cookie along with the latter.
        self._send(
            HTTPStatus.OK,
            _words("One moment.", '<meta http-equiv="refresh" content="0; url=/">'),
            _NOWHERE,
            **{
                "Set-Cookie": f"{self.server.cookie}={self.server.session}; HttpOnly; "
                "SameSite=Strict; Path=/"
            },
        )

    def _answer(self, path: str, asked: dict[str, list[str]]) -> None:
        pages = self.server.pages
        try:
            if path == "/":
                nonce = secrets.token_urlsafe(16)
                entries, more = self.server.index.entries()
                page = listing(self.server.folder.name or "/", entries, more, nonce).encode()
                policy = f"{_NOWHERE}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
                self._send(HTTPStatus.OK, page, policy)
                return
            if path.startswith("/page/"):
                page = pages.report(unquote(path.removeprefix("/page/")))
            elif path == "/compare":
                page = pages.compared(asked.get("run", []))
            elif path == "/assess" and {"real", "twin"} <= asked.keys():
                page = pages.assessed(asked["real"][0], asked["twin"][0])
            else:
                self._say(HTTPStatus.NOT_FOUND, "There is no such page.")
                return
        except (TwinloopError, OSError) as error:
            # Paths as the list has them: where the folder lies is nobody's business.
            said = str(error).replace(f"{self.server.folder}/", "")
            self._say(HTTPStatus.NOT_FOUND, f"This cannot be shown: {said}")
            return
        except Exception as error:
            traceback.print_exc()
            self._say(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"This cannot be shown, for a reason that twinloop did not foresee "
                f"({type(error).__name__}); the terminal says more.",
            )
            return
        self._send(HTTPStatus.OK, page, _REPORT)

    def _say(self, status: HTTPStatus, said: str, **headers: str) -> None:
        self._send(status, _words(said), _NOWHERE, **headers)

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


def _words(said: str, head: str = "") -> bytes:
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">{head}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>twinloop</title></head>\n"
        f'<body><main><p>{escape(said)}</p><p><a href="/">All runs and studies</a></p></main>'
        "</body>\n</html>\n"
    ).encode()
