"""What all tests share: the examples of the documentation, Hypothesis profiles, real data."""

import os
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parent

# No deadline: a test checks a law, and a busy machine breaks none. The same examples every time:
# what is found by chance belongs to `make verify`, where somebody is looking.
settings.register_profile(
    "default", deadline=None, print_blob=True, derandomize=True, max_examples=25
)
settings.register_profile(
    "thorough",
    parent=settings.get_profile("default"),
    max_examples=1000,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("TWINLOOP_HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)

# The Python blocks of a page run from top to bottom in one namespace; those with `>>>` are
# doctests, the others just have to run.
pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["*.md"],
    path=str(ROOT),
).pytest()


REAL_DATA = Path(os.environ.get("TWINLOOP_DATA", ROOT.parent / "shared" / "data"))
NO_REAL_DATA = f"no collection of real logs at {REAL_DATA} (TWINLOOP_DATA names another place)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why a test was tried again, also when it then passed."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"tried again: {report.nodeid}")
        terminalreporter.line(report.longreprtext)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real logs, for tests marked `realdata`."""
    if not REAL_DATA.is_dir():
        pytest.skip(NO_REAL_DATA)
    return REAL_DATA


# Tests of real processes share the machine with whatever else runs on it. One that fails is tried
# once more, and the summary names it: what the program does wrong, it does again, or it is worth a
# look all the same. `make verify` forgives nothing.
REAL = ("browser", "calibrate", "campaign", "cli", "execute", "explore", "report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are tried twice, that are left to `make verify`, or that lack their data."""
    if PROFILE == "default" and config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if any(item.path.is_relative_to(ROOT / "tests" / name) for name in REAL):
                item.add_marker(pytest.mark.flaky(reruns=1))
    long = [] if PROFILE == "thorough" else [i for i in items if i.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    if REAL_DATA.is_dir():
        return
    for item in items:
        if item.get_closest_marker("realdata"):
            item.add_marker(pytest.mark.skip(reason=NO_REAL_DATA))
