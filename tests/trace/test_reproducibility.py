"""The same scenario and seed give the same bytes of a saved trace, apart from measured times."""

import json
from pathlib import Path

from typer.testing import CliRunner

import twinloop as tl
from twinloop.cli import app
from twinloop.trace.folder import MANIFEST, TIMINGS

SCENARIO = """
platform:
  clusters: [{hosts: [{count: 4, cores: 4, power: {model: linear, idle: 50 W, max: 200 W}}]}]
workload: {generate: {name: poisson, parameters: {tasks: 200}}}
policy: easy
failures: {mtbf: 1h, mttr: 5min}
seed: 7
"""


def hashed(folder: Path) -> dict[str, bytes]:
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name != TIMINGS}
    assert set(files) == {MANIFEST, *json.loads(files[MANIFEST])["tables"]}
    return files


def test_two_runs_save_the_same_bytes(tmp_path):
    scenario = tl.Scenario.from_text(SCENARIO)
    options = {"usage_step": 60.0, "decisions": True}
    first = tl.simulate(scenario, **options)
    second = tl.simulate(tl.Scenario.from_text(SCENARIO), **options)
    assert hashed(first.save(tmp_path / "a")) == hashed(second.save(tmp_path / "b"))
    assert first == second


def test_the_command_saves_the_same_bytes(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    for name in ("a", "b"):
        arguments = ["simulate", str(tmp_path / "scenario.yaml"), "-o", str(tmp_path / name)]
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert hashed(tmp_path / "a") == hashed(tmp_path / "b")
    here = tl.simulate(tl.load(tmp_path / "scenario.yaml")).save(tmp_path / "c")
    assert hashed(tmp_path / "a") == hashed(here)


def test_times_are_stored_beside_the_manifest(tmp_path):
    trace = tl.simulate(tl.Scenario.from_text(SCENARIO))
    assert trace.timings["wall_s"] > 0
    assert "wall_s" not in trace.manifest.facts["run"]
    folder = trace.save(tmp_path / "run")
    again = tl.Trace.load(folder)
    assert again.timings == trace.timings
    assert again.with_manifest(seed=8).timings == trace.timings
    again.save(folder, overwrite=True)
    assert tl.Trace.load(folder).timings == trace.timings


def test_a_trace_is_read_without_its_times(tmp_path):
    folder = tl.simulate(tl.Scenario.from_text(SCENARIO)).save(tmp_path / "run")
    for text in ("", "{", "[]", '{"wall_s": "long"}', '{"wall_s": 1e400}', '{"wall_s": NaN}'):
        (folder / TIMINGS).write_text(text)
        assert tl.Trace.load(folder).timings == {}, text
    (folder / TIMINGS).unlink()
    assert tl.Trace.load(folder).timings == {}
