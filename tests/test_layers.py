"""Law: a layer uses only the layers above it in the lists below, in Python and in C++."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Bottom first: each may import those before it, and twinloop._core.
PYTHON_LAYERS = [
    "description",
    "trace",
    "recordings",
    "platform",
    "workload",
    "policy",
    "scenario",
    "engine",
    "execution",
    "metrics",
    "fidelity",
    "campaign",
    "calibration",
    "exploration",
    "portfolio",
    "report",
    "cli",
]
CORE_LAYERS = [
    *("kernel", "platform", "work", "control", "record", "world"),
    *("io", "host", "burn", "bind"),
]

# Names of the package itself that every layer may import; the rest of twinloop/__init__.py is the
# public API of all layers, and so is above them.
SHARED_NAMES = {"_core", "__version__"}


def imported_modules(file: Path, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, wherever in the file, by statement or by function."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def python_violations(source: Path) -> list[str]:
    """Imports under source/twinloop that a layer may not make."""
    found = []
    root = source / "twinloop"
    for file in sorted([*root.rglob("*.py"), *root.rglob("*.pyi")]):
        path = file.relative_to(root)
        layer = path.parts[0].partition(".")[0]
        if layer in {"__init__", "__main__", "_core"}:
            continue
        if layer not in PYTHON_LAYERS:
            found.append(f"{path}: '{layer}' is no layer of the design")
            continue
        allowed = set(PYTHON_LAYERS[: PYTHON_LAYERS.index(layer) + 1]) | SHARED_NAMES
        package = ".".join(["twinloop", *path.parts[:-1]])
        for line, module in imported_modules(file, package):
            top, *rest = module.split(".")
            if top == "twinloop" and (not rest or rest[0] not in allowed):
                found.append(f"{path}:{line}: '{layer}' may not import {module}")
    return found


INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def core_violations(core: Path) -> list[str]:
    """Includes under core/ that a layer may not make."""
    found = []
    for layer in CORE_LAYERS:
        allowed = CORE_LAYERS[: CORE_LAYERS.index(layer) + 1]
        for file in sorted((core / layer).rglob("*")):
            if file.suffix not in {".cpp", ".hpp", ".h"}:
                continue
            lines = file.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                header = match[1]
                of_python = header == "Python.h" or header.startswith("nanobind/")
                target = included_layer(core, file, header)
                if (of_python and layer != "bind") or (target and target not in allowed):
                    place = f"{file.relative_to(core)}:{number}"
                    found.append(f"{place}: '{layer}' may not include {header}")
    return found


def included_layer(core: Path, file: Path, header: str) -> str | None:
    """The layer of core/ that a header belongs to, looked up as the compiler does."""
    for candidate in (file.parent / header, core / header):
        path = candidate.resolve()
        if path.is_relative_to(core.resolve()):
            layer = path.relative_to(core.resolve()).parts[0]
            if layer in CORE_LAYERS and (path.exists() or candidate == core / header):
                return layer
    return None


def test_python_packages_import_only_from_layers_above_them() -> None:
    assert python_violations(ROOT / "src") == []


def test_every_folder_of_the_core_is_a_layer() -> None:
    folders = {each.name for each in (ROOT / "core").iterdir() if each.is_dir()}
    assert folders == {*CORE_LAYERS, "tests"}


def test_core_folders_include_only_from_layers_above_them_and_only_bind_includes_python() -> None:
    assert core_violations(ROOT / "core") == []


@pytest.mark.parametrize(
    ("file", "code", "legal"),
    [
        ("engine/clock.py", "from twinloop._core import Kernel", True),
        ("engine/clock.py", "from twinloop import _core", True),
        ("engine/clock.py", "from .. import __version__", True),
        ("engine/clock.py", "from .queue import Queue", True),
        ("engine/clock.py", "from ..trace import Trace", True),
        ("engine/deep/clock.py", "from ...trace.tables import Tasks", True),
        ("cli.py", "import twinloop.report.html", True),
        ("__init__.py", "from .report import view", True),
        ("trace/tables.py", "import numpy as np", True),
        ("trace/__init__.pyi", "from .trace import Trace", True),
        ("trace/__init__.pyi", "from ..engine import simulate", False),
        ("description/files.py", "from twinloop.trace import Trace", False),
        ("trace/tables.py", "from ..engine import Environment", False),
        ("trace/tables.py", "from twinloop.engine.clock import Clock", False),
        ("trace/tables.py", "import twinloop.report as report", False),
        ("trace/tables.py", "from twinloop import engine", False),
        ("trace/tables.py", "import twinloop", False),
        ("trace/tables.py", "def plot():\n    from ..report import plots", False),
        ("trace/tables.py", "import_module('twinloop.report').Plots", False),
        ("report/tables.py", "importlib.import_module('twinloop.trace')", True),
        ("scenario.py", "from .engine import simulate", False),
        ("utils/strings.py", "", False),
    ],
)
def test_the_python_check_finds_violations(
    tmp_path: Path, file: str, code: str, legal: bool
) -> None:
    path = tmp_path / "twinloop" / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert (python_violations(tmp_path) == []) is legal


@pytest.mark.parametrize(
    ("file", "code", "legal"),
    [
        ("kernel/queue.cpp", '#include "kernel/queue.hpp"', True),
        ("kernel/queue.cpp", "#include <vector>", True),
        ("bind/module.cpp", "#include <nanobind/nanobind.h>", True),
        ("bind/module.cpp", '#include "kernel/queue.hpp"', True),
        ("kernel/queue.cpp", "#include <Python.h>", False),
        ("kernel/queue.cpp", "  #  include <nanobind/nanobind.h>", False),
        ("kernel/queue.cpp", '#include "bind/module.hpp"', False),
        ("kernel/queue.cpp", '#include "../platform/machine.hpp"', False),
        ("platform/machine.cpp", "#include <Python.h>", False),
        ("control/policies/easy.cpp", '#include "world/world.hpp"', False),
        ("control/policies/easy.cpp", '#include "work/task.hpp"', True),
    ],
)
def test_the_core_check_finds_violations(tmp_path: Path, file: str, code: str, legal: bool) -> None:
    for header in (
        "kernel/queue.hpp",
        "platform/machine.hpp",
        "work/task.hpp",
        "world/world.hpp",
        "bind/module.hpp",
        file,
    ):
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).touch()
    (tmp_path / file).write_text(code)
    assert (core_violations(tmp_path) == []) is legal
