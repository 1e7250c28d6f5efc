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

#: Environment variable with the rates: the units of each kind of work that a core does per second.
RATES_VARIABLE: Final = "TWINLOOP_BURN_RATES"

#: The rates that each kind of work needs.
_RATES_BY_KIND: Final = {
    **{kind: (kind,) for kind in ("cpu", "memory", "stream", "cache")},
    "mixed": ("cpu", "memory"),
    "sleep": (),
    "io": (),
}

#: Timeout of the measurement (s), longer than any machine takes for all rates.
_MEASUREMENT_TIMEOUT: Final = 120.0


def find_burn_program() -> Path:
    """Find `twinloop-burn` beside the Python interpreter, or on the PATH.

    >>> find_burn_program().name
    'twinloop-burn'
    """
    script_folders = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent))
    for folder in (*script_folders, None):
        program = shutil.which(PROGRAM, path=folder)
        if program is not None:
            return Path(program).absolute()
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
    rated_kinds = sorted({part for kind in kinds for part in _RATES_BY_KIND[_check_kind(kind)]})
    if not rated_kinds:
        return {}
    try:
        result = subprocess.run(
            [find_burn_program(), "--calibrate", *rated_kinds],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MEASUREMENT_TIMEOUT,
            check=True,
        )
    except subprocess.SubprocessError as error:
        cause = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        problem = f"the rates of {', '.join(rated_kinds)} cannot be measured: {cause.strip()}"
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
    needed = {kind for command in commands for kind in _find_needed_rates(command)}
    if not needed:
        return {}
    given = os.environ.get(RATES_VARIABLE, "")
    given_kinds = {pair.partition("=")[0] for pair in given.split(",")}
    if needed - given_kinds:
        notify(f"first: {PROGRAM} --calibrate {' '.join(sorted(needed - given_kinds))}")
    measured = measure_rates(needed - given_kinds, notify)
    pairs = [f"{kind}={rate!r}" for kind, rate in measured.items()]
    return {RATES_VARIABLE: ",".join([*([given] if given else []), *pairs])}


def _find_needed_rates(command: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds whose rates a command needs."""
    first, *words = command
    if Path(first).name == "twinloop" and words[:1] == ["burn"]:
        words = words[1:]
    elif Path(first).name != PROGRAM:
        return ()
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    if "--seconds" not in options or "--rates" in options:
        return ()
    kinds = [word for word in words if word in PHASES]
    # If the kind is a template, it may become any kind.
    return (
        _RATES_BY_KIND[kinds[0]] if kinds else tuple(_RATES_BY_KIND["mixed"]) + ("stream", "cache")
    )


def _check_kind(kind: str) -> str:
    if kind not in _RATES_BY_KIND:
        raise InputError(
            f"there is no kind {kind!r} of work",
            kind="not-a-choice",
            remedy=f"one of: {', '.join(_RATES_BY_KIND)}",
        )
    return kind
