"""Properties of all generators: reproducible and well-formed logs."""

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import InputError
from twinloop.trace import Trace
from twinloop.workload.generators import Generator, list_generators, make_generator
from twinloop.workload.generators.requests import USUAL_TIMES, round_up_to_usual

#: `recipe` needs a recorded workflow; test_generate_workflows.py has its tests.
NAMES = [name for name in list_generators() if name != "recipe"]
WORKFLOWS = ["chain", "fork-join"]
SMALL: dict[str, dict[str, Any]] = {
    "poisson": {"tasks": 60},
    "bursts": {"bursts": 6, "size": 10},
    "parallel-tasks": {"tasks": 60, "parallel": 7},
    "lublin": {"tasks": 60},
    "sessions": {"tasks": 60, "users": 5},
    "arrays": {"tasks": 60, "mean_size": 4},
    "ffmpeg": {"bursts": 6, "size": 10},
    "burn": {"bursts": 6, "size": 10},
    "chain": {"tasks": 60, "work": 100, "cv": 1},
    "fork-join": {"tasks": 60, "work": 100, "cv": 1},
}
BITS = {
    "poisson": "60db870632d6f488",
    "bursts": "d5b1839599c16e5e",
    "parallel-tasks": "fbbe1bad539731be",
    "lublin": "ab6bcfc022031421",
    "sessions": "7c9bb2f7bac95ede",
    "arrays": "87143621d24bd5c4",
    "ffmpeg": "448adc6b5dff6a39",
    "burn": "0d03f52b6e952dcd",
    "chain": "2c098e90cba473e5",
    "fork-join": "dcf625a909ab0ffd",
}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "generators.md"

ASKING = [name for name in NAMES if name not in ("parallel-tasks", *WORKFLOWS)]

every_generator = pytest.mark.parametrize("name", NAMES)
names, names_with_requests = st.sampled_from(NAMES), st.sampled_from(ASKING)


@given(name=names, seed=st.integers(0, 2**70))
def test_a_log_is_well_formed(name: str, seed: int) -> None:
    trace = make_generator(name, **SMALL[name], resolution="s").generate(seed)
    tasks = trace.tasks
    assert tasks.height == 60
    assert tasks["id"].n_unique() == 60
    assert tasks["submit"].is_sorted()
    assert tasks["submit"].min() >= 0
    assert tasks["run_time"].min() > 0
    assert tasks["requested_cores"].min() >= 1
    assert name in WORKFLOWS or tasks["parents"].list.len().to_list() == [0] * 60
    for column in ("submit", "run_time", "requested_cores"):
        figures = tasks[column].to_numpy()
        assert np.all(figures == np.floor(figures))
    assert trace.placements.is_empty()
    assert tasks["status"].null_count() == 60


@given(name=names, seed=st.integers(0, 2**40))
def test_a_seed_gives_one_log_and_another_seed_another(name: str, seed: int) -> None:
    description = make_generator(name, **SMALL[name])
    first = description.generate(seed)
    assert description.generate(seed) == first
    assert not description.generate(seed + 1).tasks.equals(first.tasks)


@every_generator
def test_the_figures_are_the_same_on_every_machine(name: str) -> None:
    """The digests must not change, so that a seed in a publication stays valid."""
    tasks = make_generator(name, **SMALL[name], resolution="exact").generate(20250901).tasks
    columns = ["submit", "requested_cores", "requested_time", "run_time"]
    figures = tasks.select(columns).fill_null(-1.0).to_numpy().astype("<f8", order="C")
    assert hashlib.sha256(figures.tobytes()).hexdigest()[:16] == BITS[name]


@every_generator
def test_the_log_can_be_generated_again_from_its_manifest(name: str, tmp_path: Path) -> None:
    trace = make_generator(name, **SMALL[name], resolution="ms").generate(seed=9)
    kept = Trace.load(trace.save(tmp_path / "log"))
    assert kept == trace
    manifest = kept.manifest
    assert manifest.kind == "generated"
    assert manifest.seed == 9
    said = manifest.facts["generator"]
    again = make_generator(said["name"], **said["parameters"]).generate(manifest.seed)
    assert again.tasks.equals(trace.tasks)


@every_generator
@pytest.mark.parametrize("resolution", ["s", "ms", "exact"])
def test_rounding_changes_no_time_by_more_than_the_resolution(name: str, resolution: str) -> None:
    """Rounding changes only times, by about one tick."""
    coarse = make_generator(name, **SMALL[name], resolution=resolution).generate(3).tasks
    fine = make_generator(name, **SMALL[name], resolution="exact").generate(3).tasks
    tick = {"s": 1.0, "ms": 1e-3, "exact": 0.0}[resolution]
    assert (coarse["run_time"] - fine["run_time"]).abs().max() <= tick + 1e-9
    for column in ("submit", "run_time"):
        ticks = coarse[column].to_numpy() * 1000
        assert resolution == "exact" or np.all(np.abs(ticks - np.rint(ticks)) < 1e-4)
    # In parallel-tasks and sessions, the rounding errors of tasks accumulate.
    drift = 61 * tick + 1e-6
    assert (coarse["submit"] - fine["submit"]).abs().max() <= drift


