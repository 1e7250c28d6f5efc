"""External simulators: a program or a Python function, from parameter values to figures."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from pydantic import Field, model_validator

from twinloop.campaign.process_groups import ProcessGroup, explain_unsupported
from twinloop.campaign.scratch_folders import PREFIX, make_scratch_folder
from twinloop.campaign.templates import fill_template, find_names
from twinloop.description import Description, FilePath
from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.file_names import check_entry_name, join_below
from twinloop.description.files import hash_file, is_file
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Name, Seconds, number_to_text
from twinloop.execution.task_commands import CommandSurvey, DistinctCommand
from twinloop.scenario.commands import Command as Arguments
from twinloop.scenario.commands import Environment

#: Result of a black box: figures by name, or one number.
BlackBoxResult = dict[str, Any] | float

#: Largest size of a result (bytes).
_LARGEST: Final = 256 << 20
_LONGEST_LINE: Final = 200


class BlackBoxError(TwinloopError):
    """A black box gave no result; the message has the command and the cause, in one line.

    >>> print(BlackBoxError("drops --height -1: exit code 2: the height must be positive"))
    drops --height -1: exit code 2: the height must be positive
    """


class BlackBox(Protocol):
    """A simulator that is called with parameter values and, optionally, a case."""

    def __call__(
        self, values: Mapping[str, Any], case: Mapping[str, Any] | None = None
    ) -> BlackBoxResult:
        """Run it once; a BlackBoxError if it gives no result."""

    def describe(self) -> str:
        """Describe for the user what will be run."""


class Command(Description):
    """A program that is run for every set of values, each time in a new scratch folder.

    `{name}` stands for the value of a parameter, `{case.name}` for a field of the case, `{folder}`
    for the folder of the description. The command is not passed to a shell.

    >>> echo = Command(command=["echo", '{{"time": {height}, "of": "{case.who}"}}'])
    >>> echo({"height": 2.5}, {"who": "a ball"})
    {'time': 2.5, 'of': 'a ball'}
    """

    command: Arguments = Field(description="program and arguments; not passed to a shell")
    folder: Annotated[FilePath, Field(validate_default=True)] = Field(
        ".",
        description="the folder that {folder} stands for, and to which the path of a program with "
        "a slash is relative; by default the folder of this file",
    )
    environment: Environment = Field({}, description="environment variables that are set")
    files: dict[Name, str] = Field(
        {}, description="input files in the scratch folder: text by name"
    )
    reads: Name = Field(
        "stdout",
        description="source of the result: stdout, or the name of a file in the scratch folder",
    )
    expects: tuple[Name, ...] = Field((), description="figures that the result must have")
    timeout: Seconds | None = Field(
        None,
        description="time limit of one run (s); the program and its descendants are then killed",
    )
    keep: FilePath | None = Field(
        None,
        description="folder for the scratch folders of failed runs; by default they are removed",
    )

    @model_validator(mode="after")
    def _readable(self) -> Command:
        findings = ProblemCollector()
        for address, text in self._templates():
            try:
                find_names(text)
            except InputError as error:
                findings.add(address, error.problem, error.remedy, kind=error.kind)
        for name in self.files:
            if not _is_inside(name):
                findings.add(
                    ("files", name), "must be a name in the scratch folder", kind="unsafe-name"
                )
        if not _is_inside(self.reads):
            findings.add(
                ("reads",), "must be stdout or a name in the scratch folder", kind="unsafe-name"
            )
        if self.timeout == 0:
            findings.add(("timeout",), "must be positive", kind="out-of-range")
        findings.check()
        return self

    def _templates(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        for position, text in enumerate(self.command):
            yield ("command", position), text
        for field in ("environment", "files"):
            for name, text in getattr(self, field).items():
                yield (field, name), text
        yield ("reads",), self.reads

    @property
    def names(self) -> frozenset[str]:
        """The names that need a value: parameters, and `case.` with the fields of the case.

        >>> sorted(Command(command=["sim", "--speed={speed}", "{case.input}"]).names)
        ['case.input', 'speed']
        """
        found = (find_names(text) for _, text in self._templates())
        return frozenset(set().union(*found) - {"folder"})

    def check(self) -> None:
        """Raise an InputError if this system cannot run a command as a black box.

        >>> Command(command=["sim", "{speed}"]).check()
        """
        if why := explain_unsupported():
            raise InputError(
                f"a command as a black box {why}",
                kind="invalid-black-box",
                field="black_box",
                remedy="give a Python function that runs it",
            )

    def describe(self) -> str:
        """Describe in one line what will be run.

        >>> Command(command=["sim", "{speed}"], timeout="10s").describe()
        "sim '{speed}', each time in a new folder, for at most 10 s; its result is read from stdout"
        """
        limit = "" if self.timeout is None else f", for at most {number_to_text(self.timeout)} s"
        where = "stdout" if self.reads == "stdout" else f"the file {self.reads}"
        return (
            f"{shlex.join(self.command)}, each time in a new folder{limit}; "
            f"its result is read from {where}"
        )

    def survey(self, cases: Iterable[Mapping[str, Any]]) -> CommandSurvey:
        """List every distinct command for these cases; parameters stay in braces.

        >>> box = Command(command=["sim", "{speed}", "{case.input}"], folder="/")
        >>> [each.command for each in box.survey([{"input": "a"}, {"input": "b"}]).commands]
        ["sim '{speed}' a", "sim '{speed}' b"]
        """
        found: Counter[tuple[str, str]] = Counter()
        for known, words in self._words(cases):
            variables = [
                f"{name}={self._filled(text, known, ('environment', name))}"
                for name, text in self.environment.items()
            ]
            shown = shlex.join([*(["env", *variables] if variables else []), *words])
            found[(shown, words[0])] += 1
        place = "a new folder each time"
        return CommandSurvey(
            [DistinctCommand(text, place, word, n) for (text, word), n in found.most_common()]
        )

    def programs(self, cases: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Map the files that the command names for these cases to their hashes, program first.

        >>> box = Command(command=["./sim.py", "{speed}", "{case.input}"], folder="nowhere")
        >>> box.programs([{"input": "/no/such/input"}])
        {}
        """
        found: dict[str, str] = {}
        for _, words in self._words(cases):
            words[0] = shutil.which(words[0]) or words[0]
            # Relative names are files of the scratch folder, which is new for every run.
            for file in (Path(word) for word in words if Path(word).is_absolute()):
                if str(file) not in found and is_file(file):
                    with suppress(InputError):  # a program may be executable but not readable
                        found[str(file)] = hash_file(file)
        return found

    def _words(
        self, cases: Iterable[Mapping[str, Any]]
    ) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """Yield the values of each case and the words of its command; parameters stay in braces."""
        here = Path(self.folder).absolute()
        for case in cases:
            known: dict[str, Any] = {name: f"{{{name}}}" for name in self.names}
            known |= {f"case.{name}": value for name, value in case.items()} | {"folder": here}
            words = [
                self._filled(text, known, ("command", n)) for n, text in enumerate(self.command)
            ]
            if "/" in words[0]:
                words[0] = str(here / words[0])
            yield known, words

    def __call__(
        self, values: Mapping[str, Any], case: Mapping[str, Any] | None = None
    ) -> BlackBoxResult:
        """Run it once; a BlackBoxError if it gives no result."""
        self.check()
        here = Path(self.folder).absolute()
        known = {f"case.{name}": value for name, value in (case or {}).items()}
        known |= {"folder": here, **values}
        arguments = [
            self._filled(text, known, ("command", n)) for n, text in enumerate(self.command)
        ]
        if "/" in arguments[0]:
            arguments[0] = str(here / arguments[0])
        what = shlex.join(arguments)
        with self._scratch() as (scratch, out, err):
            try:
                environment = self._prepared(scratch, known)
                with ProcessGroup.start(arguments, environment, scratch, out, err) as box:
                    code = box.wait(self.timeout)
            except InputError:
                raise
            except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument
                cause = error.strerror if isinstance(error, OSError) else None
                raise BlackBoxError(_join_lines(f"{what}: {cause or error}")) from None
            if code != 0:
                raise BlackBoxError(_join_lines(f"{what}: {self._end(code)}{_last_line(err)}"))
            reads = self._filled(self.reads, known, ("reads",))
            source = out if reads == "stdout" else self._inside(scratch, reads, "reads")
            try:
                return check_result(_parse_result(source), self.expects)
            except (ValueError, OSError) as error:
                cause = error.strerror if isinstance(error, OSError) else str(error)
                raise BlackBoxError(_join_lines(f"{what}: its result, {reads}: {cause}")) from None

    def _prepared(self, scratch: Path, known: Mapping[str, Any]) -> dict[str, str]:
        """Write the input files of the program, and return its environment variables."""
        for name, text in self.files.items():
            file = self._inside(scratch, name, "files")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._filled(text, known, ("files", name)), encoding="utf-8")
        return {
            name: self._filled(text, known, ("environment", name))
            for name, text in self.environment.items()
        }

    @staticmethod
    def _inside(scratch: Path, name: str, field: str) -> Path:
        """Return the path of a file in the scratch folder or in a folder below it."""
        return join_below(scratch, name, deep=True, field=f"black_box.{field}")

    def _filled(self, text: str, known: Mapping[str, Any], address: tuple[str | int, ...]) -> str:
        try:
            return fill_template(text, known)
        except InputError as error:
            field = ".".join(map(str, ("black_box", *address)))
            raise InputError(
                error.problem, kind=error.kind, field=field, remedy=error.remedy
            ) from None

    def _end(self, code: int | None) -> str:
        if code is None:
            return f"ended at its time limit of {number_to_text(self.timeout or 0.0)} s"
        if code > 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"ended by {signal.Signals(-code).name}"
        return f"ended by signal {-code}"

    @contextmanager
    def _scratch(self) -> Iterator[tuple[Path, Path, Path]]:
        """Make a scratch folder with files for stdout and stderr; keep or remove it at the end."""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(make_scratch_folder())
                (folder / "work").mkdir()
            except OSError as error:
                raise BlackBoxError(f"there is no scratch folder: {error}") from None
            try:
                yield folder / "work", folder / "stdout", folder / "stderr"
            except BlackBoxError as error:
                if self.keep is None:
                    raise
                # Without the prefix of scratch folders, which are removed when they are unused.
                name = f"failed-{folder.name.removeprefix(PREFIX)}"
                kept = Path(self.keep).absolute() / name
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(folder, kept)
                raise BlackBoxError(f"{error} (kept in {kept})") from None


