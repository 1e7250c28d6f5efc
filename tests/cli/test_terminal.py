"""Law: whether stderr is a terminal is decided as by rich, without importing it for a pipe."""

import io
import sys

import pytest
from rich.console import Console

from twinloop.cli.output import is_terminal


class TerminalStream(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, TerminalStream])
@pytest.mark.parametrize("force_color", [None, "", "1"])
@pytest.mark.parametrize("tty_compatible", [None, "0", "1", "x"])
def test_a_terminal_is_found_as_by_rich(
    monkeypatch: pytest.MonkeyPatch,
    stream: type[io.StringIO],
    force_color: str | None,
    tty_compatible: str | None,
) -> None:
    values = {"FORCE_COLOR": force_color, "TTY_COMPATIBLE": tty_compatible}
    for name, value in values.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", stream())
    assert is_terminal() is Console(stderr=True).is_terminal
