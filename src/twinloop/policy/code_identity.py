"""Hashes of user-defined objects: class, arguments and the code that they run.

Two objects with the same hash behave the same, in this process or in a later one. Code is
compared as it is loaded (byte code, constants, defaults, closures, the globals that it refers to):
an edited comment changes nothing, an edited helper function changes the hash. Code of installed
packages is hashed by name and version, modules of the user by the bytes of their files.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import functools
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final

#: Attributes that Python adds to a class; not hashed, because no behaviour depends on them.
_IGNORED_ATTRIBUTES: Final = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__annotate__",
        "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl",
        "__firstlineno__", "__static_attributes__", "__parameters__", "__orig_bases__",
        "__type_params__",
    }
)  # fmt: skip
_PLAIN_TYPES: Final = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(...),
    type(NotImplemented),
)
_CONTAINER_TYPES: Final = (tuple, list, dict, set, frozenset)
#: Objects nested deeper than this are not hashed.
_MAX_DEPTH: Final = 200


def identify(thing: Any) -> str | None:
    """Return the hash of an object; None if it cannot be hashed.

    None means that the object contains something without a serialisable state: an open file, a
    lock, an object of an extension. Such an object is equal only to itself.

    >>> class Limit:
    ...     def __init__(self, most):
    ...         self.most = most
    >>> identify(Limit(1)) == identify(Limit(1)), identify(Limit(1)) == identify(Limit(8))
    (True, False)
    >>> import threading
    >>> identify(threading.Lock()) is None
    True
    """
    writer = _Writer()
    try:
        writer.add(thing)
    except Exception:  # any error of a foreign __reduce_ex__
        return None
    return writer.hash.hexdigest()


class _Writer:
    """Writes an object, part by part, to a hash."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._indices_by_id: dict[int, int] = {}
        self._written: list[Any] = []
        self._depth = 0

    def add(self, thing: Any) -> None:
        """Write one object; raise any exception if it cannot be hashed."""
        if isinstance(thing, _PLAIN_TYPES) and type(thing) in _PLAIN_TYPES:
            self._write(type(thing).__name__, repr(thing))
            return
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        if type(thing) is tuple:
            self._write_sequence("tuple", thing)
        elif type(thing) is CodeType:
            self._write_code(thing)
        elif self._is_new(thing):
            self._write_by_type(thing)
        self._depth -= 1

    def _write(self, *words: str) -> None:
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self.hash.update(f"{len(data)}:".encode())
            self.hash.update(data)

    def _is_new(self, thing: Any) -> bool:
        """Return whether an object was not written yet; if it was, write a reference to it."""
        index = self._indices_by_id.get(id(thing))
        if index is not None:
            self._write("again", str(index))
            return False
        self._indices_by_id[id(thing)] = len(self._indices_by_id)
        self._written.append(thing)  # keep it alive, so that its id stays unique
        return True

    def _write_sequence(self, kind: str, items: Any) -> None:
        self._write(kind, str(len(items)))
        for item in items:
            self.add(item)

    def _write_set(self, kind: str, items: Any) -> None:
        hashes = [identify(item) for item in items]
        if None in hashes:
            raise ValueError("an element cannot be hashed")
        self._write(kind, *sorted(str(each) for each in hashes))

    def _write_by_type(self, thing: Any) -> None:
        kind = type(thing)
        if kind is list:
            self._write_sequence("list", thing)
        elif kind in (dict, MappingProxyType):
            self._write_mapping(thing)
        elif kind in (set, frozenset):
            self._write_set(kind.__name__, thing)
        elif isinstance(thing, ModuleType):
            self._write_module(thing)
        elif isinstance(thing, type):
            self._write_class(thing)
        elif isinstance(thing, FunctionType):
            self._write_function(thing)
        elif isinstance(thing, property):
            self._write_sequence("property", (thing.fget, thing.fset, thing.fdel))
        elif isinstance(thing, staticmethod | classmethod | MethodType):
            bound_to = getattr(thing, "__self__", None) if isinstance(thing, MethodType) else None
            self._write_sequence(kind.__name__, (thing.__func__, bound_to))
        elif isinstance(thing, functools.cached_property):
            self._write_sequence("cached_property", (thing.func, thing.attrname))
        elif isinstance(
            thing,
            MemberDescriptorType | GetSetDescriptorType | WrapperDescriptorType | MethodWrapperType,
        ):
            self._write("slot", thing.__qualname__)
        elif isinstance(thing, functools._lru_cache_wrapper):
            self._write_sequence("cache", (thing.__wrapped__,))
        elif isinstance(thing, BuiltinFunctionType) and _is_module(thing.__self__):
            self._write("builtin", str(thing.__module__), thing.__qualname__)
        else:
            self._write_object(thing)

    def _write_mapping(self, thing: Mapping[Any, Any]) -> None:
        self._write("dict", str(len(thing)))
        for key, value in thing.items():
            self.add(key)
            self.add(value)

    def _write_object(self, thing: Any) -> None:
        """Write any other object: the parts from which `copy` would rebuild it."""
        reducer = copyreg.dispatch_table.get(type(thing))
        reduced = thing.__reduce_ex__(4) if reducer is None else reducer(thing)
        if isinstance(reduced, str):
            self._write("global", reduced)
            self.add(sys.modules[thing.__module__])
            return
        make, arguments, *rest = reduced
        state, items, pairs = (*rest[:3], None, None, None)[:3]
        self._write("object")
        self.add(type(thing))
        self.add(make)
        self.add(arguments)
        self.add(state)
        self._write_sequence("items", [] if items is None else list(items))
        self._write_sequence("pairs", [] if pairs is None else list(pairs))

    # --- code ------------------------------------------------------------------------------------

    def _write_class(self, thing: type) -> None:
        self._write("class", thing.__module__, thing.__qualname__)
        if not self._check_user_module(thing.__module__):
            return
        self._write_sequence("bases", thing.__bases__)
        for name, value in sorted(vars(thing).items()):
            if name not in _IGNORED_ATTRIBUTES:
                self._write(name)
                self.add(value)

    def _write_function(self, thing: FunctionType) -> None:
        self._write("function", str(thing.__module__), thing.__qualname__)
        if not self._check_user_module(thing.__module__):
            return
        self.add(thing.__code__)
        self.add(thing.__defaults__)
        self.add(thing.__kwdefaults__)
        self.add(vars(thing))
        for cell in thing.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:
                self._write("empty cell")
        namespace = thing.__globals__
        for name in sorted(_find_global_names(thing.__code__)):
            if name in namespace:
                self._write("global", name)
                self.add(namespace[name])
            elif hasattr(builtins, name):
                self._write("builtin", name)
        for name, level in sorted(_find_imports(thing.__code__)):
            package = str(namespace.get("__package__") or "")
            self.add(_find_module(importlib.util.resolve_name("." * level + name, package)))

    def _write_code(self, code: CodeType) -> None:
        self._write(
            "code", code.co_code.hex(), *code.co_names, "variables", *code.co_varnames, "free",
            *code.co_freevars, *code.co_cellvars, str(code.co_argcount),
            str(code.co_posonlyargcount), str(code.co_kwonlyargcount), str(code.co_flags),
        )  # fmt: skip
        self._write_sequence("constants", code.co_consts)

    def _write_module(self, module: ModuleType) -> None:
        """Write a module that code refers to: its file, its values, the modules it imports."""
        self._write("module", module.__name__)
        if not self._check_user_module(module.__name__):
            return
        file = getattr(module, "__file__", None)
        if file is not None:
            self._write(hashlib.sha256(Path(file).read_bytes()).hexdigest())
        used_modules: dict[str, ModuleType] = {}
        for name, value in sorted(vars(module).items()):
            if name.startswith("__"):
                continue
            if type(value) in (*_PLAIN_TYPES, *_CONTAINER_TYPES):
                self._write(name)
                self.add(value)
            elif isinstance(value, ModuleType):
                used_modules[value.__name__] = value
            elif (other := sys.modules.get(str(getattr(value, "__module__", "")))) is not None:
                used_modules[other.__name__] = other
        for name in sorted(used_modules):
            self.add(used_modules[name])

    def _check_user_module(self, name: str | None) -> bool:
        """Return whether a module belongs to the user; if not, write its name and version."""
        if name is None or is_user_module(name):
            return True
        top = name.partition(".")[0]
        self._write(top, str(getattr(sys.modules.get(top), "__version__", "")))
        return False


