"""The state of a study: how many of its planned runs have ended, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol


class _PlannedRun(Protocol):
    @property
    def key(self) -> str: ...


class StudyState:
    """Base class of studies: the state, from the planned runs and the results so far."""

    design: Any
    planned_runs: Sequence[_PlannedRun]
    #: The result of each run that has ended, by its key: with its `error`, or None.
    results: Mapping[str, Mapping[str, Any]]

    @property
    def factors(self) -> tuple[str, ...]:
        """The names of the factors."""
        return tuple(self.design.factors)

    @property
    def planned(self) -> int:
        """The number of runs of the design."""
        return len(self.planned_runs)

    @cached_property
    def done(self) -> int:
        """The number of runs that have ended, including failed ones."""
        return sum(run.key in self.results for run in self.planned_runs)

    @cached_property
    def failed(self) -> int:
        """The number of failed runs."""
        return len(self._ended_errors)

    @cached_property
    def errors(self) -> tuple[str, ...]:
        """The distinct errors of failed runs."""
        return tuple(dict.fromkeys(self._ended_errors))

    @cached_property
    def _ended_errors(self) -> list[str]:
        results = (self.results.get(run.key) for run in self.planned_runs)
        errors = (None if result is None else result["error"] for result in results)
        return [str(error) for error in errors if error is not None]

    def _list_cleaning(self) -> Iterator[tuple[int, str, int]]:
        """List the data cleaning of the runs: the index of the run, what was done, and the count.

        Identical runs are listed one by one, although they are simulated once.
        """
        for index, run in enumerate(self.planned_runs):
            for what, count in (self.results.get(run.key, {}).get("cleaned") or {}).items():
                yield index, what, count

    @property
    def complete(self) -> bool:
        """Whether all runs have ended."""
        return self.done == self.planned
