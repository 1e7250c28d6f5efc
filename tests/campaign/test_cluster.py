"""Law: a Dask cluster gives the outcomes of a serial run in order, also if workers die."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import dask
import pytest
from distributed.security import Security

from tests.campaign.conftest import PATIENCE, until
from tests.campaign.functions import Shared, identified, touchy
from twinloop.campaign import Coordinator, Outcome, coordinator
from twinloop.campaign.dask_cluster import SchedulerLostError, UnprotectedClusterWarning
from twinloop.description.errors import InputError

pytestmark = pytest.mark.real


class Cluster:
    """A scheduler and workers, each in a process of its own, as docs/campaign.md starts them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._file = folder / "scheduler.json"
        made = Security.temporary()
        (folder / "key.pem").write_text(made.tls_client_key)
        (folder / "cert.pem").write_text(made.tls_client_cert)
        #: Where the keys are, by their names in Dask's configuration.
        self.keys = {"ca-file": str(folder / "cert.pem")}
        for part in ("scheduler", "worker", "client"):
            self.keys |= {f"{part}.{kind}": str(folder / f"{kind}.pem") for kind in ("cert", "key")}
        self.scheduler = self._start("scheduler", "--host", "tls://127.0.0.1", "--port", "0")
        # The workers wait for the file of the scheduler by themselves.
        self.workers = {self._worker(name) for name in ("one", "two")}
        assert until(self._is_up), self.said

    @property
    def said(self) -> str:
        return (self._folder / "log").read_text()

    def _is_up(self) -> bool:
        """Whether the scheduler has written down its address, all of it."""
        with suppress(OSError, ValueError):
            self.address = json.loads(self._file.read_text())["address"]
            return True
        return False

    def _worker(self, name: str) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--name", name, "--host", "tls://127.0.0.1")
        return self._start("worker", *options, "--local-directory", str(self._folder))

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--scheduler-file", str(self._file), *options],
                stdout=log,
                stderr=log,
                # They have to find what the functions are of.
                env=os.environ
                | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
                | {_variable(name): at for name, at in self.keys.items()},
            )
        self._stack.callback(process.wait, PATIENCE)
        self._stack.callback(process.kill)
        return process


def _variable(name: str) -> str:
    """The environment variable of a setting of Dask."""
    changed = name.replace(".", "__").replace("-", "_").upper()
    return f"DASK_DISTRIBUTED__COMM__TLS__{changed}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
def workers(cluster: Cluster) -> Iterator[Coordinator]:
    """Both workers; who asks before the first has come is refused after some seconds."""
    found: list[Coordinator] = []

    def reached() -> bool:
        with suppress(InputError):
            found.append(coordinator(cluster.address))
        return bool(found)

    with dask.config.set({f"distributed.comm.tls.{name}": at for name, at in cluster.keys.items()}):
        assert until(reached), cluster.said
    with found[0] as workers:
        assert until(lambda: workers.workers == 2), cluster.said
        yield workers


def serial(function: Callable[[int], object], items: range) -> list[tuple[object, str | None]]:
    with coordinator("serial") as worker:
        return [told(outcome) for outcome in worker.map(function, items)]


def told(outcome: Outcome) -> tuple[object, str | None]:
    return outcome.value, outcome.error


@pytest.mark.real
def test_a_real_cluster_of_which_one_dies(
    cluster: Cluster, workers: Coordinator, tmp_path: Path
) -> None:
    # What a function holds goes to each worker once.
    log = tmp_path / "loaded"
    outcomes = list(workers.map(Shared(log), range(20)))
    assert [outcome.value for outcome in outcomes] == [3_000_000 + n for n in range(20)]
    loads = log.read_text().split()
    assert 1 <= len(loads) == len(set(loads)) <= 2

    # One is killed while both have work; the items are pulled no faster than allowed.
    pulled = 0

    def items() -> Iterator[int]:
        nonlocal pulled
        for pulled in range(1, 61):
            yield pulled - 1

    for count, outcome in enumerate(workers.map(identified, items())):
        assert outcome.error is None
        assert outcome.value is not None
        assert outcome.value[1] == count
        assert pulled - count <= 4
        if count == 10:
            cluster.workers.pop().kill()
    assert count == 59
    assert until(lambda: workers.workers == 1)

    # Values and errors are those of serial, on the remaining worker.
    outcomes = list(workers.map(touchy, range(20)))
    assert [told(outcome) for outcome in outcomes] == serial(touchy, range(20))

    # Without a scheduler no more items are evaluated, and the message says so.
    cluster.scheduler.send_signal(signal.SIGKILL)
    with pytest.raises(
        SchedulerLostError,
        match=f"the connection to the Dask scheduler at {cluster.address} is lost",
    ):
        list(workers.map(touchy, range(1000)))
    with pytest.raises(SchedulerLostError):
        print(workers.workers)


def test_dask_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for on in ("dask", "tcp://127.0.0.1:8786"):
        with pytest.raises(
            InputError, match=r"Dask is not installed .pip install 'twinloop.dask.'"
        ):
            coordinator(on)


def test_a_scheduler_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinloop.campaign.dask_cluster.CONNECT_TIMEOUT", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.warns(UnprotectedClusterWarning, match=address),
            pytest.raises(InputError, match=f"no Dask scheduler answers at {address}.*dask sched"),
        ):
            coordinator(address)
    with (
        pytest.warns(UnprotectedClusterWarning),
        pytest.raises(InputError, match="no Dask scheduler answers at tcp://nowhere"),
    ):
        coordinator("tcp://nowhere")


def test_tls_without_certificates_is_refused_by_what_is_missing() -> None:
    with pytest.raises(InputError, match=r"needs certificates.*CA_FILE.*CLIENT__CERT.*__KEY"):
        coordinator("tls://127.0.0.1:8786")


def test_a_local_cluster_without_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError, match=r"needs the package cryptography.*twinloop\[dask\]"):
        coordinator("dask", workers=1)
