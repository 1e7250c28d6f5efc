"""The public API of the extension: its examples run, and its types are those of the stub."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import twinloop.engine

ROOT = Path(__file__).resolve().parents[1]


def documented() -> dict[str, str]:
    """List the docstrings with examples of the public names and their members."""
    found = {}
    for name in twinloop.engine.__all__:
        public = getattr(twinloop.engine, name)
        for member, thing in [("", public), *getattr(public, "__dict__", {}).items()]:
            doc = getattr(thing, "__doc__", None) or ""
            if ">>>" in doc:
                found[f"{name}.{member}".rstrip(".")] = doc
    return found


@pytest.mark.parametrize("name", documented())
def test_examples_of_docstrings_run(name: str) -> None:
    examples = doctest.DocTestParser().get_doctest(documented()[name], {}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(examples).failed == 0


def test_every_public_name_is_documented() -> None:
    for name in twinloop.engine.__all__:
        public = getattr(twinloop.engine, name)
        assert public.__doc__, name
        if isinstance(public, type):
            assert public.__module__ == "twinloop.engine", name


def test_the_stub_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("nanobind")
    fresh = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "twinloop._core"]
    command += ["-p", str(ROOT / "core/bind/stub.pattern"), "-o", str(fresh)]
    subprocess.run(command, check=True)
    stub = ROOT / "src/twinloop/_core.pyi"
    assert fresh.read_text() == stub.read_text(), "run `make stub`"


def test_importing_the_extension_alone_works() -> None:
    assert importlib.import_module("twinloop._core").Environment is twinloop.engine.Environment


def test_an_environment_counts_its_resources_and_activities() -> None:
    env = twinloop.engine.Environment()
    assert repr(env) == "<Environment at 0: 0 resources, 0 activities>"
    host = env.resource(2.0)
    host.execute(10.0)
    assert repr(env) == "<Environment at 0: 1 resource, 1 activity>"
