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

#: Causes in the journal why a task did not complete. Journals on disk contain these texts.
OUT_OF_MEMORY: Final = "it used more memory than its node has"
TOO_LONG: Final = "it exceeded its time limit"
PARENT_FAILED: Final = "a task that it waits for did not complete"
CANNOT_START: Final = "it could no longer start"
INTERRUPTED: Final = "the run was interrupted"
FITS_NOWHERE: Final = "it fits on no machine that it may use"
NOT_SUBMITTED: Final = "the source did not submit it"

#: The same causes in the manifest, for several tasks.
_CAUSES: Final = {
    OUT_OF_MEMORY: "tasks that were killed because their node had too little memory",
    TOO_LONG: "tasks that exceeded their time limit",
    PARENT_FAILED: "tasks whose parent did not complete",
    CANNOT_START: "tasks that could no longer start",
    FITS_NOWHERE: "tasks rejected: they fit on no machine that they may use",
}


def note_failures(
    plan: Trace, entries: dict[str, JournalEntries], tasks: pl.DataFrame
) -> tuple[Cleaning, ...]:
    """Make the notes of a run: tasks that did not complete, with the cause; failed nodes."""
    ids = plan.tasks["id"]
    causes_by_task = {e["task"]: e["why"] for e in entries["failed"] if e.get("final")}
    reasons = defaultdict(list)
    for task, why in causes_by_task.items():
        reasons[why].append(ids[task])
    with_leftovers = [ids[e["task"]] for e in entries["end"] if e["left"]]
    lost = tasks["id"].filter(tasks["status"] == "lost")
    cancelled = tasks["id"].filter(tasks["status"] == "cancelled")
    rejected = set(tasks["id"].filter(tasks["status"] == "rejected"))
    never_submitted = set(ids) - {ids[e["task"]] for e in entries["submit"]} - rejected
    notes = [
        *(
            note("noticed", f"tasks that could not be started: {why}", pl.Series(names))
            for why, names in reasons.items()
        ),
        note(
            "noticed",
            "nodes that failed without a failure in the scenario",
            plan.nodes["node"].gather([e["machine"] for e in entries["close"] if e["why"]]),
        ),
        *_note_causes(entries, tasks, causes_by_task),
        note(
            "noticed",
            "tasks that left processes behind when they ended: these were ended too",
            pl.Series(with_leftovers, dtype=pl.String),
        ),
        note("noticed", "tasks that were running when the record ended or their node failed", lost),
        note("noticed", "tasks that had not started when the run ended", cancelled),
        note(
            "assumed",
            "submission times of tasks that were never submitted: the planned ones",
            ids.filter(ids.is_in(list(never_submitted))),
        ),
        *(
            note("noticed", e["text"], count=e.get("count", 1))
            for e in entries["note"]
        ),
    ]  # fmt: skip
    return tuple(each for each in notes if each.count)


def _note_causes(
    entries: dict[str, JournalEntries], tasks: pl.DataFrame, not_started: Container[int]
) -> Iterator[Cleaning]:
    """Yield a note for each cause for which tasks that were submitted did not complete."""
    killed = {e["task"] for e in entries["kill"]}
    causes = defaultdict(list)
    for task, over in sorted({e["task"]: e for e in entries["over"]}.items()):
        status, why, code = over["status"], over["why"], tasks["exit_code"][task]
        if task in not_started or status in ("cancelled", "lost"):
            continue  # these have notes of their own
        if why is not None:
            cause = _CAUSES.get(why, f"tasks that did not complete: {why}")
        elif status == "completed":
            continue
        elif task in killed:
            cause = "tasks that the policy killed"
        elif code < 0:
            cause = f"tasks that were ended by signal {_format_signal(-code)}"
        else:
            cause = f"tasks that ended with exit code {code}"
        causes[cause].append(tasks["id"][task])
    for cause, names in causes.items():
        yield note("noticed", cause, pl.Series(names))


def _format_signal(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:  # a real-time signal without a name
        return str(number)
