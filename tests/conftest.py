"""What all tests share that look at commands: a terminal of one width, and Ctrl-C that is heard."""

import os
import signal

import pytest

# The width is read when the commands are first imported: the pages show what fits into as many
# columns. A terminal that is dumb has a width of its own.
os.environ.update(COLUMNS="80", TERM="xterm")


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_is_heard() -> None:
    """A shell has what it runs in the background ignore SIGINT, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
