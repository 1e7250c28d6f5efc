"""The program that does real work of a known amount, and how fast it is on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from twinloop.description.errors import InputError
from twinloop.workload.generators.burn import PHASES, PROGRAM

#: The variable that tells the program how many units of each kind a core does in a second.
RATES_VARIABLE: Final = "TWINLOOP_BURN_RATES"

#: Kinds whose work is counted in units of one or more rates, and which.
_RATED: Final = {
    **{kind: (kind,) for kind in ("cpu", "memory", "stream", "cache")},
    "mixed": ("cpu", "memory"),
    "sleep": (),
    "io": (),
}

#: Longer than any machine takes to measure all rates (s).
_PATIENCE: Final = 120.0


def find_burn_program() -> Path:
    """Where `twinloop-burn` is: beside the Python that runs this, or on the PATH.

    >>> find_burn_program().name
    'twinloop-burn'
    """
    beside = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent))
    for folder in (*beside, None):
        found = shutil.which(PROGRAM, path=folder)
        if found is not None:
            return Path(found).absolute()
    raise InputError(
        f"the program {PROGRAM} is not here: it comes with Twinloop on Linux and macOS",
        remedy="install Twinloop again, with a C++ compiler where there is no wheel",
    )


def measure_rates(
    kinds: Iterable[str] = ("cpu", "memory", "stream", "cache"),
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, float]:
    """Units of work that a core does in a second of its time, measured now.

    Of each kind the best of many short runs is taken, by CPU time: others who use the machine
    meanwhile do not make it seem slower, unless they take its caches all the time. `say` is told
    of a kind where no second run confirms the best one. A kind that consists of others gives
    theirs; one that only waits has no rate.

    >>> sorted(measure_rates(["mixed", "sleep"]))
    ['cpu', 'memory']
    """
    wanted = sorted({part for kind in kinds for part in _RATED[_known(kind)]})
    if not wanted:
        return {}
    try:
        done = subprocess.run(
            [find_burn_program(), "--calibrate", *wanted],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except subprocess.SubprocessError as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        problem = f"the rates of {', '.join(wanted)} cannot be measured: {said.strip()}"
        raise InputError(problem) from None
    for line in done.stderr.splitlines():
        say(line)
    return {kind: float(rate) for kind, rate in json.loads(done.stdout).items()}


def make_rate_environment(
    commands: Iterable[Sequence[str]], say: Callable[[str], None] = lambda text: None
) -> dict[str, str]:
    """The variable that these commands need so that each does not have to measure its own rate.

    Empty where none of them runs `twinloop-burn` for a number of seconds. A rate that stands in
    the variable already is kept; the others are measured now, and `say` is told before, and of
    doubts about them.

    >>> make_rate_environment([["sleep", "1"], ["twinloop-burn", "cpu", "--work", "1000"]])
    {}
    >>> list(make_rate_environment([["twinloop-burn", "cpu", "--seconds", "2"]]))
    ['TWINLOOP_BURN_RATES']
    """
    needed = {part for command in commands for part in _needed(command)}
    if not needed:
        return {}
    said = os.environ.get(RATES_VARIABLE, "")
    known = {pair.partition("=")[0] for pair in said.split(",")}
    if needed - known:
        say(f"first: {PROGRAM} --calibrate {' '.join(sorted(needed - known))}")
    measured = measure_rates(needed - known, say)
    pairs = [f"{kind}={rate!r}" for kind, rate in measured.items()]
    return {RATES_VARIABLE: ",".join([*([said] if said else []), *pairs])}


def _needed(command: Sequence[str]) -> tuple[str, ...]:
    """The kinds whose rates a command needs."""
    first, *words = command
    if Path(first).name == "twinloop" and words[:1] == ["burn"]:
        words = words[1:]
    elif Path(first).name != PROGRAM:
        return ()
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    if "--seconds" not in options or "--rates" in options:
        return ()
    found = [word for word in words if word in PHASES]
    # A kind that is to be put in later can be any.
    return _RATED[found[0]] if found else tuple(_RATED["mixed"]) + ("stream", "cache")


def _known(kind: str) -> str:
    if kind not in _RATED:
        raise InputError(
            f"there is no kind {kind!r} of work", remedy=f"one of: {', '.join(_RATED)}"
        )
    return kind