def is_user_module(name: str) -> bool:
    """Whether a module belongs to the user, not to Python or an installed package.

    >>> [is_user_module(name) for name in ("json", "numpy", "twinloop.policy", "__main__")]
    [False, False, False, True]
    """
    top = name.partition(".")[0]
    if top == "__main__":
        return True
    if top in sys.stdlib_module_names or top in ("builtins", "twinloop"):
        return False
    module = sys.modules.get(name) or sys.modules.get(top)
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    return not _is_installed(file)


@functools.cache
def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _list_package_folders())


@functools.cache
def _list_package_folders() -> tuple[Path, ...]:
    """Return the folders of installed packages and of the standard library."""
    import site

    paths = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    folders = {*paths, *site.getsitepackages(), site.getusersitepackages()}
    return tuple(Path(each).resolve() for each in folders if each)


def _is_module(thing: Any) -> bool:
    return thing is None or isinstance(thing, ModuleType)


def _walk_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk_code(constant)


def _find_global_names(code: CodeType) -> set[str]:
    """Return the global names that code refers to, including nested functions."""
    opnames = ("LOAD_GLOBAL", "LOAD_NAME")
    return {
        str(instruction.argval)
        for part in _walk_code(code)
        for instruction in dis.get_instructions(part)
        if instruction.opname in opnames
    }


def _find_imports(code: CodeType) -> set[tuple[str, int]]:
    """Return the modules that code imports while it runs, with the level of a relative import."""
    modules: set[tuple[str, int]] = set()
    for part in _walk_code(code):
        previous: list[Any] = []
        for instruction in dis.get_instructions(part):
            if instruction.opname == "IMPORT_NAME":
                level = previous[-2].argval if len(previous) > 1 else 0
                modules.add((str(instruction.argval or ""), level if isinstance(level, int) else 0))
            previous.append(instruction)
    return modules


def _find_module(name: str) -> ModuleType | str:
    """Return a module that code imports while it runs; only the name of an installed module.

    An installed module that is not loaded yet is not imported, because its name is sufficient.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name.partition(".")[0])
    origin = None if spec is None else spec.origin
    if origin in ("built-in", "frozen") or (origin is not None and _is_installed(origin)):
        return name
    return importlib.import_module(name)
