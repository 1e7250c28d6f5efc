"""The program `twinloop-burn`, which does a known amount of work, and its rates on this machine."""

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

#: Environment variable with the units of each kind of work that a core does in a second.
RATES_VARIABLE: Final = "TWINLOOP_BURN_RATES"

#: The rates that each kind of work is counted in.
_RATED: Final = {
    **{kind: (kind,) for kind in ("cpu", "memory", "stream", "cache")},
    "mixed": ("cpu", "memory"),
    "sleep": (),
    "io": (),
}

#: Longer than any machine takes to measure all rates (s).
_PATIENCE: Final = 120.0


def find_burn_program() -> Path:
    """Find `twinloop-burn` beside the Python interpreter, or on the PATH.

    >>> find_burn_program().name
    'twinloop-burn'
    """
    beside = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent))
    for folder in (*beside, None):
        found = shutil.which(PROGRAM, path=folder)
        if found is not None:
            return Path(found).absolute()
    raise InputError(
        f"the program {PROGRAM} is not installed: it comes with Twinloop on Linux and macOS",
        kind="missing-program",
        remedy="install Twinloop again, with a C++ compiler where there is no wheel",
    )


def measure_rates(
    kinds: Iterable[str] = ("cpu", "memory", "stream", "cache"),
    notify: Callable[[str], None] = lambda text: None,
) -> dict[str, float]:
    """Measure the units of work that a core does in a second of CPU time.

    The rate of a kind is the best of many short runs, by CPU time: other load on the machine does
    not reduce it, unless it occupies the caches all the time. `notify` is called for a kind whose
    best run is confirmed by no second run. A kind that consists of others has their rates; a kind
    that only waits has none.

    >>> sorted(measure_rates(["mixed", "sleep"]))
    ['cpu', 'memory']
    """
    wanted = sorted({part for kind in kinds for part in _RATED[_check_kind(kind)]})
    if not wanted:
        return {}
    try:
        result = subprocess.run(
            [find_burn_program(), "--calibrate", *wanted],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except subprocess.SubprocessError as error:
        cause = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        problem = f"the rates of {', '.join(wanted)} cannot be measured: {cause.strip()}"
        raise InputError(problem, kind="command-failed") from None
    for line in result.stderr.splitlines():
        notify(line)
    return {kind: float(rate) for kind, rate in json.loads(result.stdout).items()}


def make_rate_environment(
    commands: Iterable[Sequence[str]], notify: Callable[[str], None] = lambda text: None
) -> dict[str, str]:
    """Make the environment variable with the rates that these commands need.

    Without it, each command would measure its own rates. The result is empty if no command runs
    `twinloop-burn` for a number of seconds. Rates that the variable already has are kept; the
    others are measured, and `notify` is called before the measurement and for uncertain rates.

    >>> make_rate_environment([["sleep", "1"], ["twinloop-burn", "cpu", "--work", "1000"]])
    {}
    >>> list(make_rate_environment([["twinloop-burn", "cpu", "--seconds", "2"]]))
    ['TWINLOOP_BURN_RATES']
    """
    needed = {kind for command in commands for kind in _needed_rates(command)}
    if not needed:
        return {}
    before = os.environ.get(RATES_VARIABLE, "")
    known = {pair.partition("=")[0] for pair in before.split(",")}
    if needed - known:
        notify(f"first: {PROGRAM} --calibrate {' '.join(sorted(needed - known))}")
    measured = measure_rates(needed - known, notify)
    pairs = [f"{kind}={rate!r}" for kind, rate in measured.items()]
    return {RATES_VARIABLE: ",".join([*([before] if before else []), *pairs])}


def _needed_rates(command: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds whose rates a command needs."""
    first, *words = command
    if Path(first).name == "twinloop" and words[:1] == ["burn"]:
        words = words[1:]
    elif Path(first).name != PROGRAM:
        return ()
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    if "--seconds" not in options or "--rates" in options:
        return ()
    found = [word for word in words if word in PHASES]
    # A kind that is a template can be any.
    return _RATED[found[0]] if found else tuple(_RATED["mixed"]) + ("stream", "cache")


def _check_kind(kind: str) -> str:
    if kind not in _RATED:
        raise InputError(
            f"there is no kind {kind!r} of work",
            kind="not-a-choice",
            remedy=f"one of: {', '.join(_RATED)}",
        )
    return kind
