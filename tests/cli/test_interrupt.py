"""Ctrl-C at any time raises KeyboardInterrupt, also while Polars calls Python code."""

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest
import typer

from twinloop.cli.interrupt import DeferredInterrupt
from twinloop.cli.recording_options import print_resume_hint

#: The Rust code of Polars builds its types in Python, where an error would be a panic.
FRAME = pl.DataFrame({"a": [[1]], "b": [{"x": 1.0, "y": "z"}], "c": [[[0.5]]]})


@contextmanager
def handling(handler: Callable[[int, Any], Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def use_polars(interrupt: threading.Timer) -> NoReturn:
    interrupt.start()
    while True:
        FRAME.schema  # noqa: B018


def test_an_interrupt_at_any_time_is_a_keyboard_interrupt() -> None:
    draw, main = random.Random(1), threading.main_thread().ident
    assert main is not None
    for _ in range(100):
        timer = threading.Timer(
            draw.uniform(0.0, 0.003), signal.pthread_kill, (main, signal.SIGINT)
        )
        with handling(DeferredInterrupt()), pytest.raises(KeyboardInterrupt):
            use_polars(timer)
        timer.join()


def from_polars(function: Callable[[], object]) -> None:
    """Call a function from code with a file name of Polars."""
    exec(compile("function()", "/lib/polars/frame.py", "exec"), {"function": function})


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_polars_returns_first_and_its_caller_does_not_continue() -> None:
    done: list[str] = []

    def within() -> None:
        interrupt()
        done.append("within Polars")

    def call() -> None:
        from_polars(within) or time.sleep(60)  # type: ignore[func-returns-value]
        done.append("after it")

    before = sys.gettrace()
    with handling(DeferredInterrupt()), pytest.raises(KeyboardInterrupt):
        call()
    assert done == ["within Polars"]
    assert sys.gettrace() is before


def test_a_second_interrupt_is_not_deferred() -> None:
    done: list[str] = []

    def within() -> None:
        interrupt()
        interrupt()
        done.append("within Polars")

    with handling(DeferredInterrupt()), pytest.raises(KeyboardInterrupt):
        from_polars(within)
    assert done == []


def test_only_the_handler_of_python_is_replaced() -> None:
    handler = DeferredInterrupt()
    with handling(signal.SIG_IGN):  # type: ignore[arg-type]
        handler.install()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with handling(signal.default_int_handler):
        handler.install()
        assert signal.getsignal(signal.SIGINT) is handler


def test_the_hint_after_an_interrupt_names_the_folder_if_there_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for output, hint in ((tmp_path, f"the same command resumes from {tmp_path}"), (None, "saved")):
        with pytest.raises(typer.Exit), print_resume_hint(output):
            raise KeyboardInterrupt
        text = capsys.readouterr().err.replace("\n", "")
        assert text.startswith("interrupted: ")
        assert hint in text
        assert "None" not in text
