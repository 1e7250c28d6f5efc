"""The source in a scenario: names, options, objects, and their identity."""

import pytest

import twinloop as tl
from examples.source import Clients
from twinloop.description.class_registry import CodeNotAllowed
from twinloop.scenario.identity import Identities, values_to_hash
from twinloop.scenario.randomness import is_random
from twinloop.workload import Sessions, SourceDescription

NAMED = {"name": "examples.source:Clients", "options": {"clients": 1}}
TASKS = {"tasks": [{"id": name, "run_time": 5} for name in "abc"]}


def make(source):
    return tl.Scenario(platform="1x4", policy="fcfs", workload=TASKS, source=source)


def test_built_in_sources_have_names_with_options_too():
    assert SourceDescription.from_dict({"name": "rigid"}) == SourceDescription()
    named = {"name": "sessions", "options": {"threshold": "1h"}}
    assert SourceDescription.from_dict(named).sessions == Sessions(threshold=3600)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"name": "clients"}, "source.name: no source is called 'clients'"),
        ({**NAMED, "sessions": {"threshold": 1}}, "cannot be combined with 'name'"),
        ({"options": {"clients": 1}}, "source.options: has no effect without a name"),
        (
            {"name": "rigid", "options": {"n": 1}},
            r"source.options.n: is not an option of 'rigid' \(it has no options\)",
        ),
        ({"name": "x:Y", "object": "Source x:Y"}, "was an object in memory"),
    ],
)
def test_problems_have_their_place(source, text):
    with pytest.raises(tl.InputError, match=text):
        make(source)


def test_code_needs_permission_and_takes_options():
    scenario = make(NAMED)
    with pytest.raises(CodeNotAllowed):
        tl.simulate(scenario)
    run = tl.simulate(scenario, allow_code=True)
    assert run.tasks["submit"].to_list() == [0.0, 5.0, 10.0]
    assert tl.Scenario.from_manifest(run.manifest).source == scenario.source
    assert tl.Scenario.from_text(scenario.to_yaml()) == scenario
    assert make("examples.source:Clients").to_dict()["source"] == NAMED["name"]
    with pytest.raises(tl.InputError, match="clent: is not an option"):
        tl.simulate(make({**NAMED, "options": {"clent": 1}}), allow_code=True)
    with pytest.raises(tl.InputError, match="is not a source class"):
        tl.simulate(make("math:pi"), allow_code=True)


def test_an_object_stays_in_memory():
    scenario = make(Clients(1))
    with pytest.raises(tl.InputError, match="source: a file cannot contain an object in memory"):
        scenario.to_yaml()
    manifest = tl.simulate(scenario).manifest
    assert manifest.scenario["source"] == {
        "name": "examples.source:Clients",
        "object": "Source examples.source:Clients",
    }


def test_the_identity_of_a_scenario_has_the_code_of_its_source():
    plain = make("rigid")
    assert Identities().identify(plain) == {}
    found = {
        Identities(allow_code=True).identify(make(source))["source"]
        for source in (Clients(1), Clients(2), NAMED)
    }
    assert len(found) == 2
    assert is_random(make(Clients()))
    assert not is_random(plain)
    values = {"source": {"sessions": None, "name": None, "options": {}}}
    assert values_to_hash(values) == {"source": {"sessions": None}}
