"""Shared settings of tests of commands: a fixed terminal width, and SIGINT that is not ignored."""

import os
import signal
from pathlib import Path

import pytest

from twinloop.recordings import archive_path, extract_archive

# The width is read when the commands are first imported; the pages show output of this width. A
# dumb terminal would have a fixed width.
os.environ.update(COLUMNS="80", TERM="xterm")


@pytest.fixture(autouse=True, scope="session")
def reset_sigint() -> None:
    """Reset SIGINT, which shells ignore for background processes and children inherit."""
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
