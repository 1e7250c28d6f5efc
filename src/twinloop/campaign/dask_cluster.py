"""A Dask cluster as the place to run: processes on this machine, or workers on many."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self, TypeVar

from twinloop.campaign.coordinators import choose_outstanding, map_in_order
from twinloop.campaign.main_module import HiddenMain
from twinloop.campaign.outcome import Outcome, format_failure
from twinloop.campaign.serialisation import serialise, serialise_function
from twinloop.campaign.worker import SerialisedFunction, evaluate_on_dask
from twinloop.description.errors import InputError, TwinloopError, TwinloopWarning

T = TypeVar("T")
R = TypeVar("R")

#: How long a scheduler, and then its first worker, is waited for (s).
CONNECT_TIMEOUT: Final = 10.0
#: Transports on which both sides prove who they are.
_PROTECTED: Final = ("tls://", "wss://")
_CERTIFICATES: Final = (
    "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and "
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY to PEM files"
)


class UnprotectedClusterWarning(TwinloopWarning):
    """A Dask cluster is used on which anybody who reaches it can run programs."""


class SchedulerLostError(TwinloopError):
    """The Dask scheduler cannot be reached any more: nothing more can be run.

    >>> print(SchedulerLostError("the Dask scheduler at tcp://10.0.0.5:8786 is gone"))
    the Dask scheduler at tcp://10.0.0.5:8786 is gone
    """


class DaskCoordinator:
    """The workers of a Dask scheduler.

    A task whose worker dies is given to another one; after as many deaths as the scheduler allows
    (`distributed.scheduler.allowed-failures`) it is an error.
    """

    def __init__(self, client: Any, cluster: Any = None) -> None:
        self._client = client
        self._cluster = cluster
        self._address = client.scheduler.address
        self._main: HiddenMain | None = None

    @classmethod
    def connect(cls, address: str) -> Self:
        """Go to a scheduler that is running.

        The certificates for `tls://` are those of Dask's own configuration.
        """
        distributed = _distributed()
        client_class = distributed.Client
        if not address.startswith(_PROTECTED):
            warnings.warn(
                f"the connection to {address} is neither encrypted nor authenticated: every "
                "machine and every user that can reach the scheduler or its workers can run "
                "programs as the user of the workers, and read and change what this run sends and "
                "receives; tls:// with certificates prevents that (docs/campaign.md)",
                UnprotectedClusterWarning,
                stacklevel=2,
            )
        elif distributed.Security().get_connection_args("client").get("ssl_context") is None:
            raise InputError(
                f"{address} needs certificates, and Dask's configuration names none",
                field="on",
                remedy=_CERTIFICATES,
            )
        try:
            client = client_class(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {address}: {' '.join(str(error).split())}",
                field="on",
                remedy=f"start one there with 'dask scheduler', and workers with 'dask worker "
                f"{address}'",
            ) from None
        try:
            client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
        except OSError:
            with suppress(OSError):
                client.close()
            raise InputError(
                f"the Dask scheduler at {address} has no workers",
                field="on",
                remedy=f"start some with 'dask worker {address}'",
            ) from None
        return cls(client)

    @classmethod
    def start_local(cls, workers: int) -> Self:
        """Start a scheduler and worker processes here, none of which runs the user's script."""
        main = HiddenMain()
        try:
            made = cls._started(workers)
        except BaseException:
            main.close()
            raise
        made._main = main
        return made

    @classmethod
    def _started(cls, workers: int) -> Self:
        """Start a scheduler and that many worker processes on this machine, for this user alone."""
        distributed = _distributed()
        try:
            import cryptography  # noqa: F401  what Dask makes keys with
        except ImportError:
            raise InputError(
                "a Dask cluster on this machine needs the package cryptography, to keep other "
                "users out",
                field="on",
                remedy="pip install 'twinloop[dask]'",
            ) from None
        from twinloop.campaign.local_dask_cluster import SecureLocalCluster

        cluster = SecureLocalCluster(workers)
        try:
            return cls(distributed.Client(cluster, set_as_default=False), cluster)
        except BaseException:
            cluster.close()
            raise

    @property
    def workers(self) -> int:
        """How many calls can go on at the same time, on all workers that are there now."""
        self.check_scheduler()
        try:
            return max(1, sum(map(int, self._client.nthreads().values())))
        except (Exception, asyncio.CancelledError):
            # An OSError, or whatever a client raises that is being closed under the question.
            raise self.lost_error() from None

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """What becomes of each item, in the order of the items."""
        most = choose_outstanding(self.workers, outstanding)
        content = serialise_function(function, everywhere=True)
        # The same function again is the same data, which workers may still have.
        name = f"twinloop-function-{hashlib.sha256(content).hexdigest()}"
        with warnings.catch_warnings():
            # It goes to the scheduler once; that is what the advice is about.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            # A result that can be computed again, and so outlives any worker; data that is
            # scattered does not.
            handle = self._submit(SerialisedFunction, name, content, key=name)

        def submit(item: T) -> _Pending | _Refused:
            try:
                parcel = serialise(item, everywhere=True)
            except Exception as error:
                why = f"{format_failure(error, item)}, which cannot be sent to a worker"
                return _Refused(Outcome(None, why, 0.0))
            return _Pending(self, self._submit(evaluate_on_dask, handle, parcel, pure=False), item)

        return map_in_order(submit, items, most)

    def close(self) -> None:
        """Leave the scheduler; one that was started for this is ended with its workers."""
        with suppress(OSError):  # one that is gone, or too busy, hears no farewell
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        if self._main is not None:
            self._main.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_scheduler(self) -> None:
        """Raise LostScheduler if the scheduler is gone."""
        if self._client.status != "running":
            raise self.lost_error()

    def lost_error(self) -> SchedulerLostError:
        """What is raised when the scheduler is gone."""
        return SchedulerLostError(f"the Dask scheduler at {self._address} is gone")

    def _submit(self, *call: Any, **how: Any) -> Any:
        try:
            future = self._client.submit(*call, **how)
        except Exception:
            self.check_scheduler()
            raise
        # A client cancels what it waits for when it loses the scheduler, but not what is submitted
        # after that; for such a one nobody may wait.
        self.check_scheduler()
        return future


class _Pending:
    """What will become of an item on some worker."""

    def __init__(self, cluster: DaskCoordinator, future: Any, item: Any) -> None:
        self._cluster = cluster
        self._future = future
        self._item = item

    def result(self) -> Outcome:
        try:
            parcel = self._future.result()
        except (Exception, CancelledError, asyncio.CancelledError) as error:
            if self._future.status != "error":
                # It did not fail, and nobody has cancelled what is waited for: the scheduler does
                # not answer, whatever the client knows of that yet.
                raise self._cluster.lost_error() from None
            return Outcome(None, format_failure(error, self._item), 0.0)
        try:
            return pickle.loads(parcel)  # type: ignore[no-any-return]
        except Exception as error:
            why = f"{format_failure(error, self._item)}, whose value cannot be loaded here"
            return Outcome(None, why, 0.0)

    def cancel(self) -> None:
        with suppress(Exception):
            self._future.cancel()


class _Refused(NamedTuple):
    """An item that went nowhere."""

    outcome: Outcome

    def result(self) -> Outcome:
        return self.outcome

    def cancel(self) -> None:
        """It never began."""


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError(
            "Dask is not installed", field="on", remedy="pip install 'twinloop[dask]'"
        ) from None
    return distributed
