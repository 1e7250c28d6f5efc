"""What a worker process does: it is given a function, then item after item, and answers each.

It reads its orders from what was its stdin and answers on what was its stdout. Whatever is printed
in it goes to stderr. It ends when nobody is left to answer, and when it is asked to (SIGTERM); the
function then sees an exception that is none of its own, so that it can clean up.
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
    """The worker is asked to end; not an Exception, so that no function takes it for a failure."""


def main() -> None:
    """Work until there is nobody to work for."""
    orders, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Ctrl-C at a terminal reaches all processes there: the first one says what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    inbox: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders, inbox), daemon=True).start()
    try:
        _work(inbox, answers)
    except (StopRequest, BrokenPipeError):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _stop(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what cleans up is not disturbed
    raise StopRequest


def _listen(orders: int, inbox: queue.SimpleQueue[tuple[str, bytes]]) -> None:
    """Read ahead of the work, to learn at once when the other side is gone."""
    try:
        while True:
            inbox.put(receive(orders))
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)


def _work(inbox: queue.SimpleQueue[tuple[str, bytes]], answers: int) -> None:
    function: Callable[[Any], Any] = _nothing
    while True:
        kind, content = inbox.get()
        if kind == "f":
            function = _loaded(content)
        else:
            send(answers, "o", serialise_outcome(evaluate_bytes(function, content)))


def evaluate_bytes(function: Callable[[Any], Any], parcel: bytes) -> Outcome:
    """What becomes of an item that came as bytes.

    >>> evaluate_bytes(abs, pickle.dumps(-3)).value
    3
    """
    try:
        item = pickle.loads(parcel)
    except Exception as error:
        why = f"{format_failure(error, 'an item')}, which the worker cannot load{_advice(error)}"
        return Outcome(None, why, 0.0)
    return evaluate(function, item)


def serialise_outcome(outcome: Outcome) -> bytes:
    """An outcome as bytes; that its value cannot be sent is an outcome too.

    >>> pickle.loads(serialise_outcome(Outcome((value for value in "ab"), None, 0.5))).error
    "TypeError: cannot pickle 'generator' object, for a value of the kind generator, ..."
    """
    try:
        return pickle.dumps(outcome, 5)
    except Exception:
        try:  # what was defined where the function was is known to nobody by its name
            return serialise(outcome)
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            kind = type(outcome.value).__name__
            why = f"{said}, for a value of the kind {kind}, which cannot be sent back"
            return pickle.dumps(Outcome(None, why, outcome.seconds), 5)


class SerialisedFunction(NamedTuple):
    """A function on its way to Dask workers, each of which loads it once.

    >>> SerialisedFunction("double", serialise(lambda x: 2 * x)).name
    'double'
    """

    name: str
    content: bytes


#: The functions that this process has loaded as a Dask worker, the latest last.
_functions: dict[str, Callable[[Any], Any]] = {}
#: How many of them it keeps.
_KEPT: Final = 4


def evaluate_on_dask(shipped: SerialisedFunction, parcel: bytes) -> bytes:
    """What a Dask worker does for an item.

    >>> double = SerialisedFunction("double", serialise(lambda x: 2 * x))
    >>> pickle.loads(evaluate_on_dask(double, serialise(4))).value
    8
    """
    function = _functions.get(shipped.name)
    if function is None:
        function = _functions[shipped.name] = _loaded(shipped.content)
        for name in list(_functions)[:-_KEPT]:
            _functions.pop(name, None)  # another thread may have done it
    return serialise_outcome(evaluate_bytes(function, parcel))


def _loaded(content: bytes) -> Callable[[Any], Any]:
    """The function that was sent; if it cannot be had here, every item is told so."""
    try:
        return pickle.loads(content)  # type: ignore[no-any-return]
    except Exception as error:
        why = f"{type(error).__name__}: {error}{_advice(error)}"

    def missing(item: object) -> None:
        raise ImportError(f"the function cannot be loaded in a worker: {why}")

    return missing


def _advice(error: Exception) -> str:
    """What to do about something that cannot be loaded here."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return (
        f" (install '{error.name}' where the workers run, or keep what cannot be sent, such as "
        "locks and open files, out of the globals of that module)"
    )


def _nothing(item: object) -> None:
    raise RuntimeError("no function was sent")


#: What Python is told to run; the path of modules is that of the process that starts the worker.
PROGRAM = f"""\
import sys
sys.path[:] = {{path!r}}
from {__name__} import main
main()
"""

if __name__ == "__main__":
    sys.exit("a worker is started by a coordinator")
