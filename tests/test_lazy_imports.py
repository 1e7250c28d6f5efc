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


BUILT_MODELS = """
import json
import pydantic
import twinloop.engine, twinloop.policy.filter_scheduler, twinloop.scenario.scenario

def subclasses(model):
    return [model, *(found for child in model.__subclasses__() for found in subclasses(child))]

models = [model for model in subclasses(pydantic.BaseModel) if "twinloop" in model.__module__]
complete = [model for model in models if model.__pydantic_complete__ and model.model_fields]
print(json.dumps([len(models), [model.__name__ for model in complete]]))
"""


def test_importing_the_descriptions_builds_no_validator() -> None:
    """A command uses few of the models, and a validator costs more than the class itself."""
    done = subprocess.run(
        [sys.executable, "-c", BUILT_MODELS], capture_output=True, check=True, text=True
    )
    count, complete = json.loads(done.stdout)
    assert count > 50
    assert complete == []


FIRST_USE_IN_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from twinloop.scenario import Scenario

sys.setswitchinterval(1e-6)
start = Barrier(8)

def make(_):
    start.wait()
    workload = {"generate": {"name": "poisson", "parameters": {"tasks": 3}}}
    return Scenario(platform="2x8", policy="easy", workload=workload)

with ThreadPoolExecutor(8) as threads:
    first, *others = threads.map(make, range(8))
assert all(other == first for other in others)
"""


def test_threads_that_use_a_description_first_make_equal_objects() -> None:
    subprocess.run([sys.executable, "-c", FIRST_USE_IN_THREADS], check=True)


SIMULATION = """
from contextlib import redirect_stdout, suppress
from io import StringIO
from twinloop.cli import app

words = ["simulate", "--workload", {log!r}, "--platform", "4x1", "--policy", "easy", "--json"]
with redirect_stdout(StringIO()), suppress(SystemExit):
    app(words)
"""


def test_a_simulation_with_json_output_loads_only_what_it_uses(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("1 0 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 -1 -1 -1\n")
    loaded = loaded_after(SIMULATION.format(log=str(log)))
    assert {"numpy", "polars", "pydantic", "twinloop.metrics.trace_figures"} <= loaded
    unused = HEAVY - {"numpy", "polars", "pydantic"}
    unused |= {"html.entities", "rich.console", "rich.progress", "xml.etree.ElementTree"}
    unused |= {"twinloop.policy.filter_scheduler", "twinloop.policy.ordered_batch"}
    # What is written in Python, given by path, stored as a state, or has sessions.
    unused |= {"twinloop.engine.new_rows", "twinloop.engine.path_values"}
    unused |= {"twinloop.engine.run_source", "twinloop.engine.simulation"}
    unused |= {"twinloop.policy.code_identity", "twinloop.policy.interface"}
    unused |= {"twinloop.workload.session_graph", "twinloop.workload.source"}
    unused |= {"twinloop.trace.summary"}
    unused |= {"twinloop.report.figures", "twinloop.workload.generators.registry"}
    assert unused & loaded == set()


def test_importing_the_packages_loads_no_library() -> None:
    names = {name.partition(".")[0] for name in loaded_after(f"import {', '.join(PACKAGES)}")}
    assert HEAVY & names == set()
