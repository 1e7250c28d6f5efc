"""What a confirmation runs, in which order, and by what its runs are known again."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from twinloop import __version__
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.description.json_values import to_json_values
from twinloop.engine import CompiledScenario
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.study.input_hashes import check_inputs_unchanged
from twinloop.scenario import Scenario
from twinloop.scenario.identity import values_to_hash
from twinloop.trace import Trace
from twinloop.trace.folder import MANIFEST
from twinloop.trace.trace import format_count

#: The file of a plan, and the folder of the runs that it lists.
PLAN: Final = "plan.json"
#: More repetitions than this no measurement needs, and no machine survives.
MOST_REPETITIONS: Final = 10_000
RUNS: Final = "runs"
#: What the name of a run ends with that was cut short.
UNFINISHED: Final = ".unfinished"
#: Parts of a scenario that change no real run: names, prices, and all of the model but these.
_SAID_ONLY: Final = ("name", "prices", "start", "inputs", "model")
_IN_REALITY: Final = ("kill_at_requested_time", "effective_capacity")
#: Values of a platform that are facts about a machine, which no run can choose.
_MODELLED: Final = re.compile(r"\.(mhz|speed|power\b.*)$")


class PlannedRun(NamedTuple):
    """One run of a plan.

    >>> PlannedRun(order=1, configuration=0, repetition=1, name="01-easy-1").name
    '01-easy-1'
    """

    #: Its place in the order, from 1 on.
    order: int
    #: Which of the configurations: the candidates, then the baseline.
    configuration: int
    #: Which repetition, from 1 on: those of one repetition are a block.
    repetition: int
    #: The name of its folder.
    name: str


@dataclass(frozen=True)
class ConfirmationPlan:
    """Candidates and the baseline, each so many times, in blocks of a random order.

    Each repetition has all of them, so that what drifts from one to the next is shared by all. The
    order of a repetition depends on the seed alone: more repetitions change none before.

    >>> easy = Candidate("easy", Scenario(platform="1x1", workload="log.swf", policy="easy"), {})
    >>> fifo = Candidate("fifo", Scenario(platform="1x1", workload="log.swf", policy="fifo"), {})
    >>> [run.name for run in ConfirmationPlan((easy,), fifo, repetitions=2, seed=1).runs]
    ['01-easy-1', '02-fifo-1', '03-fifo-2', '04-easy-2']
    """

    candidates: tuple[Candidate, ...]
    baseline: Candidate
    repetitions: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.repetitions <= MOST_REPETITIONS:
            problem = f"must be from 1 to {MOST_REPETITIONS:,}, not {self.repetitions}"
            raise InputError(problem, field="repetitions")
        if self.seed < 0:
            raise InputError("must not be negative", field="seed")
        if not self.candidates:
            raise InputError(
                "there is no candidate beside the baseline: nothing is recommended over it",
                field="ranking",
                remedy="take more of them: study.top(3)",
            )
        twice = [n for n, times in Counter(each.name for each in self.all).items() if times > 1]
        if twice:
            raise InputError(
                f"two configurations are called {twice[0]!r}",
                field="candidates",
                remedy="give each a name of its own",
            )

    @property
    def all(self) -> tuple[Candidate, ...]:
        """The candidates, and the baseline last."""
        return (*self.candidates, self.baseline)

    @property
    def slugs(self) -> tuple[str, ...]:
        """A name for the files of each configuration."""
        found: list[str] = []
        for number, each in enumerate(self.all):
            slug = re.sub(r"[^a-z0-9]+", "-", each.name.lower()).strip("-")[:60].strip("-")
            slug = slug or "configuration"
            found.append(f"{slug}-{number + 1}" if slug in found else slug)
        return tuple(found)

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """All runs, in their order."""
        return tuple(run for block in self.blocks() for run in block)

    def blocks(self) -> Iterator[tuple[PlannedRun, ...]]:
        """The runs of each repetition."""
        many, slugs = len(self.all), self.slugs
        for repetition in range(1, self.repetitions + 1):
            first = (repetition - 1) * many + 1
            order = np.random.default_rng((self.seed, repetition)).permutation(many)
            yield tuple(
                PlannedRun(
                    first + i, int(c), repetition, f"{first + i:02d}-{slugs[c]}-{repetition}"
                )
                for i, c in enumerate(order)
            )

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "twinloop": __version__,
            "seed": self.seed,
            "repetitions": self.repetitions,
            "configurations": [
                {
                    "name": each.name,
                    "file": slug,
                    "baseline": each is self.baseline,
                    "fingerprint": compute_fingerprint(each.scenario.to_manifest()),
                    "predicted": dict(each.predicted),
                }
                for each, slug in zip(self.all, self.slugs, strict=True)
            ],
            "runs": [
                run._asdict() | {"configuration": self.all[run.configuration].name}
                for run in self.runs
            ],
        }

    def save(self, folder: Path, **more: Any) -> Path:
        """Write it into a folder."""
        with write_atomically(folder / PLAN) as stream:
            told = json.dumps(to_json_values(self.to_dict() | more), indent=2, allow_nan=False)
            stream.write(f"{told}\n".encode())
        return folder / PLAN

    def refuse_other(self, kept: Mapping[str, Any], file: Path) -> None:
        """Complain if a plan that is kept is one of other configurations, or in another order."""
        mine, theirs = (
            [(each["name"], each["fingerprint"]) for each in plan["configurations"]]
            for plan in (self.to_dict(), kept)
        )
        if mine != theirs or kept["seed"] != self.seed:
            what = "of other configurations" if mine != theirs else "with another seed"
            names = ", ".join(str(name) for name, _ in theirs)
            raise InputError(
                f"is the plan of a confirmation {what}: {names}",
                file=file,
                remedy="name another folder, or give what it was made of",
            )


def load_plan(folder: Path) -> tuple[dict[str, Any], Path] | None:
    """The plan that a folder, or the one above it, keeps, and where; None: it keeps none."""
    for file in (folder / PLAN, folder.parent / PLAN):
        if not file.is_file():
            continue
        try:
            kept = json.loads(file.read_bytes())
            for name in ("seed", "repetitions", "configurations"):
                kept[name]
            for each in kept["configurations"]:
                each["name"], each["fingerprint"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"is no plan of a confirmation: {error}", file=file) from None
        return kept, file
    return None


def compute_fingerprint(kept: Mapping[str, Any]) -> str:
    """What real runs of a scenario have in common, whatever its model and wherever its files.

    `kept` is the scenario as a manifest has it.

    >>> scenario = Scenario(platform="1x1", workload="log.swf", policy="easy")
    >>> faster = scenario.replace(**{"model.speed_factor": 2.0, "name": "faster"})
    >>> compute_fingerprint(scenario.to_manifest()) == compute_fingerprint(faster.to_manifest())
    True
    >>> other = scenario.replace(policy="fifo")
    >>> compute_fingerprint(scenario.to_manifest()) == compute_fingerprint(other.to_manifest())
    False
    """
    hashes: dict[str, str] = {}
    for name, known in dict(kept.get("inputs") or {}).items():
        if known is None:
            continue
        hashes[name] = known
        path = Path(name)
        for folder in [path.parent] if path.name == MANIFEST else list(path.parents):
            inside = path.relative_to(folder).as_posix()
            hashes[folder.as_posix()] = f"{hashes.get(folder.as_posix(), '')} {inside} {known}"
    hashed = values_to_hash(kept)
    said = {name: value for name, value in hashed.items() if name not in _SAID_ONLY}
    model = kept.get("model") or {}
    said["model"] = {name: model.get(name) for name in _IN_REALITY}
    said["overrides"] = {
        path: value
        for path, value in dict(model.get("overrides") or {}).items()
        if not _MODELLED.search(path)
    }
    told = json.dumps(_without_places(said, hashes), sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def _without_places(value: Any, hashes: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _without_places(each, hashes)
            for name, each in value.items()
            if name not in ("folder", "creates")
        }
    if isinstance(value, list | tuple):
        return [_without_places(each, hashes) for each in value]
    return hashes.get(value, value) if isinstance(value, str) else value


def explain_mismatch(trace: Trace, scenario: Scenario, *, allow_code: bool = False) -> str | None:
    """Why a run cannot be one of this scenario; None: it can.

    A log of another scheduler keeps no scenario: its tasks are counted, and their cores compared.
    """
    if trace.manifest.scenario is not None:
        same = compute_fingerprint(trace.manifest.scenario) == compute_fingerprint(
            scenario.to_manifest()
        )
        return None if same else "is a run of another scenario"
    compiled = CompiledScenario(scenario, allow_code=allow_code)
    expected = np.sort(compiled.arrays.cores[np.asarray(compiled.rejected) == 0])
    ran = trace.tasks.filter(trace.tasks["status"].ne_missing("rejected"))
    if ran.height != len(expected):
        tasks = format_count(len(expected), "task")
        return f"has {format_count(ran.height, 'task')}, and its scenario {tasks}"
    # A task that was started again is as large as it was the first time.
    first = pl.col("cores").filter(pl.col("start") == pl.col("start").min())
    placed = trace.placements.group_by("task").agg(first.sum())
    cores = placed["cores"].drop_nulls().sort().to_numpy()
    if len(cores) == len(expected) and not np.allclose(cores, expected):
        return "has tasks of other sizes than its scenario"
    return None


def choose_candidates(
    ranking: Sequence[Candidate], baseline: Candidate | None
) -> tuple[tuple[Candidate, ...], Candidate, tuple[str, ...]]:
    """The candidates beside the baseline, the baseline, and what is to be said of them.

    >>> scenario = Scenario(platform="1x1", workload="log.swf", policy="easy")
    >>> easy = Candidate("easy", scenario, {})
    >>> fifo = Candidate("fifo", scenario.replace(policy="fifo"), {})
    >>> choose_candidates([easy, fifo], fifo)[0]
    (<Candidate easy: nothing nan>,)
    """
    base = baseline if baseline is not None else getattr(ranking, "baseline", None)
    if base is None:
        raise InputError(
            "nobody said what the candidates are compared with",
            field="baseline",
            remedy="baseline=study.baseline",
        )
    check_inputs_unchanged((*ranking, base))
    # What is run has one seed: what is predicted of that is what it has to be compared with.
    found = tuple(each.of_its_scenario() for each in ranking if each.scenario != base.scenario)
    notes = []
    if len(found) < len(ranking):
        notes.append(f"{base.name} is the baseline: it is run once in each repetition, as that")
    return found, base.of_its_scenario(), tuple(notes)
