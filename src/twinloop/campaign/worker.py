"""The worker process: it receives a function, then items, and returns an outcome for each.

It reads requests from its original stdin and writes replies to its original stdout; output of the
function goes to stderr. It ends when the other end of a pipe is closed, and on SIGTERM. An
exception is then raised in the function, so that it can clean up.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from twinloop.campaign.messages import receive, send
from twinloop.campaign.outcome import Outcome, evaluate, format_failure
from twinloop.campaign.serialisation import serialise


class StopRequest(BaseException):
    """The worker must end; not an Exception, so that a function does not handle it as a failure."""


def main() -> None:
    """Evaluate items until the requests end."""
    requests, replies = os.dup(0), os.dup(1)
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, 0)
    os.close(null_device)
    os.dup2(2, 1)
    # Ctrl-C at a terminal is sent to all its processes; the parent process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _raise_stop)
    inbox: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, inbox), daemon=True).start()
    try:
        _answer_requests(inbox, replies)
    except (StopRequest, BrokenPipeError):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _raise_stop(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would interrupt the cleanup
    raise StopRequest


def _listen(requests: int, inbox: queue.SimpleQueue[tuple[str, bytes]]) -> None:
    """Read requests while items are evaluated, to end at once when the pipe is closed."""
    try:
        while True:
            inbox.put(receive(requests))
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)


def _answer_requests(inbox: queue.SimpleQueue[tuple[str, bytes]], replies: int) -> None:
    function: Callable[[Any], Any] = _fail_without_function
    while True:
        kind, content = inbox.get()
        if kind == "f":
            function = _load_function(content)
        else:
            send(replies, "o", serialise_outcome(evaluate_bytes(function, content)))


def evaluate_bytes(function: Callable[[Any], Any], content: bytes) -> Outcome:
    """Evaluate a function for an item that is given as bytes.

    >>> evaluate_bytes(abs, pickle.dumps(-3)).value
    3
    """
    try:
        item = pickle.loads(content)
    except Exception as error:
        failure = f"{format_failure(error, 'an item')}, which the worker cannot load"
        why = f"{failure}{_suggest_remedy(error)}"
        return Outcome(None, why, 0.0)
    return evaluate(function, item)


def serialise_outcome(outcome: Outcome) -> bytes:
    """Serialise an outcome; one whose value cannot be serialised becomes an error.

    >>> pickle.loads(serialise_outcome(Outcome((value for value in "ab"), None, 0.5))).error
    "TypeError: cannot pickle 'generator' object, for a value of the kind generator, ..."
    """
    try:
        return pickle.dumps(outcome, 5)
    except Exception:
        try:  # a class that was sent with the function cannot be serialised by name
            return serialise(outcome)
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            kind = type(outcome.value).__name__
            why = f"{text}, for a value of the kind {kind}, which cannot be sent back"
            return pickle.dumps(Outcome(None, why, outcome.seconds), 5)


class SerialisedFunction(NamedTuple):
    """A serialised function for Dask workers, each of which loads it once.

    >>> SerialisedFunction("double", serialise(lambda x: 2 * x)).name
    'double'
    """

    name: str
    content: bytes


#: Functions that this Dask worker has loaded, by name; the latest is last.
_functions: dict[str, Callable[[Any], Any]] = {}
#: Number of loaded functions that are kept.
_CACHE_SIZE: Final = 4


def evaluate_on_dask(sent: SerialisedFunction, item: bytes) -> bytes:
    """Evaluate a serialised item on a Dask worker; returns the serialised outcome.

    >>> double = SerialisedFunction("double", serialise(lambda x: 2 * x))
    >>> pickle.loads(evaluate_on_dask(double, serialise(4))).value
    8
    """
    function = _functions.get(sent.name)
    if function is None:
        function = _functions[sent.name] = _load_function(sent.content)
        for name in list(_functions)[:-_CACHE_SIZE]:
            _functions.pop(name, None)  # another thread may have removed it
    return serialise_outcome(evaluate_bytes(function, item))


def _load_function(content: bytes) -> Callable[[Any], Any]:
    """Load a function; if that fails, return a function that raises the cause for every item."""
    try:
        return pickle.loads(content)  # type: ignore[no-any-return]
    except Exception as error:
        why = f"{type(error).__name__}: {error}{_suggest_remedy(error)}"

    def fail(item: object) -> None:
        raise ImportError(f"the function cannot be loaded in a worker: {why}")

    return fail


def _suggest_remedy(error: Exception) -> str:
    """Return the remedy for an object that cannot be loaded here."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return (
        f" (install '{error.name}' where the workers run, or keep what cannot be sent, such as "
        "locks and open files, out of the globals of that module)"
    )


def _fail_without_function(item: object) -> None:
    raise RuntimeError("no function was sent")


#: Program of a worker, with the module path of the process that starts it.
PROGRAM = f"""\
import sys
sys.path[:] = {{path!r}}
from {__name__} import main
main()
"""

if __name__ == "__main__":
    sys.exit("a worker is started by a coordinator")
