"""Folders of Twinloop with invalid content whose hashes are correct."""

import json
import random
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

import twinloop as tl
from tests.trace.broken import sign

#: Values that replace any value in JSON.
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**63, -(2**63), 10**30, 0.5, 1e16, 1e300, -1e300),
    *("", "x", "\0", "../..", "\x1b[31m", "9" * 400, [], {}, [None], [[1]], {"a": 1}),
]
#: Expressions that replace a column.
COLUMNS = [
    pl.lit(None),
    pl.lit(True),
    pl.lit(7),
    pl.lit(2**63 - 1),
    pl.lit("word"),
    pl.lit(""),
    pl.lit(b"\xff"),
    pl.lit([1.5]),
    pl.lit(["a", None]),
    pl.struct(a=pl.lit(1), b=pl.lit("x")),
    *(pl.lit(value) for value in (float("nan"), float("inf"), -float("inf"))),
    *(pl.lit(value) for value in (-1.0, 0.0, 1e16, 1e300, -1e300, 2.0**32)),
]
KINDS = ("run", "study", "fit")

#: Commands that read each kind; {folder} is the folder, {out} the path of the output.
COMMANDS = {
    "run": (
        "inspect {folder}",
        "check {folder}",
        "simulate {folder} --policy easy",
        "simulate --workload {folder} --platform 2x8 --policy easy",
        "simulate --workload {folder} --platform 2x8 --policy easy --source sessions:600",
        "report {folder} -o {out}.html",
        "convert {folder} {out}.swf",
        "convert {folder} {out}.cts",
        "convert {folder} {out}.opendc",
        "convert {folder} {out}.trace --repair --warm-up 5%",
        "diff {folder} {folder}",
        "assess {folder} {folder}",
    ),
    "study": ("report {folder} -o {out}.html", "explore {folder}"),
    "fit": ("report {folder} -o {out}.html",),
}


@cache
def save_folder(kind: str, place: Path) -> Path:
    """Save a folder of this kind."""
    power = {"model": "linear", "idle": 100, "max": 200}
    hosts = [{"name": "h", "count": 2, "cores": 4, "power": power}]
    scenario = tl.Scenario(
        platform={"clusters": [{"name": "c", "hosts": hosts}]},
        policy="easy",
        workload={"generate": {"name": "sessions", "parameters": {"tasks": 12, "users": 3}}},
    )
    folder = place / kind
    if kind == "study":
        factors = {"factors": {"policy": ["fifo", "easy"], "platform": ["2x4", "1x8"]}}
        tl.explore(scenario, factors, folder=folder)
        return folder
    trace = tl.simulate(scenario, power_step=600, power_per_node=True, usage_step=600)
    if kind == "run":
        return trace.save(folder)
    speed = {"speed_factor": {"linear": [0.5, 2]}}
    return tl.calibrate(trace, parameters=speed, budget=12, analysis=0).save(folder)


def spoil(folder: Path, rng: random.Random) -> str:
    """Change values in a folder and update its hashes; return a description of the changes."""
    changes = [_spoil_file(folder, rng) for _ in range(rng.choice((1, 1, 2)))]
    if (folder / "manifest.json").is_file():
        with suppress(TypeError, AttributeError, KeyError):  # it may not be a manifest any more
            sign(folder)
    return "; ".join(changes)


def _spoil_file(folder: Path, rng: random.Random) -> str:
    names = ("*.parquet", "*.json", "*.jsonl", "*.yaml", "*.csv")
    files = sorted(file for name in names for file in folder.rglob(name))
    file = rng.choice(files)
    where = file.relative_to(folder).as_posix()
    if file.suffix == ".parquet":
        return f"{where}: {_spoil_table(file, rng)}"
    if file.suffix == ".json":
        document = json.loads(file.read_text())
        change = _spoil_value(document, rng)
        file.write_text(json.dumps(document))
        return f"{where}: {change}"
    lines = file.read_text().splitlines(keepends=True)
    at = rng.randrange(len(lines))
    if file.suffix == ".jsonl" and rng.random() < 0.7:
        document = json.loads(lines[at])
        change = _spoil_value(document, rng)
        lines[at] = json.dumps(document) + "\n"
        file.write_text("".join(lines))
        return f"{where}:{at + 1}: {change}"
    if rng.random() < 0.3:
        lines[at] = rng.choice(("", "\n", "x\n", lines[at][: len(lines[at]) // 2], lines[at] * 2))
    else:
        parts = lines[at].split(rng.choice((":", ",", " ", '"')))
        parts[rng.randrange(len(parts))] = str(rng.choice(ODD))
        lines[at] = " ".join(parts).rstrip("\n") + "\n"
    file.write_text("".join(lines))
    return f"{where}:{at + 1}: {lines[at]!r}"


def _spoil_table(file: Path, rng: random.Random) -> str:
    frame = pl.read_parquet(file)
    name = rng.choice(frame.columns)
    way = rng.choice(("drop", "rename", "column", "column", "value", "value", "rows", "none"))
    if way == "drop":
        frame = frame.drop(name)
    elif way == "rename":
        frame = frame.rename({name: f"{name} x"})
    elif way == "rows":
        frame = pl.concat([frame, frame.sample(min(3, frame.height), seed=rng.randrange(99))])
    elif way == "none":
        frame = frame.clear()
    elif way == "column":
        odd = rng.choice(COLUMNS)
        frame = frame.with_columns(odd.alias(name))
        way = f"column {odd}"
    else:
        odd = rng.choice(COLUMNS).cast(frame.schema[name], strict=False)
        at = pl.int_range(pl.len()) == rng.randrange(max(frame.height, 1))
        try:
            frame = frame.with_columns(pl.when(at).then(odd).otherwise(name).alias(name))
        except pl.exceptions.PolarsError:
            frame = frame.with_columns(pl.when(~at).then(name).alias(name))
        way = f"value {odd}"
    frame.write_parquet(file)
    return f"{name}: {way}"


def _spoil_value(document: Any, rng: random.Random) -> str:
    """Change one value of a document in place."""
    places = [
        (holder, key, path)
        for holder, path in _holders(document, "")
        for key in (holder if isinstance(holder, dict) else range(len(holder)))
    ]
    holder, key, path = rng.choice(places)
    if isinstance(holder, dict) and rng.random() < 0.2:
        del holder[key]
        return f"without {path}.{key}"
    holder[key] = rng.choice(ODD)
    return f"{path}.{key} = {str(holder[key])[:40]!r}"


def _holders(value: Any, path: str) -> list[tuple[Any, str]]:
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return []
    found = [(value, path)] if value else []
    return found + [each for key, item in inner for each in _holders(item, f"{path}.{key}")]


def copy_folder(folder: Path, place: Path) -> Path:
    """Copy a folder, so that the copy can be damaged."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    return place
