"""Evaluation on a Dask cluster: worker processes on this machine, or workers on many machines."""

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

#: Timeout of the connection to a scheduler, and of the wait for its first worker (s).
CONNECT_TIMEOUT: Final = 10.0
#: Schemes of addresses whose connections are encrypted and authenticated on both sides.
_TLS_SCHEMES: Final = ("tls://", "wss://")
_CERTIFICATE_REMEDY: Final = (
    "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and "
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY to PEM files"
)


class UnprotectedClusterWarning(TwinloopWarning):
    """The connection to a Dask cluster is neither encrypted nor authenticated."""


class SchedulerLostError(TwinloopError):
    """The connection to the Dask scheduler is lost, so that no more items can be evaluated.

    >>> print(SchedulerLostError("the connection to the Dask scheduler is lost"))
    the connection to the Dask scheduler is lost
    """


class DaskCoordinator:
    """Evaluates items on the workers of a Dask scheduler.

    An item whose worker dies is given to another worker; if more workers die than the scheduler
    allows (`distributed.scheduler.allowed-failures`), its outcome is an error.
    """

    def __init__(self, client: Any, cluster: Any = None) -> None:
        self._client = client
        self._cluster = cluster
        self._address = client.scheduler.address
        self._hidden_main: HiddenMain | None = None

    @classmethod
    def connect(cls, address: str) -> Self:
        """Connect to a running scheduler.

        The certificates for `tls://` are those of Dask's configuration. Raises an InputError if the
        scheduler cannot be reached, or has no workers.
        """
        distributed = _import_distributed()
        client_class = distributed.Client
        if not address.startswith(_TLS_SCHEMES):
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
                f"{address} needs certificates, but Dask's configuration has none",
                kind="scheduler-unavailable",
                field="on",
                remedy=_CERTIFICATE_REMEDY,
            )
        try:
            client = client_class(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {address}: {' '.join(str(error).split())}",
                kind="scheduler-unavailable",
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
                kind="scheduler-unavailable",
                field="on",
                remedy=f"start some with 'dask worker {address}'",
            ) from None
        return cls(client)

    @classmethod
    def start_local(cls, workers: int) -> Self:
        """Start a scheduler and worker processes on this machine.

        The workers do not run the user's script again.
        """
        main = HiddenMain()
        try:
            coordinator = cls._start_secure_cluster(workers)
        except BaseException:
            main.close()
            raise
        coordinator._hidden_main = main
        return coordinator

    @classmethod
    def _start_secure_cluster(cls, workers: int) -> Self:
        """Start a scheduler and workers that accept connections only from each other (TLS)."""
        distributed = _import_distributed()
        try:
            import cryptography  # noqa: F401  Dask makes the certificates with it
        except ImportError:
            raise InputError(
                "a Dask cluster on this machine needs the package cryptography, to keep other "
                "users out",
                kind="missing-program",
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
        """Number of calls that can run at the same time, on all current workers."""
        self.check_scheduler()
        try:
            return max(1, sum(map(int, self._client.nthreads().values())))
        except (Exception, asyncio.CancelledError):
            # A client that is closed during the call raises exceptions other than OSError.
            raise self.make_lost_error() from None

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """Yield the outcome of each item, in the order of the items."""
        limit = choose_outstanding(self.workers, outstanding)
        content = serialise_function(function, include_user_modules=True)
        # The key is a hash of the content, so that Dask reuses an equal function that workers have.
        name = f"twinloop-function-{hashlib.sha256(content).hexdigest()}"
        with warnings.catch_warnings():
            # Dask warns about large arguments of every call; this call is made once.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            # Submitted as a call and not scattered: Dask computes a lost result again, but cannot
            # restore scattered data.
            handle = self._submit(SerialisedFunction, name, content, key=name)

        def submit(item: T) -> _SubmittedItem | _UnsendableItem:
            try:
                data = serialise(item, include_user_modules=True)
            except Exception as error:
                why = f"{format_failure(error, item)}, which cannot be sent to a worker"
                return _UnsendableItem(Outcome(None, why, 0.0))
            future = self._submit(evaluate_on_dask, handle, data, pure=False)
            return _SubmittedItem(self, future, item)

        return map_in_order(submit, items, limit)

    def close(self) -> None:
        """Disconnect from the scheduler; end it and its workers if they were started here."""
        with suppress(OSError):  # the scheduler has ended, or is too busy to answer
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        if self._hidden_main is not None:
            self._hidden_main.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_scheduler(self) -> None:
        """Raise SchedulerLostError if the connection to the scheduler is lost."""
        if self._client.status != "running":
            raise self.make_lost_error()

    def make_lost_error(self) -> SchedulerLostError:
        """Make the exception to raise when the connection to the scheduler is lost."""
        return SchedulerLostError(
            f"the connection to the Dask scheduler at {self._address} is lost"
        )

    def _submit(self, *args: Any, **options: Any) -> Any:
        try:
            future = self._client.submit(*args, **options)
        except Exception:
            self.check_scheduler()
            raise
        # When a client loses its scheduler, it cancels its pending futures, but not futures that
        # are submitted later; a wait for these would never end.
        self.check_scheduler()
        return future


class _SubmittedItem:
    """The outcome of an item that was sent to the scheduler."""

    def __init__(self, coordinator: DaskCoordinator, future: Any, item: Any) -> None:
        self._coordinator = coordinator
        self._future = future
        self._item = item

    def result(self) -> Outcome:
        try:
            content = self._future.result()
        except (Exception, CancelledError, asyncio.CancelledError) as error:
            if self._future.status != "error":
                # The call did not fail and was not cancelled here, so the connection is lost, even
                # if the status of the client is still "running".
                raise self._coordinator.make_lost_error() from None
            return Outcome(None, format_failure(error, self._item), 0.0)
        try:
            return pickle.loads(content)  # type: ignore[no-any-return]
        except Exception as error:
            why = f"{format_failure(error, self._item)}, whose value cannot be loaded here"
            return Outcome(None, why, 0.0)

    def cancel(self) -> None:
        with suppress(Exception):
            self._future.cancel()


class _UnsendableItem(NamedTuple):
    """The outcome of an item that cannot be sent to a worker."""

    outcome: Outcome

    def result(self) -> Outcome:
        return self.outcome

    def cancel(self) -> None:
        """Do nothing: the evaluation never began."""


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError(
            "Dask is not installed",
            kind="missing-program",
            field="on",
            remedy="pip install 'twinloop[dask]'",
        ) from None
    return distributed