@given(name=names_with_requests, overestimate=st.floats(0, 10), seed=st.integers(0, 1000))
def test_requested_times_are_usual_upper_bounds(name: str, overestimate: float, seed: int) -> None:
    description = make_generator(name, **SMALL[name], overestimate=overestimate)
    tasks = description.generate(seed).tasks
    run, asked = tasks["run_time"].to_numpy(), tasks["requested_time"].to_numpy()
    assert np.all(asked >= run)
    assert all(time in USUAL_TIMES or time % 86400 == 0 for time in asked)
    plain = description.model_copy(update={"usual_times": False}).generate(seed).tasks
    wanted = plain["requested_time"].to_numpy()
    assert np.all((wanted >= run) & (wanted < run * (1 + overestimate) + 1))
    assert np.all(round_up_to_usual(wanted) == asked)


def test_usual_times_by_hand() -> None:
    hours = np.array([0.9, 1.0, 1.1, 11.0, 23.0, 71.9, 72.0, 72.1, 100.0])
    assert (round_up_to_usual(hours * 3600) / 3600).tolist() == [1, 1, 2, 12, 24, 72, 72, 96, 120]


@pytest.mark.parametrize("name", ASKING)
def test_memory_is_requested_per_core_or_not_at_all(name: str) -> None:
    tasks = make_generator(name, **SMALL[name], memory_per_core=2**31).generate(1).tasks
    assert (tasks["requested_memory"] == tasks["requested_cores"] * 2**31).all()
    silent = make_generator(name, **SMALL[name]).generate(1).tasks
    assert silent["requested_memory"].null_count() == 60


@given(
    name=st.sampled_from(["poisson", "lublin", "arrays"]),
    horizon=st.floats(1, 3e5),
    seed=st.integers(0, 1000),
)
def test_a_horizon_ends_the_log_and_changes_nothing_before_it(
    name: str, horizon: float, seed: int
) -> None:
    description = make_generator(name, tasks=100, machine=8, resolution="exact")
    whole = description.generate(seed).tasks["submit"]
    cut = description.model_copy(update={"horizon": horizon}).generate(seed).tasks["submit"]
    assert cut.to_list() == [time for time in whole if time < horizon]
    alone = description.model_copy(update={"horizon": horizon, "tasks": None})
    assert (alone.generate(seed).tasks["submit"] < horizon).all()


