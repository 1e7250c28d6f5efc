"""The identity of an object of one's own: its class, its arguments and the code that it runs.

Two objects with the same identity behave the same, in this process or in a later one. Code is
compared as it is loaded (byte code, constants, defaults, closures, the globals that it refers to),
so that an edited comment changes nothing and an edited helper does. Code of installed packages is
known by name and version; modules of one's own by the bytes of their files.
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

#: What every class has, or Python adds by itself: nothing that a policy does depends on it.
_INCIDENTAL: Final = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__annotate__",
        "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl",
        "__firstlineno__", "__static_attributes__", "__parameters__", "__orig_bases__",
        "__type_params__",
    }
)  # fmt: skip
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_CONTAINERS: Final = (tuple, list, dict, set, frozenset)
#: Objects nested deeper than this are not described.
_DEEPEST: Final = 200


def identify(thing: Any) -> str | None:
    """The identity of an object as a hash; None where it cannot be determined.

    None means that the object holds something that has no description: an open file, a lock, an
    object of an extension without a state. Such an object is equal to itself only.

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
    except Exception:  # whatever the reduction of a foreign class raises
        return None
    return writer.hash.hexdigest()


class _Writer:
    """Describes an object, piece by piece, to a hash."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []
        self._depth = 0

    def add(self, thing: Any) -> None:
        """Describe one object; ValueError or TypeError where it has no description."""
        if isinstance(thing, _PLAIN) and type(thing) in _PLAIN:
            self._say(type(thing).__name__, repr(thing))
            return
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if type(thing) is tuple:
            self._sequence("tuple", thing)
        elif type(thing) is CodeType:
            self._code(thing)
        elif self._is_new(thing):
            self._describe(thing)
        self._depth -= 1

    def _say(self, *words: str) -> None:
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self.hash.update(f"{len(data)}:".encode())
            self.hash.update(data)

    def _is_new(self, thing: Any) -> bool:
        """Whether it was not described yet; else it is referred to."""
        number = self._known.get(id(thing))
        if number is not None:
            self._say("again", str(number))
            return False
        self._known[id(thing)] = len(self._known)
        self._alive.append(thing)  # its id stays its own
        return True

    def _sequence(self, kind: str, items: Any) -> None:
        self._say(kind, str(len(items)))
        for item in items:
            self.add(item)

    def _set(self, kind: str, items: Any) -> None:
        found = [identify(item) for item in items]
        if None in found:
            raise ValueError("an element has no description")
        self._say(kind, *sorted(str(each) for each in found))

    def _describe(self, thing: Any) -> None:
        kind = type(thing)
        if kind is list:
            self._sequence("list", thing)
        elif kind in (dict, MappingProxyType):
            self._mapping(thing)
        elif kind in (set, frozenset):
            self._set(kind.__name__, thing)
        elif isinstance(thing, ModuleType):
            self._module(thing)
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, property):
            self._sequence("property", (thing.fget, thing.fset, thing.fdel))
        elif isinstance(thing, staticmethod | classmethod | MethodType):
            of = getattr(thing, "__self__", None) if isinstance(thing, MethodType) else None
            self._sequence(kind.__name__, (thing.__func__, of))
        elif isinstance(thing, functools.cached_property):
            self._sequence("cached_property", (thing.func, thing.attrname))
        elif isinstance(
            thing,
            MemberDescriptorType | GetSetDescriptorType | WrapperDescriptorType | MethodWrapperType,
        ):
            self._say("slot", thing.__qualname__)
        elif isinstance(thing, functools._lru_cache_wrapper):
            self._sequence("cache", (thing.__wrapped__,))
        elif isinstance(thing, BuiltinFunctionType) and _is_module(thing.__self__):
            self._say("builtin", str(thing.__module__), thing.__qualname__)
        else:
            self._object(thing)

    def _mapping(self, thing: Mapping[Any, Any]) -> None:
        self._say("dict", str(len(thing)))
        for key, value in thing.items():
            self.add(key)
            self.add(value)

    def _object(self, thing: Any) -> None:
        """Any other object: by what a copy of it would be made of."""
        reducer = copyreg.dispatch_table.get(type(thing))
        reduced = thing.__reduce_ex__(4) if reducer is None else reducer(thing)
        if isinstance(reduced, str):
            self._say("global", reduced)
            self.add(sys.modules[thing.__module__])
            return
        make, arguments, *rest = reduced
        state, items, pairs = (*rest[:3], None, None, None)[:3]
        self._say("object")
        self.add(type(thing))
        self.add(make)
        self.add(arguments)
        self.add(state)
        self._sequence("items", [] if items is None else list(items))
        self._sequence("pairs", [] if pairs is None else list(pairs))

    # --- code ------------------------------------------------------------------------------------

    def _class(self, thing: type) -> None:
        self._say("class", thing.__module__, thing.__qualname__)
        if not self._is_own(thing.__module__):
            return
        self._sequence("bases", thing.__bases__)
        for name, value in sorted(vars(thing).items()):
            if name not in _INCIDENTAL:
                self._say(name)
                self.add(value)

    def _function(self, thing: FunctionType) -> None:
        self._say("function", str(thing.__module__), thing.__qualname__)
        if not self._is_own(thing.__module__):
            return
        self.add(thing.__code__)
        self.add(thing.__defaults__)
        self.add(thing.__kwdefaults__)
        self.add(vars(thing))
        for cell in thing.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:
                self._say("empty cell")
        known = thing.__globals__
        for name in sorted(_names(thing.__code__)):
            if name in known:
                self._say("global", name)
                self.add(known[name])
            elif hasattr(builtins, name):
                self._say("builtin", name)
        for name, level in sorted(_imports(thing.__code__)):
            package = str(known.get("__package__") or "")
            self.add(_used(importlib.util.resolve_name("." * level + name, package)))

    def _code(self, code: CodeType) -> None:
        self._say(
            "code", code.co_code.hex(), *code.co_names, "variables", *code.co_varnames, "free",
            *code.co_freevars, *code.co_cellvars, str(code.co_argcount),
            str(code.co_posonlyargcount), str(code.co_kwonlyargcount), str(code.co_flags),
        )  # fmt: skip
        self._sequence("constants", code.co_consts)

    def _module(self, module: ModuleType) -> None:
        """A module that code refers to: its file, its values, the modules that it uses."""
        self._say("module", module.__name__)
        if not self._is_own(module.__name__):
            return
        file = getattr(module, "__file__", None)
        if file is not None:
            self._say(hashlib.sha256(Path(file).read_bytes()).hexdigest())
        used: dict[str, ModuleType] = {}
        for name, value in sorted(vars(module).items()):
            if name.startswith("__"):
                continue
            if type(value) in (*_PLAIN, *_CONTAINERS):
                self._say(name)
                self.add(value)
            elif isinstance(value, ModuleType):
                used[value.__name__] = value
            elif (other := sys.modules.get(str(getattr(value, "__module__", "")))) is not None:
                used[other.__name__] = other
        for name in sorted(used):
            self.add(used[name])

    def _is_own(self, name: str | None) -> bool:
        """Whether a module is of the user's own; of others the version is noted."""
        if name is None or is_user_module(name):
            return True
        top = name.partition(".")[0]
        self._say(top, str(getattr(sys.modules.get(top), "__version__", "")))
        return False


