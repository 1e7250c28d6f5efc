"""The plan of a confirmation: its runs, their order, and the fingerprints of their scenarios."""

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
RUNS: Final = "runs"
#: Maximum number of repetitions.
MAX_REPETITIONS: Final = 10_000
#: The suffix of the folder of an unfinished run.
UNFINISHED: Final = ".unfinished"
#: Fields of a scenario that do not affect real runs.
_DESCRIPTIVE_FIELDS: Final = ("name", "prices", "start", "inputs", "model")
#: The fields of the model that affect real runs nevertheless.
_REAL_MODEL_FIELDS: Final = ("kill_at_requested_time", "effective_capacity")
#: Overrides of the platform that describe properties of a machine and do not change a run.
_MACHINE_PROPERTIES: Final = re.compile(r"\.(mhz|speed|power\b.*)$")


class PlannedRun(NamedTuple):
    """One run of a plan.

    >>> PlannedRun(order=1, configuration=0, repetition=1, name="01-easy-1").name
    '01-easy-1'
    """

    #: Its position in the order, from 1.
    order: int
    #: The index of its configuration: the candidates, then the baseline.
    configuration: int
    #: The number of its repetition, from 1; the runs of a repetition are a block.
    repetition: int
    #: The name of its folder.
    name: str


@dataclass(frozen=True)
class ConfirmationPlan:
    """Repeated runs of candidates and baseline in a randomised block design.

    Each repetition is a block with all configurations in random order, so that drift between
    repetitions affects all of them. The order of a block depends only on the seed and its number,
    so it does not change if repetitions are added.

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
        if not 1 <= self.repetitions <= MAX_REPETITIONS:
            problem = f"must be from 1 to {MAX_REPETITIONS:,}, not {self.repetitions}"
            raise InputError(problem, kind="out-of-range", field="repetitions")
        if self.seed < 0:
            raise InputError("must not be negative", kind="out-of-range", field="seed")
        if not self.candidates:
            raise InputError(
                "there is no candidate other than the baseline",
                kind="no-candidate",
                field="ranking",
                remedy="use more candidates: study.top(3)",
            )
        duplicates = [
            n
            for n, count in Counter(each.name for each in self.configurations).items()
            if count > 1
        ]
        if duplicates:
            raise InputError(
                f"two configurations have the name {duplicates[0]!r}",
                kind="duplicate-name",
                field="candidates",
                remedy="give each configuration another name",
            )

    @property
    def configurations(self) -> tuple[Candidate, ...]:
        """The candidates, followed by the baseline."""
        return (*self.candidates, self.baseline)

    @property
    def slugs(self) -> tuple[str, ...]:
        """The name of the file of each configuration, without its suffix."""
        slugs: list[str] = []
        for number, each in enumerate(self.configurations):
            slug = re.sub(r"[^a-z0-9]+", "-", each.name.lower()).strip("-")[:60].strip("-")
            slug = slug or "configuration"
            slugs.append(f"{slug}-{number + 1}" if slug in slugs else slug)
        return tuple(slugs)

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """All runs, in their order."""
        return tuple(run for block in self.blocks() for run in block)

    def blocks(self) -> Iterator[tuple[PlannedRun, ...]]:
        """Generate the runs of each repetition, in their order."""
        count, slugs = len(self.configurations), self.slugs
        for repetition in range(1, self.repetitions + 1):
            first = (repetition - 1) * count + 1
            order = np.random.default_rng((self.seed, repetition)).permutation(count)
            yield tuple(
                PlannedRun(
                    first + i, int(c), repetition, f"{first + i:02d}-{slugs[c]}-{repetition}"
                )
                for i, c in enumerate(order)
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
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
                for each, slug in zip(self.configurations, self.slugs, strict=True)
            ],
            "runs": [
                run._asdict() | {"configuration": self.configurations[run.configuration].name}
                for run in self.runs
            ],
        }

    def save(self, folder: Path, **more: Any) -> Path:
        """Write the plan into a folder, with further fields."""
        with write_atomically(folder / PLAN) as stream:
            text = json.dumps(to_json_values(self.to_dict() | more), indent=2, allow_nan=False)
            stream.write(f"{text}\n".encode())
        return folder / PLAN

    def check_matches(self, stored: Mapping[str, Any], file: Path) -> None:
        """Raise an error if a stored plan has other configurations or another seed.

        Its number of repetitions may differ, because repetitions can be added.
        """
        own, other = (
            [(each["name"], each["fingerprint"]) for each in plan["configurations"]]
            for plan in (self.to_dict(), stored)
        )
        if own != other or stored["seed"] != self.seed:
            what = "of other configurations" if own != other else "with another seed"
            names = ", ".join(str(name) for name, _ in other)
            raise InputError(
                f"is the plan of a confirmation {what}: {names}",
                kind="different-inputs",
                file=file,
                remedy="name another folder, or use the same configurations and seed",
            )


def load_plan(folder: Path) -> tuple[dict[str, Any], Path] | None:
    """Read the plan in a folder or its parent, with its path; None if there is none.

    The parent is searched because `folder` may be the folder of the runs inside a bundle.
    """
    for file in (folder / PLAN, folder.parent / PLAN):
        if not file.is_file():
            continue
        try:
            stored = json.loads(file.read_bytes())
            for name in ("seed", "repetitions", "configurations"):
                stored[name]
            for each in stored["configurations"]:
                each["name"], each["fingerprint"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"is not the plan of a confirmation: {error}", kind="damaged-file", file=file
            ) from None
        return stored, file
    return None


def compute_fingerprint(stored: Mapping[str, Any]) -> str:
    """Compute a hash of the parts of a scenario that affect real runs.

    It depends neither on the model nor on the paths of input files. `stored` is the scenario as
    stored in a manifest.

    >>> scenario = Scenario(platform="1x1", workload="log.swf", policy="easy")
    >>> faster = scenario.replace(**{"model.speed_factor": 2.0, "name": "faster"})
    >>> compute_fingerprint(scenario.to_manifest()) == compute_fingerprint(faster.to_manifest())
    True
    >>> other = scenario.replace(policy="fifo")
    >>> compute_fingerprint(scenario.to_manifest()) == compute_fingerprint(other.to_manifest())
    False
    """
    hashes: dict[str, str] = {}
    for name, sha256 in dict(stored.get("inputs") or {}).items():
        if sha256 is None:
            continue
        hashes[name] = sha256
        path = Path(name)
        for folder in [path.parent] if path.name == MANIFEST else list(path.parents):
            relative_path = path.relative_to(folder).as_posix()
            hashes[folder.as_posix()] = (
                f"{hashes.get(folder.as_posix(), '')} {relative_path} {sha256}"
            )
    hashed = values_to_hash(stored)
    values = {name: value for name, value in hashed.items() if name not in _DESCRIPTIVE_FIELDS}
    model = stored.get("model") or {}
    values["model"] = {name: model.get(name) for name in _REAL_MODEL_FIELDS}
    values["overrides"] = {
        path: value
        for path, value in dict(model.get("overrides") or {}).items()
        if not _MACHINE_PROPERTIES.search(path)
    }
    text = json.dumps(_replace_paths(values, hashes), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _replace_paths(value: Any, hashes: Mapping[str, str]) -> Any:
    """Replace paths of input files by their hashes; leave out paths of the machine."""
    if isinstance(value, Mapping):
        return {
            name: _replace_paths(each, hashes)
            for name, each in value.items()
            if name not in ("folder", "creates")
        }
    if isinstance(value, list | tuple):
        return [_replace_paths(each, hashes) for each in value]
    return hashes.get(value, value) if isinstance(value, str) else value


def explain_mismatch(trace: Trace, scenario: Scenario, *, allow_code: bool = False) -> str | None:
    """Explain why a trace cannot be a run of this scenario; None if it can.

    The log of another scheduler contains no scenario; then only the number of tasks and their
    numbers of cores are compared.
    """
    if trace.manifest.scenario is not None:
        same = compute_fingerprint(trace.manifest.scenario) == compute_fingerprint(
            scenario.to_manifest()
        )
        return None if same else "is a run of another scenario"
    compiled = CompiledScenario(scenario, allow_code=allow_code)
    expected = np.sort(compiled.arrays.cores[np.asarray(compiled.rejected) == 0])
    executed = trace.tasks.filter(trace.tasks["status"].ne_missing("rejected"))
    if executed.height != len(expected):
        tasks = format_count(len(expected), "task")
        return f"has {format_count(executed.height, 'task')}, but its scenario has {tasks}"
    # Only the first placement of a restarted task is counted.
    first = pl.col("cores").filter(pl.col("start") == pl.col("start").min())
    placed = trace.placements.group_by("task").agg(first.sum())
    cores = placed["cores"].drop_nulls().sort().to_numpy()
    if len(cores) == len(expected) and not np.allclose(cores, expected):
        return "has tasks of other sizes than its scenario"
    return None


def choose_candidates(
    ranking: Sequence[Candidate], baseline: Candidate | None
) -> tuple[tuple[Candidate, ...], Candidate, tuple[str, ...]]:
    """Return the candidates other than the baseline, the baseline, and notes on them.

    >>> scenario = Scenario(platform="1x1", workload="log.swf", policy="easy")
    >>> easy = Candidate("easy", scenario, {})
    >>> fifo = Candidate("fifo", scenario.replace(policy="fifo"), {})
    >>> choose_candidates([easy, fifo], fifo)[0]
    (<Candidate easy: nothing nan>,)
    """
    base = baseline if baseline is not None else getattr(ranking, "baseline", None)
    if base is None:
        raise InputError(
            "there is no baseline to compare the candidates with",
            kind="no-candidate",
            field="baseline",
            remedy="give one: baseline=study.baseline",
        )
    check_inputs_unchanged((*ranking, base))
    # A real run has one seed, so it is compared with the prediction for that seed.
    candidates = tuple(each.of_its_scenario() for each in ranking if each.scenario != base.scenario)
    notes = []
    if len(candidates) < len(ranking):
        notes.append(f"{base.name} is the baseline and is run once in each repetition")
    return candidates, base.of_its_scenario(), tuple(notes)
