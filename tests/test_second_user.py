"""Law: a second user of this machine can use no listening socket of Twinloop."""

import ast
import os
import tempfile
import threading
from pathlib import Path

import polars as pl
import pytest
from distributed.security import Security

import twinloop
from tests.second_user import OTHER, as_second_user, family, listening, needs_root
from twinloop.campaign.dask_cluster import DaskCoordinator
from twinloop.campaign.scratch_folders import PREFIX, remove_unused_folders
from twinloop.description.files import write_atomically
from twinloop.report.view.server import Server
from twinloop.trace import Trace

#: Connects to an address without TLS, without a certificate, and with each certificate of the
#: second user. A node of Dask sends the first message after it has accepted a connection.
KNOCK = """
def knock(port, context):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        try:
            if context is None:
                plain.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                return plain.recv(64).hex()
            with context.wrap_socket(plain) as wrapped:
                return wrapped.recv(64).hex()
        except (ssl.SSLError, ConnectionError):
            return ""

def context(keys):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if keys:
        with tempfile.TemporaryDirectory() as there:
            names = [os.path.join(there, name) for name in ("cert", "key")]
            for name, text in zip(names, keys):
                with open(name, "w") as file:
                    file.write(text)
            made.load_cert_chain(*names)
    return made

contexts = [None, context(None), *map(context, given["keys"])]
found = {str(port): [knock(port, each) for each in contexts] for port in given["ports"]}
"""
IMPORTS = "import socket, ssl, tempfile\nimport encodings.idna\n"
#: Reply of a TLS server to a client without TLS.
ALERT = "1503"


def pair(security: Security) -> tuple[str, str]:
    return security.tls_client_cert, security.tls_client_key


#: Reads files of processes and folders of another user.
READ = """
def read(path):
    try:
        if os.path.isdir(path):
            return " ".join(os.listdir(path))
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return None

found["read"] = {path: read(path) for path in given["paths"]}
"""


@pytest.mark.real
@needs_root
def test_a_second_user_runs_nothing_on_a_local_dask_cluster() -> None:
    before = listening(family(os.getpid()))
    with DaskCoordinator.start_local(1) as cluster:
        assert [outcome.value for outcome in cluster.map(abs, [-1])] == [1]
        pids = family(os.getpid())
        mine = listening(pids) - before
        assert {host for host, _ in mine} == {"127.0.0.1"}
        ports = sorted(port for _, port in mine)
        assert int(cluster._address.rpartition(":")[2]) in ports
        assert len(ports) == 3  # the scheduler, the worker and its nanny: nothing over HTTP
        keys = [pair(cluster._client.security), pair(Security.temporary())]
        secret = [f"/proc/{pid}/{name}" for pid in pids for name in ("environ", "mem", "fd")]
        scratch = Path(cluster._cluster.scheduler.local_directory).parent.parent
        assert scratch.parent == Path(tempfile.gettempdir())
        public = [f"/proc/{pid}/cmdline" for pid in pids]
        found = as_second_user(
            KNOCK + READ,
            {"ports": ports, "keys": keys, "paths": [*secret, *public, str(scratch)]},
            before=IMPORTS,
        )
    for port in ports:
        plain, bare, right, wrong = found[str(port)]
        assert plain == "" or plain.startswith(ALERT)
        assert (bare, wrong) == ("", "")
        assert right  # so the others were refused only because of the missing key
    assert {found["read"][path] for path in (*secret, str(scratch))} == {None}
    body = keys[0][1].splitlines()[1]
    assert all(body not in (found["read"][path] or "") for path in public)
    assert not scratch.exists()


#: Requests these paths without a cookie and with an invented one.
ASK = """
def ask(path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", given["port"], timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return [answer.status, answer.read().decode(), answer.headers.get("Set-Cookie")]

found = [
    ask(path, headers)
    for path in given["paths"]
    for headers in ({}, {"Cookie": f"{given['cookie']}=guess"}, {"Host": "evil.example"})
]
"""


@pytest.mark.real
@needs_root
def test_a_second_user_sees_nothing_of_a_folder_that_is_viewed(tmp_path: Path) -> None:
    Trace(tasks=pl.DataFrame({"id": ["a"]})).save(tmp_path / "confidential")
    before = listening({os.getpid()})
    with Server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        assert listening({os.getpid()}) - before == {server.server_address}
        # The path is useless without the cookie.
        paths = ["/", "/?token=guess", "/page/confidential", server.base, "/compare?run=a&run=b"]
        given = {"port": server.server_address[1], "paths": paths, "cookie": server.cookie}
        found = as_second_user(ASK, given, before="import http.client\nimport encodings.idna\n")
        server.shutdown()
        thread.join()
    assert len(found) == 15
    for status, text, cookie in found:
        assert (status, cookie) == (403, None)
        assert "confidential" not in text
        assert server.secret not in text


#: Every module of the package that opens a listening socket, and the test above for it.
LISTENERS = {
    "campaign/local_dask_cluster.py": test_a_second_user_runs_nothing_on_a_local_dask_cluster,
    "report/view/server.py": test_a_second_user_sees_nothing_of_a_folder_that_is_viewed,
}
#: Names of functions and classes that open a listening socket.
OPENING = {
    "bind", "listen", "accept", "create_server", "start_server", "create_unix_server",
    "start_unix_server", "make_server", "HTTPServer", "ThreadingHTTPServer", "TCPServer",
    "ThreadingTCPServer", "UDPServer", "UnixStreamServer", "UnixDatagramServer",
    "SimpleXMLRPCServer", "Listener", "Manager", "BaseManager", "SyncManager", "LocalCluster",
    "SpecCluster", "Scheduler", "Nanny", "Worker", "mkfifo",
}  # fmt: skip
#: Modules that use one of these names for a socket of the modules above.
OTHERS = {"campaign/dask_cluster.py": {"LocalCluster"}}


def test_every_module_with_a_listening_socket_is_tested() -> None:
    root = Path(twinloop.__file__).parent
    found = {}
    for file in sorted(root.rglob("*.py")):
        name = file.relative_to(root).as_posix()
        used = {
            getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute | ast.Name | ast.alias)
        }
        if used := (used & OPENING) - OTHERS.get(name, set()):
            found[name] = used
    assert found.keys() == LISTENERS.keys(), found


@needs_root
def test_leftovers_of_a_second_user_are_not_swept(tmp_path: Path) -> None:
    """A scratch folder of another user in a shared folder such as /tmp is not removed."""
    dead = 999_999_999  # more than any number of a process
    mine, other = (tmp_path / f".log.swf-{dead}-{number:08x}" for number in range(2))
    box, foreign_box = (tmp_path / f"{PREFIX}{number}" for number in range(2))
    for folder in (mine, other, box, foreign_box):
        folder.mkdir()
    for folder in (other, foreign_box):
        os.chown(folder, OTHER, OTHER)
    with write_atomically(tmp_path / "log.swf") as stream:
        stream.write(b"")
    assert remove_unused_folders(tmp_path) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"log.swf", other.name, foreign_box.name}