class Function:
    """A Python function as a black box; it is called with the values and the case, if any.

    >>> Function(lambda values: values["speed"] ** 2)({"speed": 3})
    9.0
    """

    def __init__(self, function: Callable[..., Any], expects: tuple[str, ...] = ()) -> None:
        self._function = function
        self._expects = expects
        self._name = getattr(function, "__qualname__", type(function).__name__)

    def __call__(
        self, values: Mapping[str, Any], case: Mapping[str, Any] | None = None
    ) -> BlackBoxResult:
        """Call the function once; a BlackBoxError if its return value is no result."""
        given = (values,) if case is None else (values, case)
        try:
            return check_result(self._function(*given), self._expects)
        except ValueError as error:
            raise BlackBoxError(_join_lines(f"{self._name}: its result: {error}")) from None

    def describe(self) -> str:
        """Describe in one line what will be called.

        >>> Function(abs).describe()
        'the Python function abs'
        """
        return f"the Python function {self._name}"


def black_box(what: BlackBox | Callable[..., Any] | Mapping[str, Any]) -> BlackBox:
    """Make a black box from a black box, a description as plain values, or a function.

    >>> black_box({"command": ["sim", "{speed}"]}).describe()
    "sim '{speed}', each time in a new folder; its result is read from stdout"
    >>> black_box(lambda values: 2 * values["speed"])({"speed": 2})
    4.0
    """
    if isinstance(what, Mapping):
        what = Command.from_dict(dict(what))
    if isinstance(what, Command):
        what.check()
        return what
    if not callable(what):
        raise InputError(
            f"a black box is a command or a function, not {type(what).__name__}",
            kind="invalid-black-box",
            field="black_box",
        )
    return what if hasattr(what, "describe") else Function(what)


