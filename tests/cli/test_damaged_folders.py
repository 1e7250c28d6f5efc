"""Law: for any content of a folder of Twinloop, a command succeeds or reports an input error.

The hashes of a manifest show damage, but not invalid values: another program or a user can write a
folder with correct hashes and invalid values.
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

from tests.cli.damaged_folders import COMMANDS, KINDS, copy_folder, save_folder, spoil
from twinloop.cli import app

EXAMPLES = settings.default.max_examples if settings.default is not None else 25


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


def check_commands(kind: str, seed: int, place: Path) -> None:
    rng = random.Random(seed)
    folder = copy_folder(save_folder(kind, place), place / f"spoiled {kind}")
    change = spoil(folder, rng)
    command = rng.choice(COMMANDS[kind])
    out = place / f"out {rng.random()}"
    words = [word.format(folder=folder, out=out) for word in shlex.split(command)]
    with warnings.catch_warnings():
        # Arithmetic with infinity is not an error of a command.
        warnings.simplefilter("ignore", RuntimeWarning)
        result = CliRunner().invoke(app, words)
    raised = result.exception
    if raised is not None and not isinstance(raised, SystemExit):
        text = "".join(traceback.format_exception(raised))
        pytest.fail(f"{kind} {seed}: {change}: {command}\n{text}")
    # 1: a negative result, for example of `check`; 2: the input cannot be used.
    assert result.exit_code in (0, 1, 2), f"{kind} {seed}: {change}: {result.output}"


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=max(EXAMPLES // 6, 1), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_a_folder_with_invalid_values_is_read_or_refused(kind: str, seed: int, place: Path) -> None:
    check_commands(kind, seed, place)