def test_lengths_do_not_change_arrivals() -> None:
    """Random streams are independent of each other."""
    short = make_generator("poisson", rate=0.1, mean_length=10).generate(4).tasks
    long = make_generator("poisson", rate=0.1, mean_length=1e4, cores="2").generate(4).tasks
    assert short["submit"].equals(long["submit"])
    assert not short["run_time"].equals(long["run_time"])


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("poison", {}, "generator: unknown generator 'poison' (did you mean 'poisson'?)"),
        ("zzz", {}, "known: poisson, bursts"),
        ("poisson", {"loda": 0.5}, "poisson.loda: is not a parameter of 'poisson'"),
        ("poisson", {"loda": 0.5}, "did you mean 'load'?"),
        ("poisson", {"tasks": 0}, "poisson.tasks: 0: input should be greater than or equal to 1"),
        ("poisson", {"tasks": "many"}, "poisson.tasks: 'many'"),
        ("poisson", {"cv": math.nan}, "poisson.cv"),
        ("poisson", {"load": 0.5, "rate": 1.0}, "give a rate or a load, not both"),
        ("arrays", {"load": 0.5, "rate": 1.0}, "give a rate or a load, not both"),
        ("poisson", {"cores": "128"}, "tasks of 128 cores never fit a machine of 64"),
        ("poisson", {"cores": "1:x"}, "write it as cores:weight"),
        ("poisson", {"cores": "1.5"}, "write it as cores:weight"),
        ("poisson", {"cores": {0: 1.0}}, "each at least 1"),
        ("poisson", {"cores": {}}, "at least one"),
        ("poisson", {"cores": "1:2,1:3"}, "each number of cores once"),
        ("poisson", {"cores": {1: -1.0}}, "weights of a mix must be positive"),
        ("poisson", {"cores": None}, "is not a mix of cores"),
        ("bursts", {"kinds": "a:1:1"}, "name:cores:share:pace"),
        ("bursts", {"kinds": "a:1:1:1,a:2:1:1"}, "the same name"),
        ("bursts", {"kinds": "a:0:1:1"}, "bursts.kinds.0.cores: '0'"),
        ("bursts", {"lengths": "30,long"}, "bursts.lengths.1: 'long'"),
        ("bursts", {"lengths": []}, "bursts.lengths"),
        ("bursts", {"bursts": 10**6, "size": 10**6}, "more than 100,000,000 tasks"),
        ("parallel-tasks", {"shortest": 9, "longest": 8}, "is longer than the longest"),
        ("burn", {"shortest": 9, "longest": 8}, "is longer than the longest"),
        ("burn", {"kinds": "gpu:1"}, "unknown kind 'gpu'; the kinds are cpu, memory"),
        ("burn", {"kinds": "cpu:1,cpu:2"}, "each kind once"),
        ("burn", {"kinds": "cpu:0"}, "shares of kinds must be positive"),
        ("burn", {"kinds": "cpu:1:2"}, "kinds are written as kind:share"),
        ("burn", {"kinds": 7}, "kinds are written as kind:share"),
        ("burn", {"shape": "heap"}, "burn.shape: 'heap'"),
        ("burn", {"bursts": 10**5, "size": 10**5}, "more than 1,000,000 tasks"),
        ("sessions", {"day_start": 18, "day_end": 8}, "ends (8.0) before it starts (18.0)"),
        ("sessions", {"night": 0, "days": 0.3}, "before the first working day starts"),
        ("lublin", {"classes": "none"}, "lublin.classes: 'none'"),
        ("lublin", {"machine": 4}, "lublin.machine: 4"),
    ],
)
def test_an_invalid_parameter_is_an_error(name: str, parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        make_generator(name, **parameters)
    assert says in str(error.value)


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True, None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InputError, match="seed"):
        make_generator("poisson").generate(seed)


@pytest.mark.parametrize("name", ["poisson", "arrays", "lublin"])
def test_a_horizon_that_would_fill_the_memory_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="tasks are expected before the horizon"):
        make_generator(name, horizon=1e11, load=100).generate(1)


@pytest.mark.parametrize("name", list_generators())
def test_every_parameter_has_a_description_and_is_documented(name: str) -> None:
    kind = list_generators()[name]
    page = DOCS.read_text(encoding="utf-8")
    section = (
        page.split(f"## `{name}`")[1].split("\n## ")[0] + page.split("## Common parameters")[1]
    )
    assert {said.name for said in kind.parameters()} == set(kind.model_fields)
    for said in kind.parameters():
        assert said.meaning
        assert f"| `{said.name}` |" in section


def test_generators_are_immutable_values() -> None:
    description: Generator = make_generator("poisson")
    assert description == make_generator("poisson")
    with pytest.raises(ValueError, match="frozen"):
        description.tasks = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", list_generators())
def test_parameters_can_be_given_as_text(name: str) -> None:
    """Every default, written as text, gives the same description."""
    words = {}
    for said in list_generators()[name].parameters():
        if said.default is None:
            continue
        if said.name == "cores":
            words["cores"] = ",".join(f"{cores}:{weight}" for cores, weight in said.default)
        elif said.name == "kinds" and name == "burn":
            words["kinds"] = ",".join(f"{kind}:{share}" for kind, share in said.default)
        elif said.name == "kinds":
            words["kinds"] = ",".join(
                f"{kind.name}:{kind.cores}:{kind.share}:{kind.pace}" for kind in said.default
            )
        elif said.name == "lengths":
            words["lengths"] = ",".join(map(str, said.default))
        else:
            words[said.name] = str(said.default)
    assert make_generator(name, **words) == make_generator(name)


def test_tables_are_complete() -> None:
    tasks = make_generator("arrays", tasks=5).generate(1).tasks
    assert tasks.schema["parents"] == pl.List(pl.String)
    assert make_generator("poisson", horizon=1e-3, rate=1e-9).generate(1).tasks.is_empty()


@pytest.mark.parametrize(
    ("name", "parameters", "expected", "spread"),
    [
        ("poisson", {"rate": 0.5}, 50_000, 1.0),
        ("arrays", {"rate": 0.05, "mean_size": 10, "largest": 10_000}, 50_000, 19.0),
    ],
)
def test_a_horizon_alone_gives_all_earlier_tasks(
    name: str, parameters: dict[str, Any], expected: float, spread: float
) -> None:
    """The count is rate x horizon; its variance is that times E(size^2) / E(size)."""
    count = make_generator(name, horizon=1e5, **parameters).generate(1).tasks.height
    assert abs(count - expected) < 5 * math.sqrt(spread * expected)