def is_user_module(name: str) -> bool:
    """Whether a module belongs to the user: neither Python's, nor an installed package's.

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
    place = Path(file).resolve()
    return any(place.is_relative_to(folder) for folder in _installed())


@functools.cache
def _installed() -> tuple[Path, ...]:
    """The folders of packages that were installed."""
    import site

    named = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    folders = {*named, *site.getsitepackages(), site.getusersitepackages()}
    return tuple(Path(each).resolve() for each in folders if each)


def _is_module(thing: Any) -> bool:
    return thing is None or isinstance(thing, ModuleType)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _names(code: CodeType) -> set[str]:
    """The global names that code refers to, within functions inside of it too."""
    wanted = ("LOAD_GLOBAL", "LOAD_NAME")
    return {
        str(each.argval)
        for one in _nested(code)
        for each in dis.get_instructions(one)
        if each.opname in wanted
    }


def _imports(code: CodeType) -> set[tuple[str, int]]:
    """The modules that code imports while it runs, and how many packages up they lie."""
    found: set[tuple[str, int]] = set()
    for one in _nested(code):
        before: list[Any] = []
        for each in dis.get_instructions(one):
            if each.opname == "IMPORT_NAME":
                level = before[-2].argval if len(before) > 1 else 0
                found.add((str(each.argval or ""), level if isinstance(level, int) else 0))
            before.append(each)
    return found


def _used(name: str) -> ModuleType | str:
    """A module that code imports while it runs; the name alone of one that is installed."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name.partition(".")[0])
    origin = None if spec is None else spec.origin
    if origin in ("built-in", "frozen") or (origin is not None and _is_installed(origin)):
        return name
    return importlib.import_module(name)
