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

#: Maximum size of a result (bytes).
_MAX_RESULT_SIZE: Final = 256 << 20
#: Maximum length of the line of stderr that is quoted in a message (characters).
_MAX_LINE_LENGTH: Final = 200


class BlackBoxError(TwinloopError):
    """A black box returned no result; the message is the command and the cause, in one line.

    >>> print(BlackBoxError("drops --height -1: exit code 2: the height must be positive"))
    drops --height -1: exit code 2: the height must be positive
    """


class BlackBox(Protocol):
    """A simulator that is called with parameter values and, optionally, a case."""

    def __call__(
        self, values: Mapping[str, Any], case: Mapping[str, Any] | None = None
    ) -> BlackBoxResult:
        """Run the simulator once; a BlackBoxError if it returns no result."""

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
    def _check_names(self) -> Command:
        problems = ProblemCollector()
        for address, text in self._templates():
            try:
                find_names(text)
            except InputError as error:
                problems.add_error(address, error)
        for name in self.files:
            if not _is_inside(name):
                problems.add(
                    ("files", name), "must be a name in the scratch folder", kind="unsafe-name"
                )
        if not _is_inside(self.reads):
            problems.add(
                ("reads",), "must be stdout or a name in the scratch folder", kind="unsafe-name"
            )
        if self.timeout == 0:
            problems.add(("timeout",), "must be positive", kind="out-of-range")
        problems.check()
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
        """The names that need a value: parameters, and fields of the case as `case.NAME`.

        >>> sorted(Command(command=["sim", "--speed={speed}", "{case.input}"]).names)
        ['case.input', 'speed']
        """
        names = (find_names(text) for _, text in self._templates())
        return frozenset(set().union(*names) - {"folder"})

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
        source = "stdout" if self.reads == "stdout" else f"the file {self.reads}"
        return (
            f"{shlex.join(self.command)}, each time in a new folder{limit}; "
            f"its result is read from {source}"
        )

    def survey(self, cases: Iterable[Mapping[str, Any]]) -> CommandSurvey:
        """List every distinct command for these cases; parameters stay in braces.

        >>> box = Command(command=["sim", "{speed}", "{case.input}"], folder="/")
        >>> [each.command for each in box.survey([{"input": "a"}, {"input": "b"}]).commands]
        ["sim '{speed}' a", "sim '{speed}' b"]
        """
        counts: Counter[tuple[str, str]] = Counter()
        for values, words in self._fill_commands(cases):
            variables = [
                f"{name}={self._fill(text, values, ('environment', name))}"
                for name, text in self.environment.items()
            ]
            shown = shlex.join([*(["env", *variables] if variables else []), *words])
            counts[(shown, words[0])] += 1
        folder = "a new folder each time"
        return CommandSurvey(
            [DistinctCommand(text, folder, word, n) for (text, word), n in counts.most_common()]
        )

    def programs(self, cases: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Map the files in the command for these cases to their hashes, program first.

        Files are the words of the command that are absolute paths of existing files.

        >>> box = Command(command=["./sim.py", "{speed}", "{case.input}"], folder="nowhere")
        >>> box.programs([{"input": "/no/such/input"}])
        {}
        """
        hashes: dict[str, str] = {}
        for _, words in self._fill_commands(cases):
            words[0] = shutil.which(words[0]) or words[0]
            # Relative names are files of the scratch folder, which is new for every run.
            for file in (Path(word) for word in words if Path(word).is_absolute()):
                if str(file) not in hashes and is_file(file):
                    with suppress(InputError):  # a program may be executable but not readable
                        hashes[str(file)] = hash_file(file)
        return hashes

    def _fill_commands(
        self, cases: Iterable[Mapping[str, Any]]
    ) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """Yield the values of each case and the words of its command; parameters stay in braces."""
        base_folder = Path(self.folder).absolute()
        for case in cases:
            values: dict[str, Any] = {name: f"{{{name}}}" for name in self.names}
            values |= {f"case.{name}": value for name, value in case.items()} | {
                "folder": base_folder
            }
            words = [
                self._fill(text, values, ("command", n)) for n, text in enumerate(self.command)
            ]
            if "/" in words[0]:
                words[0] = str(base_folder / words[0])
            yield values, words

    def __call__(
        self, values: Mapping[str, Any], case: Mapping[str, Any] | None = None
    ) -> BlackBoxResult:
        """Run the simulator once; a BlackBoxError if it returns no result."""
        self.check()
        base_folder = Path(self.folder).absolute()
        all_values = {f"case.{name}": value for name, value in (case or {}).items()}
        all_values |= {"folder": base_folder, **values}
        arguments = [
            self._fill(text, all_values, ("command", n)) for n, text in enumerate(self.command)
        ]
        if "/" in arguments[0]:
            arguments[0] = str(base_folder / arguments[0])
        command = shlex.join(arguments)
        with self._make_scratch() as (scratch, out, err):
            try:
                environment = self._prepare(scratch, all_values)
                with ProcessGroup.start(arguments, environment, scratch, out, err) as box:
                    code = box.wait(self.timeout)
            except InputError:
                raise
            except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument
                cause = error.strerror if isinstance(error, OSError) else None
                raise BlackBoxError(_join_lines(f"{command}: {cause or error}")) from None
            if code != 0:
                end = f"{self._describe_end(code)}{_quote_last_line(err)}"
                raise BlackBoxError(_join_lines(f"{command}: {end}"))
            reads = self._fill(self.reads, all_values, ("reads",))
            source = out if reads == "stdout" else self._join_path(scratch, reads, "reads")
            try:
                return check_result(_parse_result(source), self.expects)
            except (ValueError, OSError) as error:
                cause = error.strerror if isinstance(error, OSError) else str(error)
                message = f"{command}: its result, {reads}: {cause}"
                raise BlackBoxError(_join_lines(message)) from None

    def _prepare(self, scratch: Path, values: Mapping[str, Any]) -> dict[str, str]:
        """Write the input files of the program, and return its environment variables."""
        for name, text in self.files.items():
            file = self._join_path(scratch, name, "files")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._fill(text, values, ("files", name)), encoding="utf-8")
        return {
            name: self._fill(text, values, ("environment", name))
            for name, text in self.environment.items()
        }

    @staticmethod
    def _join_path(scratch: Path, name: str, field: str) -> Path:
        """Return the path of a file in the scratch folder or in a folder below it."""
        return join_below(scratch, name, deep=True, field=f"black_box.{field}")

    def _fill(self, text: str, values: Mapping[str, Any], address: tuple[str | int, ...]) -> str:
        """Fill a template; an InputError has the address of its field."""
        try:
            return fill_template(text, values)
        except InputError as error:
            field = ".".join(map(str, ("black_box", *address)))
            raise error.at(field=field) from None

    def _describe_end(self, code: int | None) -> str:
        if code is None:
            return f"ended at its time limit of {number_to_text(self.timeout or 0.0)} s"
        if code > 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"ended by {signal.Signals(-code).name}"
        return f"ended by signal {-code}"

    @contextmanager
    def _make_scratch(self) -> Iterator[tuple[Path, Path, Path]]:
        """Make a scratch folder, removed at the end unless the run fails and `keep` is given.

        Yields the working folder of the program, and the paths of its stdout and stderr.
        """
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(make_scratch_folder())
                (folder / "work").mkdir()
            except OSError as error:
                raise BlackBoxError(f"no scratch folder can be created: {error}") from None
            try:
                yield folder / "work", folder / "stdout", folder / "stderr"
            except BlackBoxError as error:
                if self.keep is None:
                    raise
                # Unused folders with the prefix of scratch folders would be removed.
                name = f"failed-{folder.name.removeprefix(PREFIX)}"
                kept = Path(self.keep).absolute() / name
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(folder, kept)
                raise BlackBoxError(f"{error} (kept in {kept})") from None


class Function:
    """A Python function as a black box; it is called with the values and, if any, the case.

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
        """Call the function once; a BlackBoxError if its return value is not a result."""
        args = (values,) if case is None else (values, case)
        try:
            return check_result(self._function(*args), self._expects)
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
            f"must be a command or a function, not {type(what).__name__}",
            kind="invalid-black-box",
            field="black_box",
        )
    return what if hasattr(what, "describe") else Function(what)


