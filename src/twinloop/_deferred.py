"""Packages that are quick to import: each name is fetched when it is first used."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def defer_imports(package: str) -> None:
    """Let a package fetch what it imports under `TYPE_CHECKING` when somebody first uses it.

    So the names stand in one place, where editors and type checkers look for them as well. The
    modules of the package are fetched in the same way, and a package that is called like one of its
    own functions can be called like it: `twinloop.calibrate(run)`.

    >>> import twinloop
    >>> twinloop.InputError
    <class 'twinloop.description.errors.InputError'>
    >>> twinloop.inputerror
    Traceback (most recent call last):
    AttributeError: module 'twinloop' has no attribute 'inputerror'
    """
    module = sys.modules[package]
    homes = _homes(module)
    module.__dict__["_homes"] = homes
    module.__class__ = _Verb if package.rpartition(".")[2] in homes else _Package


def _homes(package: ModuleType) -> dict[str, str]:
    """The module that each name comes from; it has the same name there."""
    loader: Any = package.__loader__
    source = loader.get_source(package.__name__)
    if source is None:
        raise ImportError(f"{package.__name__} was installed without its sources, which it reads")
    return {
        alias.name: imported.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for imported in block.body
        if isinstance(imported, ast.ImportFrom) and imported.module
        for alias in imported.names
        if imported.module != package.__name__
    }


class _Package(ModuleType):
    """A package that fetches its names."""

    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        path = f"{self.__name__}.{name}"
        if name in self._homes:
            value = getattr(import_module(self._homes[name]), name)
        elif not name.startswith("_") and find_spec(path):
            value = import_module(path)
        else:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # A module becomes an attribute of its package when it is loaded, and would cover the
        # function of its name.
        if isinstance(value, ModuleType) and self._homes.get(name) == value.__name__:
            value = value if hasattr(value, "__path__") else getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)

    def __reduce__(self) -> tuple[Any, ...]:
        # Functions go to other processes together with the modules that they name.
        return import_module, (self.__name__,)


class _Verb(_Package):
    """A package that is called like the function that it is for, and so is both."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **options)