def check_result(result: Any, expects: tuple[str, ...] = ()) -> BlackBoxResult:
    """Return a result as a dictionary or a float; a ValueError if it is neither.

    >>> check_result(3), check_result({"time": 1.5}, ("time",))
    (3.0, {'time': 1.5})
    >>> check_result({"time": 1.5}, ("energy",))
    Traceback (most recent call last):
    ValueError: has no 'energy', only 'time'
    """
    if isinstance(result, Mapping):
        if missing := [name for name in expects if name not in result]:
            there = ", ".join(map(repr, result)) or "nothing"
            raise ValueError(f"has no {', '.join(map(repr, missing))}, only {there}")
        return dict(result)
    if isinstance(result, bool) or not hasattr(result, "__float__"):
        raise ValueError(f"must be a JSON object or a number, not {type(result).__name__}")
    if expects:
        raise ValueError(f"is a number, and not an object with {', '.join(map(repr, expects))}")
    return float(result)


def _parse_result(file: Path) -> Any:
    """Parse the JSON or the number in a file: the whole text, or its last line."""
    if file.stat().st_size > _LARGEST:
        raise ValueError(f"is larger than {_LARGEST >> 20} MiB")
    text = file.read_bytes().decode("utf-8", "replace").strip()
    if not text:
        raise ValueError("is empty")
    last = text.splitlines()[-1]
    for part in (text, last):
        with suppress(ValueError, RecursionError):
            return json.loads(part)
        with suppress(ValueError):
            return float(part)
    raise ValueError(f"is neither JSON nor a number: {last}")


def _last_line(file: Path) -> str:
    """Return a colon and the last line of a file that is not empty."""
    with suppress(OSError), file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 4096))
        lines = stream.read().decode("utf-8", "replace").split("\n")
        printed = [line.strip() for line in lines if line.strip()]
        if printed:
            return f": {printed[-1][:_LONGEST_LINE]}"
    return ""


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _is_inside(name: str) -> bool:
    try:
        check_entry_name(name, deep=True)
    except InputError:
        return False
    return True
