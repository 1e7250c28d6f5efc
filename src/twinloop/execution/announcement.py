"""Announcement of the commands of a run: a summary for a terminal, and a file with all of them."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from twinloop.description.files import write_atomically
from twinloop.description.safe_text import escape_name
from twinloop.engine import CompiledScenario
from twinloop.execution.expected_run_times import fill_expected_run_times
from twinloop.execution.staging import FilePlan, plan_files
from twinloop.execution.task_commands import CommandSurvey, DistinctCommand, TaskCommands
from twinloop.scenario import Scenario
from twinloop.trace.trace import format_count

#: Name of the file with every command, in the folder of a run.
COMMANDS: Final = "commands.txt"

#: Maximum number of commands that a summary shows one by one; of more it shows the programs.
_MAX_COMMANDS: Final = 5
#: Maximum number of programs that a summary shows.
_MAX_PROGRAMS: Final = 100
#: Maximum number of characters of a command in a summary.
_MAX_LINE_LENGTH: Final = 200
#: Beginning of the first line of a command file, by which such a file is recognised.
_FIRST_WORDS: Final = "# No shell reads these commands."
_HEADING: Final = f"{_FIRST_WORDS} Names in braces are replaced when a task starts."
#: Line before the commands of tasks that the source has added.
_HEADING_OF_ADDED: Final = (
    "# added by the source during the run; the numbers are of tasks added before the first start"
)


def survey_scenario(scenario: Scenario, *, allow_code: bool = False) -> CommandSurvey:
    """List every command that `execute` would run for a scenario, without running any.

    >>> survey = survey_scenario(Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
    ...     {"id": "a", "command": ["sleep", "{run_time}"], "run_time": 1.5}]}))
    >>> [(one.command, one.tasks) for one in survey.commands]
    [('sleep 1.5', 1)]
    """
    workload, _ = fill_expected_run_times(scenario.workload.resolve(scenario.seed))
    compiled = CompiledScenario(scenario, allow_code=allow_code, workload=workload)
    return survey_tasks(scenario, TaskCommands(compiled, Path(), run=""), plan_files(compiled))


def survey_tasks(
    scenario: Scenario, commands: TaskCommands, plan: FilePlan | None
) -> CommandSurvey:
    """List the commands that prepare a scenario, the commands of its tasks, and initial files."""
    prepare = [shlex.join(step.command) for step in scenario.workload.prepare]
    files = () if plan is None else tuple(plan.describe())
    return commands.survey()._replace(prepare=prepare, files=files)


def merge_surveys(surveys: Iterable[CommandSurvey]) -> CommandSurvey:
    """Merge surveys: every command once, with the largest number of tasks in any survey.

    >>> one = CommandSurvey([DistinctCommand("sleep 1", "/", "sleep", 2)], [], [])
    >>> merge_surveys([one, one]) == one
    True
    """
    prepare: dict[str, None] = {}
    missing: set[str] = set()
    sources: dict[str, None] = {}
    files: dict[str, None] = {}
    commands: dict[tuple[str, str], DistinctCommand] = {}
    for survey in surveys:
        sources |= dict.fromkeys(survey.sources)
        files |= dict.fromkeys(survey.files)
        prepare |= dict.fromkeys(survey.prepare)
        missing |= set(survey.missing)
        for each in survey.commands:
            earlier = commands.get((each.command, each.folder), each)
            commands[(each.command, each.folder)] = max(
                earlier, each, key=lambda command: command.tasks
            )
    return CommandSurvey(
        list(commands.values()), sorted(missing), list(prepare), tuple(sources), tuple(files)
    )


def summarise(survey: CommandSurvey, file: Path | None = None) -> Iterator[str]:
    """Yield the lines of a summary: a few commands in full, or the programs of many.

    >>> commands = [DistinctCommand(f"echo {n}", "/", "echo", 1) for n in range(6)]
    >>> survey = CommandSurvey(commands, [], [])
    >>> list(summarise(survey, Path("run/commands.txt")))
    ['will run 6 distinct commands for 6 tasks:', '  6 x echo', 'every command: run/commands.txt']
    """
    for command in survey.prepare:
        yield f"first: {shorten(command)}"
    yield from survey.files
    if len(survey.commands) <= _MAX_COMMANDS:
        for each in survey.commands:
            yield f"will run {each.tasks} x {shorten(each.command)}"
    else:
        tasks = format_count(sum(each.tasks for each in survey.commands), "task")
        yield f"will run {len(survey.commands)} distinct commands for {tasks}:"
        for name, tasks_of_program in survey.programs[:_MAX_PROGRAMS]:
            yield f"  {tasks_of_program} x {shorten(name)}"
        if rest := survey.programs[_MAX_PROGRAMS:]:
            count = sum(tasks_of_program for _, tasks_of_program in rest)
            yield f"  {count} x {format_count(len(rest), 'other program')}"
    for name in survey.missing:
        yield f"program not found at present: {shorten(name)}"
    for source in survey.sources:
        yield describe_source(source)
    if file is not None:
        yield f"every command: {escape_name(str(file))}"


def describe_source(source: str) -> str:
    """Say that a source in Python may add commands.

    >>> describe_source("my.users:Clients")
    'the source my.users:Clients may add tasks with other commands during the run'
    """
    return f"the source {shorten(source)} may add tasks with other commands during the run"


def summarise_programs(survey: CommandSurvey) -> str:
    """Format the programs of a survey with their numbers of tasks in one line.

    >>> summarise_programs(CommandSurvey([DistinctCommand("echo 1", "/", "echo", 3)], [], []))
    '3 x echo'
    """
    programs = survey.programs
    parts = [f"{tasks} x {shorten(name)}" for name, tasks in programs[:_MAX_PROGRAMS]]
    if rest := programs[_MAX_PROGRAMS:]:
        parts.append(
            f"{sum(tasks for _, tasks in rest)} x {format_count(len(rest), 'other program')}"
        )
    return ", ".join(parts)


def list_commands(surveys: Mapping[str, CommandSurvey]) -> str:
    """Format every distinct command as text: one per line, after its number of tasks.

    Args:
        surveys: Surveys by name; a name may be empty.

    >>> echo = DistinctCommand("echo 1", "/", "echo", 3)
    >>> print(list_commands({"": CommandSurvey([echo], [], ["make"])}))
    # No shell reads these commands. Names in braces are replaced when a task starts.
    # preparation, run once
    1 x make
    # in /
    3 x echo 1
    <BLANKLINE>
    """
    lines = [_HEADING]
    for name, survey in surveys.items():
        if name:
            lines.append(f"## {escape_name(name)}")
        if survey.prepare:
            lines.append("# preparation, run once")
            lines += [f"1 x {escape_name(command)}" for command in survey.prepare]
        lines += [f"# {line}" for line in survey.files]
        folder = None
        for each in sorted(survey.commands, key=lambda command: command.folder):
            if each.folder != folder:
                folder = each.folder
                lines.append(f"# in {escape_name(folder)}")
            lines.append(f"{each.tasks} x {escape_name(each.command)}")
        lines += [f"# program not found at present: {escape_name(name)}" for name in survey.missing]
        lines += [f"# {describe_source(source)}" for source in survey.sources]
    return "\n".join(lines) + "\n"


def describe_commands(surveys: Mapping[str, CommandSurvey]) -> dict[str, Any]:
    """Convert surveys to plain data, as `--dry-run --json` prints them.

    >>> echo = DistinctCommand("echo 1", "/", "echo", 3)
    >>> found = describe_commands({"": CommandSurvey([echo], [], [])})
    >>> found["programs"]
    {'echo': 3}
    """
    programs: Counter[str] = Counter()
    for survey in surveys.values():
        programs.update(dict(survey.programs))
    return {
        "commands": [
            {"of": name or None} | each._asdict()
            for name, survey in surveys.items()
            for each in survey.commands
        ],
        "prepare": [command for survey in surveys.values() for command in survey.prepare],
        "programs": dict(programs.most_common()),
        "missing": sorted({name for survey in surveys.values() for name in survey.missing}),
        "sources": sorted({name for survey in surveys.values() for name in survey.sources}),
        "files": [line for survey in surveys.values() for line in survey.files],
    }


def write_commands(folder: Path, surveys: Mapping[str, CommandSurvey]) -> Path:
    """Write every distinct command to the command file of a folder; returns its path."""
    with write_atomically(folder / COMMANDS) as stream:
        stream.write(list_commands(surveys).encode())
    return folder / COMMANDS


def is_command_file(path: Path) -> bool:
    """Whether a file is a command file, by its first line.

    >>> is_command_file(Path("no such file"))
    False
    """
    try:
        with path.open("rb") as stream:
            return stream.read(len(_FIRST_WORDS)) == _FIRST_WORDS.encode()
    except OSError:
        return False


class CommandFile:
    """The command file in the folder of a run.

    It is written before any command runs. If the run cannot begin, the folder is restored. The
    command of a task that is added during the run is appended before it is started, so that the
    file of a killed run has it too.

    Args:
        folder: Folder of the run.
        text: Content at the start; None if the commands are listed elsewhere: the file is then
            created for the first command that is appended.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     file = CommandFile(Path(parent, "run"), "1 x echo\\n")
    ...     file.withdraw()
    ...     list(Path(parent).iterdir())
    []
    """

    def __init__(self, folder: Path, text: str | None) -> None:
        #: Path of the file.
        self.path = folder / COMMANDS
        self._text = text
        self._created_folder = not folder.exists()
        self._previous = self.path.read_bytes() if self.path.is_file() else None
        #: Working folder of the last command that was appended.
        self._last_folder: str | None = None
        self._is_kept = text is None
        if text is None:
            return
        try:
            self._write(text.encode())
        except BaseException:
            self.withdraw()
            raise

    def keep(self) -> None:
        """Keep the file, because the run has begun; write it again if the folder was emptied."""
        self._is_kept = True
        if self._text is not None and not self.path.is_file():
            self._write(self._text.encode())

    def append(self, added: DistinctCommand) -> None:
        """Append the command of a task that the source has added; an OSError if it cannot be."""
        if not self.path.is_file():  # there was no list at the start, or a task has removed it
            self._write((self._text or f"{_HEADING}\n").encode())
            self._last_folder = None
        lines = [] if self._last_folder is not None else [_HEADING_OF_ADDED]
        if added.folder != self._last_folder:
            lines.append(f"# in {escape_name(added.folder)}")
        lines.append(f"{added.tasks} x {escape_name(added.command)}")
        # The link of a task to another file is not followed.
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.path, flags), "ab") as stream:
            stream.write(("\n".join(lines) + "\n").encode())
        self._last_folder = added.folder

    def withdraw(self) -> None:
        """Restore the folder, unless the run has begun."""
        if self._is_kept:
            return
        with suppress(OSError):
            if self._previous is not None:
                self._write(self._previous)
            else:
                self.path.unlink(missing_ok=True)
            if self._created_folder:
                self.path.parent.rmdir()

    def _write(self, text: bytes) -> None:
        with write_atomically(self.path) as stream:
            stream.write(text)


def shorten(command: str) -> str:
    """Shorten a command for one line of a terminal.

    >>> len(shorten("x" * 1000))
    203
    """
    line = escape_name(command)
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[:_MAX_LINE_LENGTH]}..."
