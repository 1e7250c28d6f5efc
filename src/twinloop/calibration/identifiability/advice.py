"""Advice on data that would make parameters identifiable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Any, Final


@dataclass(frozen=True)
class Hint:
    """Advice for parameters whose names match patterns: a single one, or two that compensate.

    Args:
        patterns: Patterns of names, with `*` for any text.
        advice: The advice.
        fact: The name of a fact about the data. If it is false, `because` is the reason why the
            parameter has no effect.
        because: The reason.

    >>> hint = Hint(("startup*", "service*"), "add runs with short tasks")
    >>> hint.matches(["service_factor", "startup_overhead"])
    True
    """

    patterns: tuple[str, ...]
    advice: str
    fact: str | None = None
    because: str = ""

    def matches(self, names: Sequence[str]) -> bool:
        """Whether each pattern matches a different one of these names."""
        return any(
            all(
                fnmatchcase(name, pattern)
                for name, pattern in zip(chosen, self.patterns, strict=True)
            )
            for chosen in permutations(names, len(self.patterns))
        )


_STARTUP, _SERVICE = "*startup_overhead", "*service_factor*"
_SPEED, _CONTENTION = "*speed_factor", "*contention*"

#: Advice for the values of a Model. A fact that the caller does not give is unknown.
HINTS: Final = (
    Hint((_STARTUP, _SERVICE), "add runs with short tasks"),
    Hint((_STARTUP, _SPEED), "add runs with short tasks"),
    Hint((_STARTUP, "*dispatch_latency"), "use a loss of the start times of tasks"),
    Hint((_SPEED, _SERVICE), "fix one of them: run times show only their ratio"),
    Hint((_SERVICE, _SERVICE), "add runs with one kind of task alone"),
    Hint(
        ("*dispatch_latency", "*release_latency"), "use a loss of the start and end times of tasks"
    ),
    Hint((_CONTENTION, _SERVICE), "add runs in which no tasks share a core"),
    Hint((_CONTENTION, _SPEED), "add runs in which no tasks share a core"),
    Hint(
        ("*contention.kinds.*.pressure", "*contention.kinds.*.sensitivity"),
        "add runs of one kind alone and of both mixed, or fix one pressure",
    ),
    Hint(("*power.idle", "*power.max"), "add runs with idle machines and with fully busy ones"),
    Hint(
        (_CONTENTION,),
        "add runs with more than one task per core",
        "shared_cores",
        "no two tasks ever shared a core",
    ),
    Hint(
        ("*dispatch_latency",),
        "use a loss of the start times of tasks",
        "queued",
        "no task ever had to wait for another",
    ),
    Hint(
        ("*effective_capacity",),
        "add runs with more tasks than cores",
        "queued",
        "there were never more tasks than cores",
    ),
    Hint(
        ("*power*",),
        "record the power or the energy of the runs",
        "measured_power",
        "no power was measured",
    ),
)


def explain_no_effect(name: str, hints: Iterable[Hint], facts: Mapping[str, Any]) -> str:
    """Explain by a fact why a parameter has no effect; an empty text if no fact does.

    >>> explain_no_effect("contention.linear.slope", HINTS, {"shared_cores": False})
    'no two tasks ever shared a core'
    """
    for hint in hints:
        known = facts.get(hint.fact) if hint.fact else None
        if known is False and len(hint.patterns) == 1 and hint.matches([name]):
            return hint.because
    return ""


def suggest_data(names: Sequence[str], hints: Iterable[Hint]) -> str:
    """Suggest data for one parameter or a group; an empty text if no hint matches.

    >>> suggest_data(["startup_overhead", "service_factor"], HINTS)
    'add runs with short tasks'
    """
    count = 1 if len(names) == 1 else 2
    advice = [hint.advice for hint in hints if len(hint.patterns) == count and hint.matches(names)]
    return "; ".join(dict.fromkeys(advice))


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