def check_result(result: Any, expects: tuple[str, ...] = ()) -> BlackBoxResult:
    """Return a result as a dictionary or a float; a ValueError if that is not possible.

    >>> check_result(3), check_result({"time": 1.5}, ("time",))
    (3.0, {'time': 1.5})
    >>> check_result({"time": 1.5}, ("energy",))
    Traceback (most recent call last):
    ValueError: has no 'energy', only 'time'
    """
    if isinstance(result, Mapping):
        if missing := [name for name in expects if name not in result]:
            existing = ", ".join(map(repr, result)) or "nothing"
            raise ValueError(f"has no {', '.join(map(repr, missing))}, only {existing}")
        return dict(result)
    if isinstance(result, bool) or not hasattr(result, "__float__"):
        raise ValueError(f"must be a JSON object or a number, not {type(result).__name__}")
    if expects:
        raise ValueError(f"is a number, not an object with {', '.join(map(repr, expects))}")
    return float(result)


def _parse_result(file: Path) -> Any:
    """Parse the JSON or the number in a file: the whole text, or its last line."""
    if file.stat().st_size > _MAX_RESULT_SIZE:
        raise ValueError(f"is larger than {_MAX_RESULT_SIZE >> 20} MiB")
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


def _quote_last_line(file: Path) -> str:
    """Return a colon and the last line of a file that is not blank; an empty text if none."""
    with suppress(OSError), file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 4096))
        lines = stream.read().decode("utf-8", "replace").split("\n")
        nonblank = [line.strip() for line in lines if line.strip()]
        if nonblank:
            return f": {nonblank[-1][:_MAX_LINE_LENGTH]}"
    return ""


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _is_inside(name: str) -> bool:
    try:
        check_entry_name(name, deep=True)
    except InputError:
        return False
    return True
