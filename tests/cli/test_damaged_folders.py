"""Law: whatever a folder of ours holds, a command succeeds or says what is wrong with its input.

The hashes of a manifest show damage, not nonsense: another program, or a hand, can write a folder
whose hashes fit and whose values do not.
"""

import random
import shlex
import traceback
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.cli.damaged_folders import COMMANDS, KINDS, copied, saved, spoil
from twinloop.cli import app

EXAMPLES = settings.default.max_examples if settings.default is not None else 25


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


def look(kind: str, seed: int, place: Path) -> None:
    rng = random.Random(seed)
    folder = copied(saved(kind, place), place / f"spoiled {kind}")
    said = spoil(folder, rng)
    command = rng.choice(COMMANDS[kind])
    out = place / f"out {rng.random()}"
    words = [word.format(folder=folder, out=out) for word in shlex.split(command)]
    with warnings.catch_warnings():
        # To calculate with infinity is no error of a command.
        warnings.simplefilter("ignore", RuntimeWarning)
        result = CliRunner().invoke(app, words)
    raised = result.exception
    if raised is not None and not isinstance(raised, SystemExit):
        text = "".join(traceback.format_exception(raised))
        pytest.fail(f"{kind} {seed}: {said}: {command}\n{text}")
    # 1: the answer is no (of `check`, say); 2: the input cannot be used.
    assert result.exit_code in (0, 1, 2), f"{kind} {seed}: {said}: {result.output}"


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=max(EXAMPLES // 6, 1), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_a_folder_of_nonsense_is_read_or_refused(kind: str, seed: int, place: Path) -> None:
    look(kind, seed, place)
