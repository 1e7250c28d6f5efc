"""A Dask cluster on this machine that only the process that starts it can use."""

from __future__ import annotations

import logging
import tempfile
from typing import Any, Final

from distributed import Nanny, SpecCluster
from distributed import Scheduler as DaskScheduler
from distributed import Worker as DaskWorker
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

LOOPBACK: Final = "127.0.0.1"


class SchedulerWithoutHttp(DaskScheduler):
    """A scheduler without an HTTP server.

    Dask starts an HTTP server in every scheduler and worker, with or without a dashboard, and does
    not authenticate its users: every user of the machine could read from it which tasks run.
    """

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class WorkerWithoutHttp(DaskWorker):
    """A worker without an HTTP server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class SecureLocalCluster(SpecCluster):
    """A scheduler in this process and worker processes of one thread each.

    A scheduler runs any code that it receives, and every user of a machine can connect to its
    loopback interface. So every connection uses TLS with certificates on both sides, made for this
    cluster. The key is held in the memory of these processes; while it is loaded, it is in a file
    in a folder that only this user can enter. The files of the workers, such as values that Dask
    moves from memory to the disk, are in such a folder too.
    """

    def __init__(self, workers: int) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="twinloop-dask-")
        security = Security.temporary()
        shared = {
            "host": LOOPBACK,
            "protocol": "tls://",
            "security": security,
            "local_directory": self._scratch.name,
            "dashboard": False,
        }
        worker = {
            "cls": Nanny,
            "options": {
                **shared,
                "worker_class": WorkerWithoutHttp,
                "nthreads": 1,
                "memory_limit": MEMORY_LIMIT // workers,
                "silence_logs": logging.WARNING,
            },
        }
        try:
            super().__init__(
                workers=dict.fromkeys(range(workers), worker),
                scheduler={"cls": SchedulerWithoutHttp, "options": {**shared, "port": 0}},
                worker=worker,
                security=security,
                silence_logs=logging.WARNING,
            )
        except BaseException:
            self._scratch.cleanup()
            raise

    def close(self, timeout: float | None = None) -> Any:
        """End the workers and the scheduler, and remove their files."""
        closing = super().close(timeout)
        self._scratch.cleanup()
        return closing
