"""Laws of packages whose names are fetched when they are first used."""

import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

import twinloop

PACKAGES = [
    "twinloop",
    *(
        f"twinloop.{file.parent.name}"
        for file in sorted(Path(twinloop.__file__).parent.glob("*/__init__.py"))
        if "defer_imports" in file.read_text(encoding="utf-8")
    ),
]
HEAVY = {"dask", "distributed", "numpy", "plotly", "polars", "pydantic", "scipy", "sklearn", "yaml"}

SING = {
    "__init__": """
from typing import TYPE_CHECKING
from twinloop._deferred import defer_imports
if TYPE_CHECKING:
    from sing import words
    from sing.choir import sing
    from sing.hum import hum
__all__ = ["hum", "sing", "words"]
defer_imports(__name__)
""",
    "choir": "def sing(what): return f'la {what}'",
    "hum": "def hum(): return 'mm'",
    "tune": "KEY = 'C'",
    "words": "",
}


@pytest.fixture
def sing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package that is called like one of its functions, another of which has its own module."""
    (tmp_path / "sing").mkdir()
    for name, code in SING.items():
        (tmp_path / "sing" / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("sing")
    for name in [name for name in sys.modules if name.partition(".")[0] == "sing"]:
        del sys.modules[name]


def loaded() -> set[str]:
    return {name for name in sys.modules if name.startswith("sing.")}


def test_a_name_is_fetched_when_it_is_used_and_only_that(sing: ModuleType) -> None:
    assert loaded() == set()
    assert dir(sing) == ["hum", "sing", "words"]
    assert loaded() == set()
    assert sing.sing("do") == "la do"
    assert loaded() == {"sing.choir"}
    assert "sing" in vars(sing), "the second time it is just there"


def test_a_package_called_like_its_function_can_be_called(sing: ModuleType) -> None:
    assert sing("re") == "la re"  # type: ignore[operator]


def test_a_module_does_not_cover_the_function_of_its_name(sing: ModuleType) -> None:
    importlib.import_module("sing.hum")
    assert sing.hum() == "mm"


def test_modules_are_attributes_and_nothing_else_is(sing: ModuleType) -> None:
    assert sing.tune.KEY == "C"
    assert isinstance(sing.words, ModuleType)
    for name in ("dance", "_homeless", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"module 'sing' has no attribute '{name}'"):
            getattr(sing, name)
    with pytest.raises(ImportError, match="cannot import name 'dance' from 'sing'"):
        exec("from sing import dance")


def test_a_function_that_names_a_package_goes_to_other_processes(sing: ModuleType) -> None:
    def song() -> str:
        return str(sing.sing("fa"))

    assert cloudpickle.loads(cloudpickle.dumps(song))() == "la fa"
    assert pickle.loads(pickle.dumps(sing)) is sing


def test_every_layer_of_names_is_among_them() -> None:
    assert {"twinloop.trace", "twinloop.calibration", "twinloop.exploration"} < set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_type_checkers_see_is_public(package: str) -> None:
    module = importlib.import_module(package)
    assert set(vars(module)["_homes"]) <= set(module.__all__)


def test_importing_the_packages_loads_no_library() -> None:
    code = (
        "import importlib, json, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *PACKAGES], capture_output=True, check=True, text=True
    )
    assert HEAVY & set(json.loads(done.stdout)) == set()
