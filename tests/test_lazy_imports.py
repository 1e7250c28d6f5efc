"""Laws of packages that load each name on its first use, and of the cost of an import."""

import ast
import importlib
import json
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import cloudpickle
import pytest

import twinloop

ROOT = Path(twinloop.__file__).parent
STUBS = sorted(ROOT.rglob("__init__.pyi"))
PACKAGES = [".".join(["twinloop", *stub.parent.relative_to(ROOT).parts]) for stub in STUBS]
HEAVY = {
    *("dask", "distributed", "jinja2", "numpy", "plotly"),
    *("polars", "pydantic", "scipy", "sklearn", "yaml"),
}


def loaded_after(code: str) -> set[str]:
    """List the modules that are loaded after some code in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(json.loads(done.stdout))


def test_a_name_is_loaded_on_its_first_use_and_nothing_else_with_it() -> None:
    before = loaded_after("import twinloop.campaign as package; dir(package)")
    after = loaded_after("import twinloop.campaign as package; package.Outcome")
    assert "twinloop.campaign.outcome" in after - before
    assert "twinloop.campaign.coordinators" not in after


def test_the_lazy_packages_are_found() -> None:
    assert {"twinloop", "twinloop.trace", "twinloop.calibration", "twinloop.exploration"} < set(
        PACKAGES
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(dir(module)) == sorted(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    with pytest.raises(AttributeError, match="missing"):
        _ = module.missing


@pytest.mark.parametrize("stub", STUBS, ids=PACKAGES)
def test_the_public_names_of_a_stub_are_its_imports(stub: Path) -> None:
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    listed = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    assert set(ast.literal_eval(listed)) == imported


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_the_name_of_a_public_function(package: str) -> None:
    """A loaded module is an attribute of its package and would hide the function."""
    module = importlib.import_module(package)
    folder = Path(str(module.__file__)).parent
    inside = {path.stem for path in folder.glob("*.py")}
    inside |= {path.parent.name for path in folder.glob("*/__init__.py")}
    functions = {
        name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)
    }
    assert functions & inside == set()


def test_public_functions_are_plain_functions_with_their_own_help() -> None:
    for name in ("assess", "calibrate", "confirm", "execute", "explore", "loop", "simulate"):
        verb = getattr(twinloop, name)
        assert isinstance(verb, FunctionType)
        assert pydoc.render_doc(verb).startswith(
            f"Python Library Documentation: function {name} in"
        )


def test_a_function_that_uses_a_package_can_be_pickled() -> None:
    package = importlib.import_module("twinloop.metrics")

    def public_names() -> list[str]:
        return sorted(package.__all__)

    assert cloudpickle.loads(cloudpickle.dumps(public_names))() == public_names()


def test_errors_survive_pickling_under_their_public_names() -> None:
    error = twinloop.InputError("is no number", file="log.swf", line=3)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is twinloop.InputError
    assert type(again).__module__ == "twinloop"


def test_importing_the_packages_loads_no_library() -> None:
    names = {name.partition(".")[0] for name in loaded_after(f"import {', '.join(PACKAGES)}")}
    assert HEAVY & names == set()
