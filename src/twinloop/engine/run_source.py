"""The state of a source written in Python in one run, and the checks of its answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.run_state import (
    copy_run_state,
    restore_run_state,
    save_run_state,
)
from twinloop.engine.foreign_errors import make_foreign_error
from twinloop.engine.native_codes import STATUSES
from twinloop.engine.new_rows import NewRow, make_row
from twinloop.workload import FinishedTask, NewTask, Source, WorkloadView

if TYPE_CHECKING:
    from twinloop.engine.compiled_scenario import CompiledScenario

#: Distinguishes the random numbers of a source from those of a policy with the same seed.
_STREAM: Final = 1


class RunSource:
    """A source in one run: the native core calls `next`, and gets checked rows.

    Args:
        compiled: The compiled scenario.
        source: The description of the source, whose state is started.
    """

    def __init__(self, compiled: CompiledScenario, source: Source) -> None:
        self._compiled = compiled
        self._name = source.name
        view = WorkloadView(
            compiled.workload, compiled.arrays.submit, np.asarray(compiled.rejected, dtype=bool)
        )
        rng = np.random.default_rng([compiled.scenario.seed, _STREAM])
        try:
            self._state = source.start(view, rng)
        except Exception as error:
            raise self._make_error(error, 0.0) from error
        if not callable(getattr(self._state, "next", None)):
            raise self._make_error("`start` must return an object with `next(now, finished)`", 0.0)
        #: The rows and the IDs of new tasks that were submitted.
        self._submitted: set[int | str] = set()
        #: The rows and the IDs of new tasks of the last answer.
        self._answer: set[int | str] = set()

    def next(
        self, now: float, ended: Sequence[tuple[int | str, float, int]]
    ) -> tuple[float, list[int | NewRow]] | None:
        """Report the ended tasks (row or ID, time, status code) and return the next submission."""
        if not ended:  # the last answer has been submitted
            self._submitted |= self._answer
        self._answer = set()
        ids = self._compiled.task_ids
        finished = [
            FinishedTask(ids[task] if isinstance(task, int) else task, end, STATUSES[code] or "")
            for task, end, code in ended
        ]
        try:
            answer = self._state.next(now, finished)
            return None if answer is None else self._check(answer, now)
        except InputError as error:
            raise self._make_error(str(error), now) from error
        except TwinloopError:
            raise
        except Exception as error:
            raise self._make_error(error, now) from error

    def copy(self) -> RunSource:
        """Return a copy, with a copy of the state of the source."""
        other = object.__new__(RunSource)
        other.__dict__ |= self.__dict__
        other._state = copy_run_state(self._state, f"the source {self._name}")
        other._submitted = set(self._submitted)
        return other

    def save(self) -> dict[str, Any]:
        """Return what the source needs to go on in another run, as values of JSON."""
        return {
            "state": save_run_state(self._state, f"the source {self._name}"),
            "submitted": self._get_names(self._submitted),
            "answer": self._get_names(self._answer),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what `save` returned."""
        restore_run_state(self._state, saved["state"], f"the source {self._name}")
        rows = self._compiled.task_rows
        self._submitted = {rows.get(name, name) for name in saved["submitted"]}
        self._answer = {rows.get(name, name) for name in saved["answer"]}

    def _get_names(self, tasks: set[int | str]) -> list[str]:
        ids = self._compiled.task_ids
        return sorted(ids[task] if isinstance(task, int) else task for task in tasks)

    def _check(self, answer: Any, now: float) -> tuple[float, list[int | NewRow]]:
        try:
            given, tasks = answer
            time = float(given)
        except (TypeError, ValueError):
            raise self._make_error(
                f"`next` must return (time, tasks) or None, not {answer!r}", now
            ) from None
        if not math.isfinite(time):
            raise self._make_error(f"the time of an answer must be finite, not {time}", now)
        if isinstance(tasks, str | NewTask) or not hasattr(tasks, "__iter__"):
            raise self._make_error(f"the tasks of an answer must be a list, not {tasks!r}", now)
        rows: list[int | NewRow] = []
        checked: set[int | str] = set()
        answer_tasks = list(tasks)
        later = {task.id for task in answer_tasks if isinstance(task, NewTask)}
        for task in answer_tasks:
            row = self._find_row(task, max(time, now))
            if isinstance(row, NewRow):
                later.discard(row.id)
                self._check_parents(row, later, now)
            key = row if isinstance(row, int) else row.id
            if key in checked or key in self._submitted:
                name = self._compiled.task_ids[key] if isinstance(key, int) else key
                raise self._make_error(f"the task {name!r} is submitted twice", now)
            checked.add(key)
            rows.append(row)
        self._answer = checked
        return time, rows

    def _check_parents(self, row: NewRow, later: set[str], now: float) -> None:
        """Refuse parents that come later: with them, tasks could depend on each other."""
        for parent in row.parents:
            if parent in later:
                raise self._make_error(
                    f"the task {row.id!r} depends on {parent!r}, which is submitted after it: "
                    "parents come first, so that no task depends on itself",
                    now,
                )

    def _find_row(self, task: Any, time: float) -> int | NewRow:
        compiled = self._compiled
        if isinstance(task, NewTask):
            if task.id in compiled.task_rows:
                raise InputError(
                    "is the ID of a task of the workload",
                    kind="duplicate-name",
                    field=f"task {task.id!r}",
                )
            return make_row(compiled, task, time)
        if isinstance(task, str):
            if task not in compiled.task_rows:
                raise InputError(f"the workload has no task {task!r}", kind="unknown-reference")
            return compiled.task_rows[task]
        try:
            row = index(task)
        except TypeError:
            raise InputError(
                f"a task must be an index, an ID or a NewTask, not {task!r}", kind="wrong-type"
            ) from None
        if not 0 <= row < len(compiled.task_ids):
            raise InputError(f"the workload has no task {row}", kind="unknown-reference")
        return row

    def _make_error(self, error: Exception | str, now: float) -> TwinloopError:
        return make_foreign_error(f"the source {self._name}", now, error)
