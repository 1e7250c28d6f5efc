"""Shared configuration of all tests: documentation examples, Hypothesis profiles, real data."""

import gc
import os
from collections.abc import Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

from tests.process_starts import STARTS, find_problem

ROOT = Path(__file__).resolve().parent

# No deadline: a slow machine is no failure. Every local run has new examples (Hypothesis prints how
# to reproduce a failure, and keeps it in .hypothesis for the next run). CI has fixed examples, so
# that a change does not fail because of an older defect.
IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
settings.register_profile(
    "default", deadline=None, print_blob=True, derandomize=IN_CI, max_examples=25
)
settings.register_profile(
    "thorough",
    parent=settings.get_profile("default"),
    max_examples=500,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("TWINLOOP_HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)

# The Python blocks of a page run from top to bottom in one namespace; blocks with `>>>` are
# doctests, the others must run without an error.
pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["*.md"],
    path=str(ROOT),
).pytest()


REAL_DATA = Path(os.environ.get("TWINLOOP_DATA", ROOT.parent / "shared" / "data"))
NO_REAL_DATA = f"no collection of real logs at {REAL_DATA} (TWINLOOP_DATA sets another folder)"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real logs, for tests marked `realdata`."""
    if not REAL_DATA.is_dir():
        pytest.skip(NO_REAL_DATA)
    return REAL_DATA


# Pages and modules whose examples use real processes. The examples of a page share a namespace, so
# the whole page is marked.
REAL_EXAMPLES = [
    *(f"docs/{page}.md" for page in ("black-boxes", "both-worlds", "burn", "confirm", "recording")),
    "docs/cost-tutorial.md",  # a study of several seconds uses processes
    "docs/sources.md",
    "src/twinloop/campaign",
    "src/twinloop/execution",
    "src/twinloop/exploration/confirmation/run.py",
]


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark `real` examples, deselect `long` tests, and skip tests without their data."""
    places = [ROOT / place for place in REAL_EXAMPLES]
    real = {path for path in {i.path for i in items} if any(map(path.is_relative_to, places))}
    for item in items:
        if item.path in real:
            item.add_marker(pytest.mark.real)
    long = [] if PROFILE == "thorough" else [i for i in items if i.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    if REAL_DATA.is_dir():
        return
    for item in items:
        if item.get_closest_marker("realdata"):
            item.add_marker(pytest.mark.skip(reason=NO_REAL_DATA))


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which live to the end, from later garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Record uses of real processes from now on."""
    STARTS.watch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Clear the records of the test before."""
    STARTS.seen.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that used real processes without the marker `real`."""
    yield
    alone = item.path.is_relative_to(ROOT / "verify")  # these tests run one at a time
    problem = find_problem(STARTS.seen, {marker.name for marker in item.iter_markers()})
    if problem and not alone:
        pytest.fail(f"{item.nodeid} {problem}", pytrace=False)
