"""A folder is served only to users with the token, and nothing outside of it is served."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import quote, urlsplit

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report.page_reader import EVIL, PageReader, read_figures
from tests.report.sample_runs import draw_tasks, run_fcfs
from twinloop.description import InputError
from twinloop.metrics.trace_figures import figures
from twinloop.report.view.index import Index
from twinloop.report.view.server import Server
from twinloop.trace import Manifest, Trace

#: Time limit (s), long enough for a busy machine.
PATIENCE = 240.0
SECRET = "a secret outside of the folder"


def make_run(tasks: int, kind: str, **facts: object) -> Trace:
    manifest = Manifest(kind=kind, scenario={"name": f"{tasks} tasks"}, facts=facts)
    return run_fcfs(draw_tasks(tasks), manifest=manifest)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of several kinds and states, and a folder beside it that is not served."""
    there = tmp_path_factory.mktemp("served")
    root = there / "root"
    make_run(40, "recorded", run={"policy": "fifo"}).save(root / "runs/real")
    make_run(40, "simulated", run={"policy": "easy", "makespan_s": 99.0}).save(root / "runs/twin")
    make_run(10, "simulated").save(root / "runs/with space & <b>")
    damaged = make_run(5, "simulated").save(root / "damaged")
    (damaged / "tasks.parquet").write_bytes(b"PAR1")
    (root / "torn").mkdir()
    (root / "torn/manifest.json").write_text("{")
    outside = make_run(3, "recorded").save(there / "outside")
    (there / "secret.swf").write_text(SECRET)
    (root / "way-out").symlink_to(outside)
    borrowed = make_run(3, "recorded").save(root / "borrowed")
    (borrowed / "tasks.parquet").unlink()
    (borrowed / "tasks.parquet").symlink_to(outside / "tasks.parquet")
    (root / ".hidden").mkdir()
    make_run(3, "recorded").save(root / ".hidden/run")
    return root


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def send_request(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def open_page(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Send a request with the cookie, for a path below the secret path or for a link."""
    cookie = f"{server.cookie}={server.session}"
    path = path if path.startswith(server.base) else server.base + path.removeprefix("/")
    answer, text = send_request(server, path, method, Cookie=cookie, **headers)
    assert SECRET not in text
    assert str(server.folder) not in text
    assert "Traceback" not in text
    return answer.status, text


def test_the_token_is_in_the_address_once_and_then_a_cookie(server: Server) -> None:
    parts = urlsplit(server.url)
    answer, text = send_request(server, f"/?{parts.query}")
    assert answer.status == 200
    assert f'content="0; url={server.base}"' in text
    assert server.token not in text
    cookie, *how = answer.headers["Set-Cookie"].split("; ")
    # A browser sends it to all ports of 127.0.0.1, but only below a secret path.
    assert {"HttpOnly", "SameSite=Strict", f"Path={server.base}"} == set(how)
    assert len(server.secret) >= 32
    assert server.token not in cookie
    assert server.secret not in cookie
    answer, text = send_request(server, server.base, Cookie=f"other=1; {cookie}")
    assert answer.status == 200
    assert "runs/real" in text


def test_neither_the_cookie_nor_the_path_is_enough(server: Server) -> None:
    cookie = f"{server.cookie}={server.session}"
    for path in ("/", "/page/runs/real", f"/{server.secret[:-1]}/", f"/{server.secret}", "//"):
        assert send_request(server, path, Cookie=cookie)[0].status == 403
    for path in ("", "page/runs/real"):
        answer, text = send_request(server, server.base + path)
        assert answer.status == 403
        assert "runs/real" not in text
        assert server.secret not in text


def test_two_servers_share_no_cookie(server: Server, folder: Path) -> None:
    with Server(folder) as other:
        assert other.cookie != server.cookie
        assert other.secret != server.secret
        assert other.session != server.session


@pytest.mark.parametrize("path", ["/", "/page/runs/real", "/compare?run=a&run=b", "/none", "/%00"])
def test_without_the_token_every_request_is_refused(server: Server, path: str) -> None:
    wrong = [
        {},
        {"Cookie": f"{server.cookie}=guess"},
        {"Cookie": f"{server.cookie}={server.token}"},
        {"Cookie": f"{server.cookie}="},
        {"Cookie": "=;;\x01"},
    ]
    for headers in wrong:
        answer, text = send_request(server, path, **headers)
        assert answer.status == 403
        assert "runs/real" not in text
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("token", ["", "guess", "%ff", "é".encode().hex()])
def test_a_wrong_token_opens_nothing(server: Server, token: str) -> None:
    answer, _ = send_request(server, f"/?token={token}")
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


def test_a_one_time_address_is_valid_once(server: Server) -> None:
    path = "/?" + urlsplit(server.make_single_use_url()).query
    assert [send_request(server, path)[0].status for _ in range(2)] == [200, 403]
    assert send_request(server, "/?" + urlsplit(server.url).query)[0].status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_foreign_host_name_is_refused(server: Server, host: str) -> None:
    cookie = f"{server.cookie}={server.session}"
    for path in (server.base, "/?" + urlsplit(server.url).query, server.base + "page/runs/real"):
        answer, text = send_request(server, path, Cookie=cookie, Host=host)
        assert answer.status == 403
        assert "runs/real" not in text
        assert "Set-Cookie" not in answer.headers
    assert open_page(server, "/", Host="localhost:8000")[0] == 200


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_is_answered(server: Server, method: str) -> None:
    status, text = open_page(server, "/", method)
    assert status == 405
    assert "runs/real" not in text


def test_the_content_policy_of_every_answer_is_minimal(server: Server) -> None:
    cookie = f"{server.cookie}={server.session}"
    below = [server.base + path for path in ("", "page/runs/real", "none")]
    for path in (*below, "/", "/?token=x"):
        answer, _ = send_request(server, path, Cookie=cookie)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
    listed = send_request(server, server.base, Cookie=cookie)[0].headers["Content-Security-Policy"]
    assert "unsafe" not in listed


def test_the_list_has_the_fields_of_the_descriptions(server: Server, folder: Path) -> None:
    entries, more = Index(folder).entries()
    assert not more
    known = {entry.path: entry for entry in entries}
    assert set(known) == {
        "runs/real", "runs/twin", "runs/with space & <b>", "damaged", "torn", "borrowed"
    }  # fmt: skip
    real, twin = known["runs/real"], known["runs/twin"]
    assert (real.kind, real.tasks, real.policy) == ("real run", 40, "fifo")
    assert real.makespan == pytest.approx(figures(Trace.load(folder / "runs/real")).makespan)
    assert (twin.kind, twin.makespan, twin.policy) == ("simulated run", 99.0, "easy")
    assert "is not valid JSON" in known["torn"].problem
    assert [e.changed for e in entries] == sorted((e.changed for e in entries), reverse=True)
    page = PageReader(open_page(server, "/")[1])
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert set(links) == {f"{server.base}page/{quote(path)}" for path in known}
    assert "99 s" in page.text
    assert "with space & <b>" in page.text


def test_a_run_has_its_page_until_it_changes(server: Server, folder: Path) -> None:
    status, text = open_page(server, "/page/runs/real")
    assert status == 200
    assert "40 tasks" in PageReader(text).text
    assert f'<a href="{server.base}">' in text
    path = folder / "changing"
    make_run(7, "simulated").save(path)
    assert "7 tasks" in PageReader(open_page(server, "/page/changing")[1]).text
    make_run(8, "simulated").save(path, overwrite=True)
    assert "8 tasks" in PageReader(open_page(server, "/page/changing")[1]).text
    for file in path.iterdir():
        file.unlink()
    path.rmdir()
    assert open_page(server, "/page/changing")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "../outside", "../secret.swf", "runs/../../outside", "%2e%2e/outside",
        "%2e%2e%2foutside", "..%5coutside", "/etc/passwd", "%2fetc%2fpasswd", "//etc/passwd",
        "way-out", "borrowed", ".hidden/run", "runs/real%00", "runs/real/tasks.parquet", "none",
        "runs",
    ],
)  # fmt: skip
def test_paths_outside_of_the_folder_are_not_served(server: Server, path: str) -> None:
    status, text = open_page(server, f"/page/{path}")
    assert status == 404
    assert "3 tasks" not in text
    name = path.replace("%2e", ".").replace("%2f", "/")
    for query in (f"/compare?run=runs/real&run={name}", f"/assess?real=runs/real&twin={name}"):
        assert open_page(server, query)[0] == 404


def test_a_damaged_run_has_a_page_with_the_error(server: Server) -> None:
    status, text = open_page(server, "/page/damaged")
    assert status == 404
    assert "its hash differs" in PageReader(text).text
    status, text = open_page(server, "/page/torn")
    assert status == 404
    assert "is not valid JSON" in PageReader(text).text
    assert open_page(server, "/compare?run=damaged&run=runs/real")[0] == 404


def test_an_unexpected_error_is_reported_without_details(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str) -> bytes:
        raise KeyError(SECRET)

    monkeypatch.setattr(server.pages, "make_report", broken)
    status, text = open_page(server, "/page/runs/real")
    assert status == 500
    assert "KeyError" in text
    assert SECRET in capfd.readouterr().err


def send_bytes(server: Server, request: bytes) -> bytes:
    """Send any bytes; return the answer."""
    with socket.create_connection(server.server_address, timeout=PATIENCE) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(
            ConnectionResetError
        ):  # the server closes the connection before it has read everything
            while more := connection.recv(65536):
                answer += more
    return answer


HOST = b"Host: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"GET http://[ HTTP/1.1\r\n" + HOST,
        b"GET //[ HTTP/1.0\r\n" + HOST,
        b"GET /?" + b"a=1&" * 500 + b" HTTP/1.1\r\n" + HOST,
        b"GET / HTTP/1.1 more\r\n",
        b"GET / HTTP/x\r\n",
        b"GET / HTTP/\xc2\xb2.1\r\n",
        b"GET / HTTP/1." + b"9" * 5000 + b"\r\n",
        b"GET / HTTP/9.9\r\n" + HOST,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x1b]0;owned\x07 \xff \xfe\r\n",
        b"POST\r\n",
        b"G\x00T / HTTP/1.1\r\n" + HOST,
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 300,
        b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"Cookie: \xff\x1b=\x00;=;\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n: \r\n",
        b"GET / HTTP/1.1\r\n" + HOST + HOST,
        b"GET / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\n",
    ],
)
def test_an_invalid_request_is_refused_without_repeating_it(
    server: Server, request_: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = send_bytes(server, request_ + b"\r\n")
    assert_refused(server, answer, capfd)


@given(st.binary(max_size=200), st.binary(max_size=200))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_are_answered_or_printed(
    server: Server, capfd: pytest.CaptureFixture[str], line: bytes, rest: bytes
) -> None:
    for request in (line, b"GET " + line + b" HTTP/1.1\r\n" + HOST + rest + b"\r\n\r\n"):
        assert_refused(server, send_bytes(server, request), capfd)


def assert_refused(server: Server, answer: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    for secret in (server.token, server.session, server.secret, server.folder.name, "Traceback"):
        assert secret.encode() not in answer
    # An HTTP/0.9 answer has no headers; none at all is a connection that was closed.
    if answer.startswith(b"HTTP/"):
        assert answer.split(b" ", 2)[1][:1] in (b"4", b"5", b"1")
    assert capfd.readouterr() == ("", "")


def test_two_runs_are_compared_and_the_twin_is_assessed(server: Server, folder: Path) -> None:
    status, text = open_page(server, "/compare?run=runs/real&run=runs/twin")
    assert status == 200
    page = PageReader(text)
    # The same run with another manifest.
    assert "all figures are the same" in page.text
    assert "PASS" in page.text
    assert "40 tasks are in both" in page.text
    (link,) = (a["href"] for tag, a in page.tags if tag == "a" and "assess?" in (a["href"] or ""))
    assert link == f"{server.base}assess?real=runs%2Freal&twin=runs%2Ftwin"
    status, text = open_page(server, link)
    assert status == 200
    assert "KS p" in PageReader(text).text
    makespan = figures(Trace.load(folder / "runs/real")).makespan
    bars = read_figures(page)["makespan_s"]["data"][0]
    assert bars["x"] == pytest.approx([makespan, makespan])


def test_several_runs_are_compared(server: Server, folder: Path) -> None:
    names = ["runs/real", "runs/twin", "runs/with space & <b>"]
    status, text = open_page(server, "/compare?" + "&".join(f"run={quote(name)}" for name in names))
    assert status == 200
    page = PageReader(text)
    assert "Comparison of 3 runs" in page.text
    assert "<b>" not in text
    links = {attrs["href"] for tag, attrs in page.tags if tag == "a"}
    assert {f"{server.base}page/{quote(name)}" for name in names} <= links
    assert "Differences" not in page.text
    assert "makespan_s" in read_figures(page)


@pytest.mark.parametrize("query", ["", "?run=runs/real", "?run=runs/real&run=runs/real"])
def test_fewer_than_two_runs_are_not_compared(server: Server, query: str) -> None:
    status, text = open_page(server, f"/compare{query}")
    assert status == 404
    assert "select 2 to 12" in text


def test_names_are_never_markup(tmp_path: Path) -> None:
    name = EVIL.replace("/", "|")[:200]
    odd = make_run(3, "simulated")
    manifest = odd.manifest.model_copy(update={"scenario": {"name": EVIL}, "facts": {
        "run": {"policy": EVIL}}})  # fmt: skip
    odd.replace(manifest=manifest).save(tmp_path / name)
    with Server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        pages = [
            open_page(server, path)[1] for path in ("/", f"/page/{quote(name)}", f"/{EVIL[:8]}")
        ]
        server.shutdown()
    for text in pages:
        assert "alert(" not in "".join(PageReader(text).scripts.values())
        assert "<script>alert" not in text
        assert all(not (a.get("href") or "").startswith("https") for _, a in PageReader(text).tags)


def test_an_empty_folder_is_reported_and_no_folder_is_an_error(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        assert "There is no run" in open_page(server, "/")[1]
        with pytest.raises(InputError, match=r"port \d+ is not available"):
            Server(tmp_path, server.server_address[1])
        server.shutdown()
    with pytest.raises(InputError, match="does not exist"):
        Server(tmp_path / "none")


def test_a_folder_that_is_itself_a_run_is_listed(tmp_path: Path) -> None:
    make_run(4, "recorded").save(tmp_path / "run")
    with Server(tmp_path / "run") as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        assert f'href="{server.base}page/"' in open_page(server, "/")[1]
        assert open_page(server, "/page/")[0] == 200
        server.shutdown()


def test_a_log_is_listed_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "week.swf").write_text("1 0 5 60 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1\n")
    (tmp_path / "notes.txt").write_text("nothing")
    (entry,), _ = Index(tmp_path).entries()
    assert (entry.path, entry.kind, entry.is_run, entry.tasks) == ("week.swf", "log", True, None)
    with Server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        assert "1 task" in open_page(server, "/page/week.swf")[1]
        assert open_page(server, "/page/notes.txt")[0] == 404
        server.shutdown()


SERVE = "import typer; from twinloop.cli.view import view; typer.run(view)"


@pytest.mark.real
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C as a signal")
def test_the_command_prints_the_address_and_ends_with_ctrl_c(folder: Path) -> None:
    command = [sys.executable, "-c", SERVE, str(folder), "--json", "--no-open"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8") as process:
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            assert process.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                line = process.stdout.readline()
                assert line, "it ended"
                text += line
            printed = json.loads(text)
            connection = HTTPConnection("127.0.0.1", printed["port"], timeout=PATIENCE)
            connection.request("GET", printed["url"].partition(str(printed["port"]))[2])
            assert connection.getresponse().status == 200
            connection.close()
            process.send_signal(signal.SIGINT)
            rest, complaints = process.communicate(timeout=PATIENCE)
            assert (process.returncode, rest, complaints) == (0, "", "")
        finally:
            watch.cancel()
            process.kill()


def test_the_index_reads_a_description_again_when_it_changed(tmp_path: Path) -> None:
    index = Index(tmp_path)
    make_run(4, "simulated").save(tmp_path / "run")
    assert [entry.tasks for entry in index.entries()[0]] == [4]
    make_run(5, "simulated").save(tmp_path / "run", overwrite=True)
    assert [entry.tasks for entry in index.entries()[0]] == [5]
    bare = Trace(tasks=pl.DataFrame({"id": ["a"]}), manifest=Manifest(kind="simulated"))
    bare.save(tmp_path / "run", overwrite=True)
    (entry,) = index.entries()[0]
    assert (entry.tasks, entry.makespan, entry.policy) == (1, None, "")
