"""Notes in the manifest of a run: why tasks did not complete, and other incidents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from signal import Signals
from typing import Final

import polars as pl

from twinloop.description import Cleaning
from twinloop.execution.run_journal import JournalEntries
from twinloop.trace import Trace
from twinloop.workload.cleaning_notes import note

#: Causes in the journal for which a task did not complete.
OUT_OF_MEMORY: Final = "it used more memory than its node has"
TOO_LONG: Final = "it exceeded its time limit"
PARENT_FAILED: Final = "a task that it waits for did not complete"
NOTHING_LEFT: Final = "it could no longer start"
INTERRUPTED: Final = "the run was interrupted"

#: The same causes in the manifest, for several tasks.
_CAUSES: Final = {
    OUT_OF_MEMORY: "tasks that were killed because their node had too little memory",
    TOO_LONG: "tasks that exceeded their time limit",
    PARENT_FAILED: "tasks whose parent did not complete",
    NOTHING_LEFT: "tasks that could no longer start",
}


def note_failures(
    plan: Trace, found: dict[str, JournalEntries], tasks: pl.DataFrame
) -> tuple[Cleaning, ...]:
    """Make the notes of a run: tasks that did not complete and why, nodes that died."""
    ids = plan.tasks["id"]
    never = {e["task"]: e["why"] for e in found["failed"] if e.get("final")}
    reasons = defaultdict(list)
    for task, why in never.items():
        reasons[why].append(ids[task])
    left = [ids[e["task"]] for e in found["end"] if e["left"]]
    lost = tasks["id"].filter(tasks["status"] == "lost")
    cancelled = tasks["id"].filter(tasks["status"] == "cancelled")
    rejected = set(tasks["id"].filter(tasks["status"] == "rejected"))
    absent = set(ids) - {ids[e["task"]] for e in found["submit"]} - rejected
    counted = [
        *(
            note("noticed", f"tasks that could not be started: {why}", pl.Series(names))
            for why, names in reasons.items()
        ),
        note(
            "noticed",
            "nodes that died without a failure in the scenario",
            plan.nodes["node"].gather([e["machine"] for e in found["close"] if e["why"]]),
        ),
        *_causes(found, tasks, never),
        note(
            "noticed",
            "tasks that left processes behind when they ended: these were ended too",
            pl.Series(left, dtype=pl.String),
        ),
        note("noticed", "tasks that were running when the record ended or their node died", lost),
        note("noticed", "tasks that had not started when the run ended", cancelled),
        note(
            "assumed",
            "submission times of tasks that were never submitted: the planned ones",
            ids.filter(ids.is_in(list(absent))),
        ),
        *(
            note("noticed", e["text"], count=e.get("count", 1))
            for e in found["note"]
        ),
    ]  # fmt: skip
    return tuple(each for each in counted if each.count)


def _causes(
    found: dict[str, JournalEntries], tasks: pl.DataFrame, never: Container[int]
) -> Iterator[Cleaning]:
    """Yield a note for each cause for which tasks that were submitted did not complete."""
    killed = {e["task"] for e in found["kill"]}
    causes = defaultdict(list)
    for task, over in sorted({e["task"]: e for e in found["over"]}.items()):
        status, why, code = over["status"], over["why"], tasks["exit_code"][task]
        if task in never or status in ("cancelled", "lost"):
            continue  # these have notes of their own
        if why is not None:
            cause = _CAUSES.get(why, f"tasks that did not complete: {why}")
        elif status == "completed":
            continue
        elif task in killed:
            cause = "tasks that the policy killed"
        elif code < 0:
            cause = f"tasks that were ended by signal {_signal(-code)}"
        else:
            cause = f"tasks that ended with exit code {code}"
        causes[cause].append(tasks["id"][task])
    for cause, names in causes.items():
        yield note("noticed", cause, pl.Series(names))


def _signal(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:  # a real-time signal without a name
        return str(number)
