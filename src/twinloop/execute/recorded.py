"""The Trace of a run, out of what was planned and its journal; whole, or as far as it got."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from signal import Signals
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop.execute.folder import RECORDING
from twinloop.execute.journal import entries
from twinloop.execute.loop import OUT_OF_MEMORY
from twinloop.execute.power import Readings
from twinloop.execute.power.reconstruct import rebuilt
from twinloop.trace import Cleaning, Trace
from twinloop.trace.tables import COUNTED
from twinloop.workload.notes import note

Entries = Sequence[dict[str, Any]]

#: What the policy was told and what it decided, as the table of decisions calls it.
SAID: Final = (
    *("ready", "over", "failed", "open", "close", "ask"),
    *("place", "preempt", "kill", "set-state on", "set-state off", "reserve"),
)

#: In which the kernel counts CPU time of processes (s).
_TICK: Final = 0.01

_PART: Final = ("task", "attempt", "machine")

#: What the journal says of why a task did not complete, as the manifest says it of several.
_CAUSES: Final = {
    OUT_OF_MEMORY: "tasks that were killed because their node had too little memory",
    "it ran for longer than it may": "tasks that ran for longer than they may",
    "a task that it waits for did not complete": "tasks that a parent's failure took along",
    "nothing was left that could start it": "tasks that nothing was left to start",
}


def unfinished(path: Path) -> Trace:
    """The Trace of a run that was cut short, as far as its journal goes."""
    recording = path / RECORDING
    plan = Trace.load(recording / "plan")
    return as_trace(plan, entries(recording / "journal.jsonl"))


def as_trace(plan: Trace, journal: Iterable[dict[str, Any]]) -> Trace:
    """The Trace of a run of this plan.

    A journal that does not say how the run finished is of one that was cut short: what ran then
    is `lost`, what waited `cancelled`.
    """
    log = list(journal)
    found: dict[str, Entries] = defaultdict(list)
    for entry in log:
        found.setdefault(entry["e"], []).append(entry)  # type: ignore[attr-defined]
    finish = found["finish"][-1] if found["finish"] else None
    last = max((_latest(entry) for entry in log), default=0.0)
    samples = _samples(found["use"])
    parts = _parts(plan, found["start"], found["end"], samples, cut=finish is None)
    tasks = _tasks(plan, found, parts, cut=finish is None)
    readings = Readings.recorded((entry["t"], entry["rows"]) for entry in found["power"])
    power, notes = rebuilt(readings, 0.0, last)
    usage, repaired = _usage(plan, samples, parts)
    facts = dict(plan.manifest.facts)
    facts |= finish["facts"] if finish is not None else {}
    facts["run"] = {"wall_s": last} | facts.get("run", {})
    facts["run"] |= {"events": len(log), "complete": finish is not None}
    epoch = found["begin"][0]["epoch_ms"] if found["begin"] else None
    return plan.replace(
        tasks=tasks,
        placements=_placements(plan, parts),
        usage=usage,
        decisions=_decisions(plan, log),
        node_states=_states(plan, found),
        power=power,
    ).noting(cleaned=(*notes, repaired, *_notes(plan, found, tasks)), facts=facts, epoch_ms=epoch)


def _latest(entry: dict[str, Any]) -> float:
    """The last moment that an entry tells of: samples are read one after the other."""
    rows = entry["rows"] if entry["e"] == "use" else ()
    return max([float(entry["t"]), *(float(row[-1]) for row in rows)])


def _samples(passes: Entries) -> pl.DataFrame:
    schema = dict.fromkeys(_PART, pl.Int64) | dict.fromkeys(("cpu", "rss", "t"), pl.Float64)
    rows = [row for entry in passes for row in entry["rows"]]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _parts(
    plan: Trace, starts: Entries, ends: Entries, samples: pl.DataFrame, *, cut: bool
) -> pl.DataFrame:
    """A row for each time that a part of a task ran, with what was measured of it."""
    began = pl.DataFrame(
        [[e[name] for name in (*_PART, "cores", "pid", "t")] for e in starts],
        schema=dict.fromkeys(_PART, pl.Int64)
        | {"cores": pl.Float64, "pid": pl.Int64, "start": pl.Float64},
        orient="row",
    )
    over = pl.DataFrame(
        [
            [
                *(e[name] for name in _PART),
                *(e["t"], e["code"], e["reason"], e["cpu"], e["peak"], *e["switches"]),
                *(*e["faults"], *(e["counters"].get(name) for name in tuple(COUNTED)[4:])),
            ]
            for e in ends
        ],
        schema=dict.fromkeys(_PART, pl.Int64)
        | {"end": pl.Float64, "code": pl.Int64, "reason": pl.String}
        | {"cpu": pl.Float64, "peak": pl.Float64}
        | dict.fromkeys(COUNTED, pl.Int64),
        orient="row",
    )
    parts = began.join(over, on=_PART, how="left", maintain_order="left")
    if cut:
        # Nobody saw the end of these: what is known of them ends where they were last seen.
        gone = pl.col("end").is_null()
        seen = samples.group_by(_PART).agg(seen=pl.max("t"))
        lately = pl.when(pl.col("seen") > pl.col("start") + _TICK).then("seen").otherwise("start")
        parts = parts.join(seen, on=_PART, how="left", maintain_order="left").with_columns(
            reason=pl.when(gone).then(pl.lit("lost")).otherwise("reason"),
            end=pl.coalesce("end", lately),
        )
    names = plan.nodes["node"]
    return parts.sort(_PART).with_columns(
        pl.Series("id", plan.tasks["id"].gather(parts.sort(_PART)["task"])),
        pl.Series("node", names.gather(parts.sort(_PART)["machine"])),
    )


def _placements(plan: Trace, parts: pl.DataFrame) -> pl.DataFrame:
    asked = plan.tasks.select("requested_cores", "requested_memory")[parts["task"]]
    share = parts["cores"] / asked["requested_cores"]
    return parts.select(
        pl.col("id").alias("task"),
        "attempt",
        pl.col("node").alias("machine"),
        "cores",
        (asked["requested_memory"] * share).alias("memory"),
        *("start", "end", "reason"),
    )


def _tasks(
    plan: Trace, found: dict[str, Entries], parts: pl.DataFrame, *, cut: bool
) -> pl.DataFrame:
    last = parts.filter(pl.col("attempt") == pl.col("attempt").max().over("task"))
    ran = (
        last.group_by("task", maintain_order=True)
        .agg(
            (pl.max("end") - pl.min("start")).alias("run_time"),
            _total("peak").alias("memory_used"),
            # The code that says most: of a part that was killed, else of one that failed.
            pl.coalesce(
                pl.col("code").filter(pl.col("code") < 0).first(),
                pl.col("code").filter(pl.col("code") != 0).first(),
                pl.col("code").max(),
            ).alias("exit_code"),
            pl.first("pid"),
        )
        .join(_counts(parts), on="task", how="left", maintain_order="left")
    )
    status = {e["task"]: e["status"] for e in found["over"]}
    if cut:
        status = _where_cut(found, last) | status
        for task, planned in enumerate(plan.tasks["status"]):
            status.setdefault(task, planned or "cancelled")
    rows = pl.int_range(pl.len(), dtype=pl.Int64).alias("task")
    events = {
        name: _at(found[entry], plan.tasks.height)
        for name, entry in (("submit", "submit"), ("ready", "ready"))
    }
    new = ("run_time", "memory_used", "exit_code", "pid", "cpu_time", *COUNTED)
    return (
        plan.tasks.drop(new)
        .with_columns(
            rows,
            # Who was never submitted, because nothing could run it or the run was over before, has
            # the time at which it was to be.
            pl.coalesce(events["submit"], "submit_recorded").alias("submit"),
            pl.Series("ready", events["ready"]),
            pl.coalesce(
                pl.Series([status.get(t) for t in range(plan.tasks.height)], dtype=pl.String),
                "status",
            ).alias("status"),
        )
        .join(ran, on="task", how="left", maintain_order="left")
        .drop("task")
    )


def _where_cut(found: dict[str, Entries], last: pl.DataFrame) -> dict[int, str]:
    """What is known of tasks that had their machines when the record breaks off."""
    had = Counter(entry["task"] for entry in found["place"])
    had.subtract(entry["task"] for entry in (*found["failed"], *found["preempt"]))
    running = last.filter(pl.col("reason") == "lost")["task"]
    completed = last.group_by("task").agg((pl.col("reason") == "completed").all())
    ended = dict(completed.iter_rows())
    return {task: "completed" if ended.get(task) else "lost" for task in {*(+had), *running}}


def _counts(parts: pl.DataFrame) -> pl.DataFrame:
    """What tasks used and what was counted of them, over all their parts and attempts."""
    return parts.group_by("task").agg(
        _total("cpu").alias("cpu_time"), *(_total(name) for name in COUNTED)
    )


def _total(name: str) -> pl.Expr:
    """A sum; null where nothing is known."""
    return pl.when(pl.col(name).is_not_null().any()).then(pl.sum(name)).alias(name)


def _at(events: Entries, count: int) -> pl.Series:
    """The time of the first such event of each task."""
    times = np.full(count, np.nan)
    for event in reversed(events):
        times[event["task"]] = event["t"]
    return pl.Series(times).fill_nan(None)


def _usage(
    plan: Trace, samples: pl.DataFrame, parts: pl.DataFrame
) -> tuple[pl.DataFrame, Cleaning]:
    """What was used between two samples, the last one being of the end."""
    known = samples.join(parts.select(*_PART, "start", "end", "cpu", "pid"), on=_PART, suffix="_")
    # One just after the start or before the end says nothing that the next one does not: what is
    # read is cumulative. Where nobody saw the end, the last sample is the last that is known.
    known = known.filter(
        (pl.col("t") > pl.col("start") + _TICK)
        & ((pl.col("t") < pl.col("end") - _TICK) | pl.col("cpu_").is_null())
    ).select(*_PART, "t", pl.min_horizontal("cpu", "cpu_").alias("cpu"), "rss", "start", "pid")
    # What a task held when it ended is not known: the sample before, or else the most it ever had.
    seen = known.select(_PART).unique().with_columns(seen=pl.lit(value=True))
    closing = (
        parts.filter(pl.col("cpu").is_not_null())
        .join(seen, on=_PART, how="left", maintain_order="left")
        .select(
            *_PART,
            t="end",
            cpu="cpu",
            rss=pl.when(pl.col("seen").is_null()).then("peak"),
            start="start",
            pid="pid",
        )
    )
    both = pl.concat([known, closing]).sort(*_PART, "t", maintain_order=True)
    both, repaired = _possible(plan, both)
    whose = pl.struct(_PART)
    used = both.with_columns(
        dt=pl.col("t") - pl.col("t").shift(1).over(whose).fill_null(pl.col("start")),
        cpu=pl.col("cpu") - pl.col("cpu").shift(1).over(whose).fill_null(0.0),
        rss=pl.col("rss").forward_fill().over(whose),
    )
    frame = used.select(
        pl.Series("task", plan.tasks["id"].gather(used["task"])),
        pl.Series("machine", plan.nodes["node"].gather(used["machine"])),
        *("pid", "t", "dt", "cpu", "rss"),
    )
    return frame, repaired


def _possible(plan: Trace, samples: pl.DataFrame) -> tuple[pl.DataFrame, Cleaning]:
    """Cumulative CPU times that can be: between two samples there is no more than the CPUs give.

    A counter that is read late, or that counts in ticks and rounds down, says too much or too
    little of a moment. What cannot have been used before it was used after it, and the other way
    round. The last value of each is what it is, and so is the sum.
    """
    whose = pl.struct(_PART)
    room = _cores(plan, samples).alias("room") * (samples["t"] - samples["start"])
    spare = pl.col("cpu") - pl.col("room")
    last = pl.col("t") == pl.col("t").max().over(whose)
    digits = pl.max_horizontal(1e-9, 1e-15 * pl.col("room"))
    found = (
        samples.with_columns(room, read=pl.col("cpu"))
        .with_columns(
            cpu=pl.when(last)
            .then("cpu")
            .otherwise(pl.min_horizontal(spare, 0.0).cum_min().over(whose) + pl.col("room"))
        )
        .with_columns(cpu=spare.cum_max(reverse=True).over(whose) + pl.col("room"))
        # What differs in the last digits only is what was read, and nothing is ever given back.
        .with_columns(moved=~last & ((pl.col("cpu") - pl.col("read")).abs() > digits))
        .with_columns(cpu=pl.when("moved").then("cpu").otherwise("read"))
        .with_columns(
            cpu=pl.min_horizontal(
                pl.col("cpu").cum_max().over(whose), pl.col("read").last().over(whose)
            )
        )
    )
    what = "samples read late or in ticks: CPU time that cannot have been, moved to the next window"
    count = int(found["moved"].sum())
    return found.drop("room", "read", "moved"), note("repaired", what, count=count)


def _cores(plan: Trace, samples: pl.DataFrame) -> pl.Series:
    """As many cores as each part can have used: those of its node, where it is held to them.

    Where it is not, those of the machine if it has clearly used more than its node has: by more
    than a counter lacks that rounds down the time in user mode and that in the kernel to ticks.
    """
    facts = plan.manifest.facts
    held = facts.get("nodes", {}).get("isolation") not in (None, "none", "affinity")
    cores = plan.nodes["cores"].gather(samples["machine"])
    if held:
        return cores
    whose = pl.struct(_PART)
    cpu, t, start, own = pl.col("cpu"), pl.col("t"), pl.col("start"), pl.col("own")
    used = cpu - cpu.shift(1).over(whose).fill_null(0.0)
    length = t - t.shift(1).over(whose).fill_null(start)
    beyond = used > own * length + 2 * _TICK
    too_much = cpu.last().over(whose) > own * (t.last().over(whose) - start)
    machine = max(1, len(facts.get("machine", {}).get("cpus", ())))
    found = samples.with_columns(own=cores.ceil()).select(
        cores=pl.when(beyond.any().over(whose) | too_much).then(own.clip(machine)).otherwise(own)
    )
    return found["cores"]


def _decisions(plan: Trace, log: Entries) -> pl.DataFrame:
    tasks, nodes = plan.tasks["id"].to_list(), plan.nodes["node"].to_list()
    policy = plan.manifest.facts.get("run", {}).get("policy")
    rows = []
    for entry in log:
        if entry["e"] not in SAID:
            continue
        subject = None if entry.get("task") is None else tasks[entry["task"]]
        targets = entry.get("on") or [[entry.get("machine"), None]]
        for machine, _ in targets:
            target = entry.get("why") if machine is None else nodes[machine]
            target = target if entry["e"] != "over" else entry["status"]
            rows.append((entry["t"], policy, entry["e"], subject, target))
    names = ("t", "policy", "kind", "subject", "target")
    schema = dict.fromkeys(names, pl.String) | {"t": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _states(plan: Trace, found: dict[str, Entries]) -> pl.DataFrame:
    """When nodes were not there."""
    nodes = plan.nodes["node"].to_list()
    rows: list[list[Any]] = []
    left: dict[int, list[Any]] = {}
    changes = sorted((*found["close"], *found["open"]), key=lambda entry: float(entry["t"]))
    for entry in changes:
        machine = entry["machine"]
        if entry["e"] == "close" and machine not in left:
            left[machine] = [nodes[machine], entry["t"], None, entry.get("state", "down")]
            rows.append(left[machine])
        elif entry["e"] == "open" and machine in left:
            left.pop(machine)[2] = entry["t"]
    schema = {"node": pl.String, "start": pl.Float64, "end": pl.Float64, "state": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _notes(plan: Trace, found: dict[str, Entries], tasks: pl.DataFrame) -> tuple[Cleaning, ...]:
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
            "nodes that died, though the scenario does not say so",
            plan.nodes["node"].gather([e["machine"] for e in found["close"] if e["why"]]),
        ),
        *_causes(found, tasks, never),
        note(
            "noticed",
            "tasks that left processes behind when they ended: these were ended too",
            pl.Series(left, dtype=pl.String),
        ),
        note("noticed", "tasks that ran when the record breaks off or their node died", lost),
        note("noticed", "tasks that the end of the run came before", cancelled),
        note(
            "assumed",
            "times of submission of tasks that never were submitted: as planned",
            ids.filter(ids.is_in(list(absent))),
        ),
        *(
            note("noticed", e["text"], count=e.get("count", 1))
            for e in found["note"]
        ),
    ]  # fmt: skip
    return tuple(each for each in counted if each.count)


def _causes(
    found: dict[str, Entries], tasks: pl.DataFrame, never: Container[int]
) -> Iterator[Cleaning]:
    """Why tasks that were started, or waited to be, did not complete: each has one cause."""
    killed = {e["task"] for e in found["kill"]}
    causes = defaultdict(list)
    for task, over in sorted({e["task"]: e for e in found["over"]}.items()):
        status, why, code = over["status"], over["why"], tasks["exit_code"][task]
        if task in never or status in ("cancelled", "lost"):
            continue  # told apart
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
    except ValueError:  # one of those without a name
        return str(number)
