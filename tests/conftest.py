"""What all tests share that look at commands: a terminal of one width, and Ctrl-C that is heard."""

import os
import signal
from pathlib import Path

import pytest

from twinloop.recordings import archive_path, extract_archive

# The width is read when the commands are first imported: the pages show what fits into as many
# columns. A terminal that is dumb has a width of its own.
os.environ.update(COLUMNS="80", TERM="xterm")


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_is_heard() -> None:
    """A shell has what it runs in the background ignore SIGINT, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def demo_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded runs of the demo as a folder, extracted once per test process."""
    folder = tmp_path_factory.mktemp("recordings") / "demo"
    return extract_archive(archive_path("demo"), folder)


@pytest.fixture(scope="session")
def trust_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded runs of `examples/trust` as a folder, extracted once per test process."""
    folder = tmp_path_factory.mktemp("recordings") / "trust"
    return extract_archive(archive_path("trust"), folder)
