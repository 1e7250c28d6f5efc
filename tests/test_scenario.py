"""Scenarios: reading, writing, checks and JSON schemas."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from twinloop.description import DescriptionError, InputError
from twinloop.description.errors import TwinloopWarning
from twinloop.exploration.confirmation.plan import ConfirmationPlan, compute_fingerprint
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.platform import Platform
from twinloop.policy import POLICIES, Policy, View, make_policy
from twinloop.scenario import MODEL_VALUES, Contention, Model, Scenario
from twinloop.scenario.identity import values_to_hash
from twinloop.scenario.schema import FOLDER, build_schemas
from twinloop.trace import Manifest, Trace
from twinloop.workload import Sessions, Workload
from twinloop.workload.generators import generate

EXAMPLES = Path(__file__).parent.parent / "examples"
HEAD = "platform: 2x8@2400MHz\nworkload: log.swf\npolicy: easy\n"
TASKS = "platform: 2x8@2400MHz\npolicy: easy\nworkload:\n  tasks:\n"
SIMPLE = Scenario.from_text(HEAD)


def example() -> Scenario:
    return Scenario.load(EXAMPLES / "scenario.yaml")


def test_the_example_is_read_completely() -> None:
    scenario = example()
    assert scenario.platform == Platform.load(EXAMPLES / "platform.yaml")
    assert scenario.policy.name == "easy"
    assert scenario.source.sessions is not None
    assert (scenario.source.sessions.by, scenario.source.sessions.threshold) == ("arrival", 3600.0)
    assert scenario.model.startup_overhead == 0.8
    assert scenario.model.overrides == {"clusters[0].hosts[0].power.idle": "65 W"}
    assert scenario.prices is not None
    assert scenario.prices.kwh == 0.25
    assert (scenario.model.demand, scenario.seed) == ("elastic", 7)
    assert scenario.workload.resolve(scenario.seed).tasks.height == 4000


def test_a_source_may_be_an_object_and_is_written_in_the_usual_form() -> None:
    users = Sessions(by="last", threshold="30min")
    scenario = SIMPLE.replace(source=users)
    assert scenario == Scenario(
        platform="2x8@2400MHz", workload="log.swf", policy="easy", source=users
    )
    assert scenario.source.sessions == users
    assert scenario.to_dict()["source"] == {"sessions": {"by": "last", "threshold": 1800}}
    assert Scenario.from_text(scenario.to_yaml()) == scenario
    assert Scenario.from_manifest(scenario.to_manifest()) == scenario
    changed = scenario.replace(**{"source.sessions.threshold": "1h"})
    assert changed.source.sessions == Sessions(by="last", threshold=3600)
    assert scenario.replace(source="rigid") == SIMPLE


@pytest.mark.parametrize("text", ["sessions:3600", "sessions:60min", "sessions:1h", "sessions: 1h"])
def test_sessions_have_a_short_form(text: str) -> None:
    assert SIMPLE.replace(source=text) == SIMPLE.replace(source=Sessions(threshold=3600))
    assert VALIDATOR.is_valid({**SIMPLE.to_dict(), "source": text})


def made(tasks: int) -> Trace:
    return generate("poisson", tasks=tasks)


@pytest.mark.parametrize("of", [lambda trace: trace, Workload.from_trace])
def test_a_workload_may_be_an_object_in_memory(of: Any) -> None:
    held = of(made(3))
    scenario = Scenario(platform="2x8", workload=held, policy="easy")
    assert scenario.workload.resolve(seed=5) is held
    assert scenario.replace(**{"seed": 3, "model.speed_factor": 2}).workload.resolve() is held
    assert scenario == Scenario(platform="2x8", workload=of(made(3)), policy="easy")
    assert scenario != Scenario(platform="2x8", workload=of(made(4)), policy="easy")
    assert hash(scenario) == hash(Scenario(platform="2x8", workload=of(made(3)), policy="easy"))
    assert pickle.loads(pickle.dumps(scenario)) == scenario
    assert scenario.inputs() == ()
    assert "3 tasks" in repr(scenario)


def test_an_object_cannot_be_written_and_the_manifest_has_its_summary(tmp_path: Path) -> None:
    scenario = SIMPLE.replace(workload=made(3))
    manifest = json.loads(json.dumps(scenario.to_manifest()))
    hashed = made(3).content_hash()
    assert manifest["workload"] == {"object": "Trace of 3 tasks", "sha256": hashed}
    with pytest.raises(InputError, match=r"workload: a file cannot contain .* 3 tasks.*save it"):
        scenario.to_yaml()
    with pytest.raises(InputError, match="cannot contain an object"):
        scenario.save(tmp_path / "s.yaml")
    assert not (tmp_path / "s.yaml").exists()
    with pytest.raises(InputError, match=r"workload\.object: was an object in memory"):
        Scenario.from_manifest(manifest)
    assert Scenario.from_manifest({**manifest, "workload": made(3)}) == scenario


def test_other_objects_are_refused_as_workload() -> None:
    with pytest.raises(InputError, match="must be a Trace or a Workload, not 3"):
        SIMPLE.replace(workload={"object": 3})
    with pytest.raises(InputError, match="cannot be combined with 'path'"):
        SIMPLE.replace(workload={"path": "log.swf", "object": made(1)})


class Idle(Policy):
    def decide(self, view: View) -> None:
        return None


def test_a_policy_may_be_an_object() -> None:
    scenario = SIMPLE.replace(policy=make_policy("fair-share", half_life="1d"))
    assert scenario.policy.options == {"half_life": 86400}
    assert scenario.policy.resolve() == make_policy("fair-share", half_life=86400)
    assert Scenario.from_text(scenario.to_yaml()) == scenario

    mine = Idle()
    scenario = SIMPLE.replace(policy=mine)
    assert scenario.policy.resolve() is mine
    assert scenario.replace(seed=9).policy.resolve() is mine
    assert scenario.policy.name == f"{__name__}:Idle"
    with pytest.raises(InputError, match=r"policy: a file cannot contain .*name its class"):
        scenario.to_yaml()


def test_code_is_named_by_a_scenario_and_runs_only_with_permission() -> None:
    scenario = SIMPLE.replace(policy={"name": "no.such.module:Policy", "options": {"a": 1}})
    with pytest.raises(InputError, match="--allow-code"):
        scenario.policy.resolve()
    with pytest.raises(InputError, match="cannot be imported"):
        scenario.policy.resolve(allow_code=True)


def test_the_values_of_a_model_are_its_numbers_in_order() -> None:
    numbers = [name for name, field in Model.model_fields.items() if field.annotation is float]
    assert list(MODEL_VALUES) == numbers
    model = Model(**{name: float(n) for n, name in enumerate(MODEL_VALUES, start=1)})
    assert model.values() == (1, 2, 3, 4, 5, 6, 7)


def test_overrides_change_only_the_platform_of_the_run() -> None:
    scenario = example()
    changed = scenario.effective_platform().clusters[0].hosts[0].power
    assert changed is not None
    assert changed.to_dict() == {"model": "mse", "idle": 65, "max": 240, "r": 1.4}
    given_power = scenario.platform.clusters[0].hosts[0].power
    assert given_power is not None
    assert given_power.to_dict()["idle"] == 60


CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "platform": st.sampled_from(["100x1", "4x64@2.5GHz/256GiB"]),
    "policy": st.sampled_from(POLICIES) | st.just("my.module:Policy")
    | st.just({"name": "filter", "options": {"filters": {"vcpu": 2.0}, "skip": True}})
    | st.just({"name": "fair-share", "options": {"half_life": "1d", "backfill": "easy"}}),
    "source": st.just("rigid") | st.fixed_dictionaries(
        {"sessions": st.fixed_dictionaries(
            {"by": st.sampled_from(["arrival", "last", "max"]), "threshold": st.floats(0, 1e6)})}),
    "workload": st.just("folder/log.swf.gz") | st.just({"path": "x", "format": "swf"})
    | st.just({"generate": {"name": "bursts", "parameters": {"size": 3}}})
    | st.just({"path": "x", "command": ["echo", "{id}"], "environment": {"A": "1"}, "folder": "y"})
    | st.just({"tasks": [{"id": "a", "run_time": "1min"}, {"id": "b", "parents": ["a"], "cores": 2,
                          "command": ["true"], "memory": "1GiB"}],
               "prepare": [{"command": ["tar", "xf", "z"], "creates": "z"}]}),
    "time_scale": st.floats(0.01, 100),
    "failures": st.sampled_from(
        [None, {"trace": "down.csv"}, {"mtbf": "30d", "mttr": 3600, "on_failure": "lost"},
         {"mtbf": 9e5, "mttr": 1, "distribution": "weibull", "shape": 0.7, "on_failure": "resume",
          "checkpoint_interval": "1h", "checkpoint_cost": 3}]),
    "prices": st.sampled_from([None, {"kwh": 0.3, "core_hour": 0.01, "currency": "USD"}]),
    "seed": st.integers(0, 2**62),
    "model.speed_factor": st.floats(0.01, 100),
    "model.sharing": st.sampled_from(["stretch", "no-delay"]),
    "model.kill_at_requested_time": st.booleans(),
    "model.demand": st.sampled_from(["elastic", "fixed"]),
    "model.dispatch_latency": st.floats(0, 100),
    "model.contention": st.sampled_from(
        ["none", {"linear": {"slope": 0.2}}, {"table": [[1, 1], [2, 1.2], [4, 1.6]]},
         {"kinds": {"cpu": {}, "cache": {"pressure": 0.5, "sensitivity": 1}}}]),
}  # fmt: skip


@given(st.fixed_dictionaries({}, optional=CHANGES))
def test_a_scenario_survives_text_manifest_and_process(changes: dict[str, Any]) -> None:
    scenario = SIMPLE.replace(**changes)
    assert Scenario.from_text(scenario.to_yaml()) == scenario
    assert Scenario.from_dict(scenario.to_dict(complete=True)) == scenario
    manifest = Manifest(scenario=scenario.to_manifest())
    kept = Manifest.model_validate(json.loads(manifest.model_dump_json()))
    assert Scenario.from_manifest(kept) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario


@given(st.fixed_dictionaries({}, optional=CHANGES))
def test_replacing_all_at_once_is_replacing_one_by_one(changes: dict[str, Any]) -> None:
    one_by_one = SIMPLE
    for path, value in changes.items():
        one_by_one = one_by_one.replace(**{path: value})
    assert SIMPLE.replace(**changes) == one_by_one


def test_parts_of_an_unnamed_kind_are_reached_by_quoted_names() -> None:
    scenario = SIMPLE.replace(
        **{
            "policy.options.depth": 2,
            'model.overrides["clusters[0].hosts[0].count"]': 5,
            "platform.clusters[0].hosts[0].cores": 4,
        }
    )
    assert scenario.policy.options == {"depth": 2}
    assert scenario.effective_platform().shorthand == "5x4@2400MHz"


def test_short_forms_are_written_short() -> None:
    text = SIMPLE.to_yaml()
    assert "workload: log.swf\n" in text
    assert "policy: easy\n" in text
    assert "model" not in text


@pytest.mark.parametrize(
    ("text", "line", "field", "message"),
    [
        (HEAD.replace("easy", "esay"), 3, "policy", "did you mean 'easy'?"),
        (HEAD.replace("easy", "{name: fcsf}"), 3, "policy.name", "did you mean 'fcfs'?"),
        (HEAD.replace("easy", "a b:C"), 3, "policy", "no policy is called"),
        (HEAD.replace("policy: easy\n", ""), 1, "policy", "is missing"),
        (
            HEAD.replace("easy", "\n  name: conservative\n  options: {dept: 3}"),
            5,
            "policy.options.dept",
            "did you mean 'depth'? options: depth, compress",
        ),
        (
            HEAD.replace("easy", "{name: filter, options: {filters: {vpcu: 3}}}"),
            3,
            "policy.options.filters.vpcu",
            "did you mean 'vcpu'?",
        ),
        (
            HEAD.replace("easy", "{name: 'my.own:Policy', object: 'Policy my.own:Policy'}"),
            3,
            "policy.object",
            "was an object in memory",
        ),
        (HEAD + "source: sessions:soon\n", 4, "source", "must be a duration, not 'soon'"),
        (HEAD + "prices: {kwh: -1}\n", 4, "prices.kwh", "must not be negative"),
        (HEAD + "failures: {mtbf: 1d}\n", 4, "failures.mttr", "is missing"),
        (HEAD + "failures: {}\n", 4, "failures", "needs a trace or mean times"),
        (HEAD + "failures: {mtbf: 0, mttr: 1}\n", 4, "failures.mtbf", "must be positive"),
        (
            HEAD + "failures: {trace: down.csv, mttr: 1}\n",
            4,
            "failures.mttr",
            "cannot be combined with a trace",
        ),
        (
            HEAD + "failures: {mtbf: 1d, mttr: 1h, shape: 0.7}\n",
            4,
            "failures.shape",
            "unless the distribution is 'weibull'",
        ),
        (
            HEAD + "failures: {mtbf: 1d, mttr: 1h, distribution: weibull}\n",
            4,
            "failures.shape",
            "is missing",
        ),
        (
            HEAD + "failures: {mtbf: 1d, mttr: 1h, distribution: weibull, shape: 0.1}\n",
            4,
            "failures.shape",
            "must be between 0.2 and 20",
        ),
        (
            HEAD + "failures: {trace: x, on_failure: resume}\n",
            4,
            "failures.checkpoint_interval",
            "is missing",
        ),
        (
            HEAD + "failures: {trace: x, checkpoint_cost: 1}\n",
            4,
            "failures.checkpoint_cost",
            "unless on_failure is 'resume'",
        ),
        (HEAD + "model:\n  sharing: none\n", 5, "model.sharing", "one of stretch, no-delay"),
        (HEAD.replace("2x8@2400MHz", "2x8@2400mhz"), 1, "platform", "did you mean 'MHz'?"),
        (HEAD.replace("2x8@2400MHz", "9" * 11 + "x1"), 1, "platform", "too many nodes"),
        (HEAD.replace("2x8@2400MHz", "none.yaml"), 1, "platform", "nor an existing file"),
        (HEAD + "sede: 3\n", 4, "sede", "did you mean 'seed'?"),
        (HEAD + "seed: -1\n", 4, "seed", "must not be negative"),
        (HEAD + "source: loose\n", 4, "source", "'loose' is not a source"),
        (HEAD + "source: session:3600\n", 4, "source", "such as sessions:3600"),
        (
            HEAD + "source: sessions\n",
            4,
            "source",
            "'sessions' is not a source (use rigid, sessions:S",
        ),
        (HEAD + "source: 'sessions: '\n", 4, "source", "'sessions: ' is not a source"),
        (HEAD + "source: {sessions: {by: arrival}}\n", 4, "source.sessions.threshold", "missing"),
        (
            HEAD + "source:\n  sessions:\n    by: end\n    threshold: 1h\n",
            6,
            "source.sessions.by",
            "must be one of arrival, last, max, not 'end'",
        ),
        (
            HEAD.replace("log.swf", "{format: swf, generate: {name: bursts}}"),
            2,
            "workload.format",
            "has no effect without a path",
        ),
        (
            HEAD.replace("log.swf", "{}"),
            2,
            "workload",
            "needs a path, a generator, workflows or tasks",
        ),
        (
            HEAD.replace("log.swf", "{path: x, generate: {name: poisson, parameters: {tasks: 1}}}"),
            2,
            "workload.generate",
            "cannot be combined with 'path'",
        ),
        (
            HEAD.replace("log.swf", "{generate: {name: posson}}"),
            2,
            "workload.generate.name",
            "did you mean 'poisson'?",
        ),
        (
            HEAD.replace("log.swf", "{generate: {name: lublin, parameters: {taks: 3}}}"),
            2,
            "workload.generate.parameters.taks",
            "did you mean 'tasks'?",
        ),
        (HEAD + "model:\n  speed_factor: 0\n", 5, "model.speed_factor", "must be positive"),
        (HEAD + "model:\n  demand: loose\n", 5, "model.demand", "must be one of elastic, fixed"),
        (
            HEAD + "model:\n  contention:\n    linear: {slope: 1}\n    table: [[1, 1]]\n",
            7,
            "model.contention.table",
            "cannot be combined with 'linear'",
        ),
        (
            HEAD + "model:\n  contention:\n    table: [[1, 0.9]]\n",
            6,
            "model.contention.table[0][1]",
            "must be at least 1",
        ),
        (
            HEAD + "model:\n  overrides:\n    clusters[0].hosts[0].coers: 3\n",
            6,
            'model.overrides["clusters[0].hosts[0].coers"]',
            "did you mean 'cores'?",
        ),
        (
            HEAD
            + "model:\n  overrides:\n    clusters[0].hosts[0].cores: 3\n    clusters[9].x: 1\n",
            7,
            'model.overrides["clusters[9].x"]',
            "has no item 9",
        ),
        (
            HEAD + "model:\n  overrides:\n    clusters[0].hosts[0].mhz: 3 GHzz\n",
            6,
            'model.overrides["clusters[0].hosts[0].mhz"]',
            "'GHzz' is not a unit for a frequency",
        ),
        (
            TASKS + "  - {id: a, command: echo hello}\n",
            5,
            "workload.tasks[0].command",
            "must be a list of a program and its arguments, not a text",
        ),
        (TASKS + "  - {id: a, command: []}\n", 5, "workload.tasks[0].command", "no program"),
        (
            TASKS + "  - {id: a, environment: {A=B: 1}}\n",
            5,
            "workload.tasks[0].environment",
            "is not a name of an environment variable",
        ),
        (TASKS + "  - {id: a}\n  - {id: a}\n", 6, "workload.tasks[1].id", "duplicate id 'a'"),
        (
            TASKS + "  - {id: first}\n  - {id: b, parents: [frist]}\n",
            6,
            "workload.tasks[1].parents[0]",
            "did you mean 'first'?",
        ),
        (HEAD + "time_scale: 0\n", 4, "time_scale", "must be positive"),
        (
            HEAD + "model:\n  overrides: {'..': 3}\n",
            5,
            'model.overrides[".."]',
            "is not a path",
        ),
    ],
)
def test_each_kind_of_problem_is_reported_with_its_place(
    text: str, line: int, field: str, message: str
) -> None:
    with pytest.raises(DescriptionError) as caught:
        Scenario.from_text(text, file="s.yaml")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.field) == ("s.yaml", line, field)
    assert message in str(problem)


def test_listed_tasks_are_the_workload() -> None:
    scenario = Scenario.from_text(
        TASKS
        + "  - {id: a, run_time: 2s, cores: 3, submit: 1min}\n"
        + "  - {id: b, run_time: 1s, command: [own, 1], parents: [a]}\n"
        + "  command: [shared, '{id}']\n  environment: {N: 2}\n"
    )
    tasks = scenario.workload.resolve().tasks
    assert tasks.select("id", "submit", "cores", "work").rows() == [
        ("a", 60.0, 3.0, 6.0),
        ("b", 0.0, 1.0, 1.0),
    ]
    assert tasks["command"].to_list() == [["shared", "{id}"], ["own", "1"]]
    assert tasks["environment"].to_list() == [[{"name": "N", "value": "2"}]] * 2
    assert tasks["parents"].to_list() == [[], ["a"]]
    assert tl.simulate(scenario).placements["start"].to_list() == [60.0, 62.0]


def test_paths_of_commands_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD.replace("log.swf", "{path: log.swf, folder: here}"))
    found = Scenario.load(path).workload.folder
    assert found is not None
    assert Path(found) == tmp_path / "here"


def test_a_problem_in_a_referenced_platform_is_reported_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("clusters:\n- hosts:\n  - cores: 0\n")
    (tmp_path / "s.yaml").write_text(HEAD.replace("2x8@2400MHz", "p.yaml") + "seed: x\n")
    with pytest.raises(DescriptionError) as caught:
        Scenario.load(tmp_path / "s.yaml")
    places = {(problem.file, problem.line, problem.field) for problem in caught.value.problems}
    assert places == {
        (str(tmp_path / "p.yaml"), 3, "clusters[0].hosts[0].cores"),
        (str(tmp_path / "s.yaml"), 4, "seed"),
    }


def test_notes_on_a_topology_stay_with_the_scenario(tmp_path: Path) -> None:
    host = {"cpu": {"coreCount": 2, "coreSpeed": 2000}, "memory": {"memorySize": "1 GiB"}}
    (tmp_path / "t.json").write_text(json.dumps({"clusters": [{"hosts": [host]}]}))
    (tmp_path / "s.yaml").write_text(HEAD.replace("2x8@2400MHz", "t.json"))
    scenario = Scenario.load(tmp_path / "s.yaml")
    assert [note.kind for note in scenario.notes] == ["assumed", "assumed"]
    changed = scenario.replace(**{"platform.clusters[0].hosts[0].cores": 3})
    assert changed.notes == scenario.notes
    assert changed.platform.total_cores == 3


def test_paths_are_relative_to_the_file_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.swf").write_bytes(b"; a log\n")
    (tmp_path / "in" / "s.yaml").write_text(
        "platform:\n  clusters:\n  - {hosts: [{cores: 1}], carbon: none.parquet}\n"
        "workload: log.swf\npolicy: fifo\nfailures: {trace: down.csv}\n"
    )
    scenario = Scenario.load(tmp_path / "in" / "s.yaml")
    log, carbon, failures = scenario.inputs()
    assert failures == ((tmp_path / "in" / "down.csv").as_posix(), None)
    assert log == (
        (tmp_path / "in" / "log.swf").as_posix(),
        hashlib.sha256(b"; a log\n").hexdigest(),
    )
    assert carbon.sha256 is None
    assert scenario.to_manifest()["inputs"] == dict([log, carbon, failures])


def test_a_folder_is_hashed_file_by_file(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    scenario = SIMPLE.replace(workload=str(tmp_path))
    assert [Path(file.name).name for file in scenario.inputs()] == ["a", "b"]


def test_a_path_is_read_as_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def read(path: str, format: str | None, **options: Any) -> Trace:
        asked.extend([path, format, options])
        return Trace()

    monkeypatch.setattr("twinloop.scenario.parts.read", read)
    workload = {"path": "log.swf", "format": "swf", "options": {"strict": True}}
    assert SIMPLE.replace(workload=workload).workload.resolve() == Trace()
    assert asked == ["log.swf", "swf", {"strict": True}]


def test_a_manifest_without_a_scenario_gives_none() -> None:
    with pytest.raises(InputError, match="has no scenario"):
        Scenario.from_manifest(Manifest())


def test_the_default_model_changes_nothing() -> None:
    model = Model()
    assert model.to_dict() == {}
    assert (model.speed_factor, model.service_factor, model.effective_capacity) == (1, 1, 1)
    assert model.startup_overhead == model.dispatch_latency == model.release_latency == 0
    assert model.contention == Contention.from_dict("none")


# --- numbers out of range ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 2**63}, "seed: must be at most"),
        ({"seed": int("9" * 400)}, "seed: must be at most"),
        (
            {"model.dispatch_latency": 1e16},
            r"1e\+16 s is beyond 1e\+15 s, the largest duration",
        ),
        ({"model.dispatch_latency": "1e12 d"}, r"is beyond 1e\+15 s"),
        (
            {"workload": {"tasks": [{"id": "a", "run_time": 2e15}]}},
            r"is beyond 1e\+15 s",
        ),
        (
            {
                "platform.clusters[0].hosts[0].power": {
                    "model": "linear",
                    "idle": 1,
                    "max": "1e10 MW",
                }
            },
            r"1e\+16 W is beyond 1e\+15 W, the largest power",
        ),
    ],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    with pytest.raises(InputError, match=message):
        scenario.replace(**changes)


def test_a_time_scale_that_exceeds_the_latest_time_is_refused() -> None:
    workload = {"tasks": [{"id": "a", "run_time": 1, "submit": 10}]}
    scenario = Scenario(platform="2x8", workload=workload, policy="easy", time_scale=1e300)
    with pytest.raises(InputError, match=r"time_scale: .* beyond the limit of 1e\+15 s"):
        tl.simulate(scenario)


@pytest.mark.parametrize("many", [0, 2**63 - 1])
def test_repetitions_are_bounded(many: int) -> None:
    candidate = Candidate(
        "a", Scenario(platform="2x8", workload="log.swf", policy="easy"), {"makespan_s": 1.0}
    )
    with pytest.raises(InputError, match="repetitions: must be from 1 to 10,000"):
        ConfirmationPlan((candidate,), candidate, repetitions=many, seed=0)


# --- the published schemas -----------------------------------------------------------------------


def test_the_published_schemas_are_up_to_date() -> None:
    for name, schema in build_schemas().items():
        published = json.loads((FOLDER / name).read_text(encoding="utf-8"))
        assert published == schema, "run: python -m twinloop.scenario.schema"


def fields_of(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    parts = {"": schema, **schema["$defs"]}
    found = []
    for name, part in parts.items():
        for whole in [part, *part.get("anyOf", [])]:
            found += [(f"{name}.{field}", of) for field, of in whole.get("properties", {}).items()]
    return found


@pytest.mark.parametrize("name", sorted(build_schemas()))
def test_every_field_of_a_schema_has_a_title_and_a_description(name: str) -> None:
    fields = fields_of(build_schemas()[name])
    assert len(fields) > 40
    for field, schema in fields:
        assert schema.get("title"), field
        assert schema.get("description"), field


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        ("platform.yaml", "platform.schema.json"),
        ("scenario.yaml", "scenario.schema.json"),
        ("cost.yaml", "scenario.schema.json"),
    ],
)
def test_the_examples_are_valid_by_the_schema(file: str, schema: str) -> None:
    validator = jsonschema.Draft202012Validator(build_schemas()[schema])
    jsonschema.Draft202012Validator.check_schema(build_schemas()[schema])
    validator.validate(yaml.safe_load((EXAMPLES / file).read_text(encoding="utf-8")))


VALIDATOR = jsonschema.Draft202012Validator(build_schemas()["scenario.schema.json"])


@given(st.fixed_dictionaries({}, optional=CHANGES))
def test_a_written_scenario_is_valid_by_the_schema(changes: dict[str, Any]) -> None:
    scenario = SIMPLE.replace(**changes)
    VALIDATOR.validate(scenario.to_dict())
    VALIDATOR.validate(scenario.to_dict(complete=True))


@pytest.mark.parametrize(
    "broken",
    [
        {"seed": -1},
        {"policy": "esay"},
        {"policy": {"name": "easy", "options": {"dept": 3}}},
        {"policy": {"name": "fair-share", "options": {"half_life": 0}}},
        {"source": "sessions:"},
        {"failures": {"mtbf": 0, "mttr": 1}},
        {"source": "loose"},
        {"platfrom": "2x8"},
        {"model": {"speed_factor": 0}},
        {"model": {"startup_overhead": "5 parsecs"}},
        {"platform": {"clusters": []}},
        {"platform": {"clusters": [{"hosts": [{"cores": 1, "power": {"idle": 1, "max": 2}}]}]}},
    ],
)
def test_the_schema_refuses_the_same_scenarios_as_the_program(broken: dict[str, Any]) -> None:
    values = copy.deepcopy(SIMPLE.to_dict()) | broken
    assert not VALIDATOR.is_valid(values)
    with pytest.raises(InputError):
        Scenario.from_dict(values)


def test_a_workload_is_read_from_its_file(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("1 0 5 10 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1\nno line of a log\n")
    here = {"platform": "2x8", "policy": "easy"}
    scenario = Scenario(**here, workload=str(log))
    assert scenario.workload.resolve().tasks["run_time"].to_list() == [10.0]
    for options, message in (
        ({"strict": True}, "log.swf:2"),
        ({"colour": "red"}, "has no option 'colour'"),
        ({"path": "other.swf"}, "is a field of the workload"),
    ):
        scenario = Scenario(**here, workload={"path": str(log), "options": options})
        with pytest.raises(InputError, match=message):
            scenario.workload.resolve()


# --- the renamed key `failures.then` -------------------------------------------------------------

_OLD = HEAD + "failures: {mtbf: 30d, mttr: 4h, then: lost}\n"
_NEW = HEAD + "failures: {mtbf: 30d, mttr: 4h, on_failure: lost}\n"
_RENAMED = r"failures: the key 'then' is now called 'on_failure'"


def test_the_old_key_of_on_failure_is_read_with_a_warning_and_written_under_its_new_name() -> None:
    with pytest.warns(TwinloopWarning, match=_RENAMED):
        scenario = Scenario.from_text(_OLD)
    assert scenario == Scenario.from_text(_NEW)
    assert "on_failure: lost" in scenario.to_yaml()
    assert "then" not in scenario.to_yaml()
    assert scenario.to_manifest()["failures"]["on_failure"] == "lost"
    for text in (_OLD, _NEW):
        jsonschema.validate(yaml.safe_load(text), build_schemas()["scenario.schema.json"])


def test_a_manifest_with_the_old_key_of_on_failure_is_read_with_a_warning() -> None:
    scenario = Scenario.from_text(_NEW)
    stored = scenario.to_manifest()
    stored["failures"]["then"] = stored["failures"].pop("on_failure")
    with pytest.warns(TwinloopWarning, match=_RENAMED):
        assert Scenario.from_manifest(stored) == scenario


def test_the_old_path_of_on_failure_is_replaced_with_a_warning() -> None:
    scenario = Scenario.from_text(_NEW)
    with pytest.warns(TwinloopWarning, match="'failures.then' is now called 'failures.on_failure'"):
        changed = scenario.replace(**{"failures.then": "restart"})
    assert changed == scenario.replace(**{"failures.on_failure": "restart"})


def test_the_old_and_the_new_key_of_on_failure_together_are_an_error() -> None:
    with pytest.raises(InputError, match="has both 'then' and 'on_failure'"):
        Scenario.from_text(_NEW.replace("}", ", then: lost}"))


def test_the_renaming_of_on_failure_changes_no_hash_of_a_recorded_run() -> None:
    """The digests were taken before the key was renamed."""
    generated = {"generate": {"name": "poisson", "parameters": {"tasks": 10}}}
    failures = {"mtbf": "30d", "mttr": "4h"}
    scenario = Scenario(platform="2x4", policy="easy", workload=generated, failures=failures)
    stored = scenario.to_manifest()
    before = "5f8687503a735f56f444cb6d13a70cf3796c59cf003fdb262df0f471b94c9105"
    assert compute_fingerprint(stored) == before
    stored["failures"]["then"] = stored["failures"].pop("on_failure")
    assert compute_fingerprint(stored) == before
    values = values_to_hash(scenario.to_dict(complete=True))
    text = json.dumps(values, sort_keys=True).encode()
    assert hashlib.sha256(text).hexdigest() == (
        "8e61c91a21d545346e538dc7a161fbc4377656ae8e32fb3af71dd0f0241aad50"
    )
