"""The table of codes: quality rules, problems of descriptions, and input errors.

`twinloop explain` prints an entry, docs/codes.md is written from all of them (`python -m
twinloop.description.code_reference`), and the quality gate takes the text, the severity and the
repair of its rules from here. A code and its name keep their meaning for ever; a code that is no
longer used is not given to another problem.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Severity = Literal["error", "warning"]


class ProblemCode(NamedTuple):
    """An entry of the table.

    >>> CODES["file-not-found"].code
    'TL0101'
    """

    code: str
    name: str
    #: The problem in one sentence; of a quality rule: the condition that a trace must satisfy.
    text: str
    remedy: str
    #: Of a quality rule: `error` closes the gate.
    severity: Severity | None = None
    #: Of a quality rule: what `repair` does; empty if there is no repair.
    repair: str = ""


#: The titles of the sections, by the first two digits of their codes.
SECTIONS: Final = {
    "00": "Quality rules",
    "01": "Files and folders",
    "02": "Descriptions and arguments",
    "03": "Logs and formats",
    "04": "Workloads, platforms, scenarios and policies",
    "05": "Simulation",
    "06": "Real executions, recording and power",
    "07": "Figures and comparisons",
    "08": "Calibration and campaigns",
    "09": "Studies, rankings and confirmations",
    "10": "Reports and pictures",
    "11": "Command line",
}

_TABLE: Final = (
    # Quality rules
    ProblemCode(
        "TL0001",
        "readable",
        "Every row of the source could be read.",
        "Correct the rows that are listed, or remove them if their tasks are not needed.",
        severity="error",
    ),
    ProblemCode(
        "TL0002",
        "has-tasks",
        "A trace has at least one task.",
        "Check that the file is the whole log, and that no filter removed all tasks.",
        severity="error",
    ),
    ProblemCode(
        "TL0003",
        "complete",
        "Every required field has a value.",
        "Add the missing values in the source, or remove these rows.",
        severity="error",
    ),
    ProblemCode(
        "TL0004",
        "finite",
        "Every number is finite: not NaN, not infinite.",
        "Write an unknown number as the format does (an empty cell, -1 in SWF), not as NaN.",
        severity="error",
    ),
    ProblemCode(
        "TL0005",
        "not-negative",
        "Lengths, amounts and sizes are not negative.",
        "Correct the source; a negative length often means two clocks that differ.",
        severity="error",
    ),
    ProblemCode(
        "TL0006",
        "known-words",
        "Every status, reason and access is one of the defined values.",
        "Map the words of the source to the defined ones; docs/traces.md lists them.",
        severity="error",
    ),
    ProblemCode(
        "TL0007",
        "unique-names",
        "No two tasks, nodes or files have the same name.",
        "Give each its own name; merge logs with a prefix per log.",
        severity="error",
        repair="Of tasks that are the same in everything, executions too, one is kept.",
    ),
    ProblemCode(
        "TL0008",
        "placed",
        "Every task with status completed or an exit code has an execution; in a recorded run, "
        "also every task without a status.",
        "Add the executions of these tasks, or correct their status.",
        severity="error",
    ),
    ProblemCode(
        "TL0009",
        "lifecycle-order",
        "Nothing starts before it is submitted, or ends before it starts.",
        "Larger differences come from clocks of different machines: correct them in the source.",
        severity="error",
        repair="Up to one sampling period: submission and end are moved to the start.",
    ),
    ProblemCode(
        "TL0010",
        "samples-in-order",
        "The samples of one process, and the power of one node, have strictly increasing times.",
        "Check whether two recorders wrote into one file.",
        severity="error",
        repair="Of samples of one time the last is kept; the others are sorted.",
    ),
    ProblemCode(
        "TL0011",
        "windows-positive",
        "A sampling window has a positive length.",
        "Remove these samples: no CPU share follows from a window of zero length.",
        severity="error",
    ),
    ProblemCode(
        "TL0012",
        "windows-disjoint",
        "A sampling window begins at or after the end of the one before.",
        "Check whether two recorders observed the same process.",
        severity="error",
        repair="The window is shortened to begin there; its CPU time is kept.",
    ),
    ProblemCode(
        "TL0013",
        "placements-of-tasks",
        "The task of every execution exists.",
        "Add the missing tasks, or remove their executions.",
        severity="error",
    ),
    ProblemCode(
        "TL0014",
        "samples-of-tasks",
        "The task of every sample exists.",
        "Add the missing tasks if their usage matters.",
        severity="error",
        repair="A sample of no task is left out.",
    ),
    ProblemCode(
        "TL0015",
        "known-parents",
        "Every parent of a task exists.",
        "Add the parents, or remove the dependency; a log that was cut in time loses parents.",
        severity="error",
    ),
    ProblemCode(
        "TL0016",
        "acyclic",
        "No task waits for itself, directly or through others.",
        "Remove one dependency of the cycle that is named.",
        severity="error",
    ),
    ProblemCode(
        "TL0017",
        "known-files",
        "Every file that a task reads or writes, and that task, exist.",
        "Add the files to the table of files, or remove the access.",
        severity="error",
    ),
    ProblemCode(
        "TL0018",
        "known-nodes",
        "Every node that is named is in the table of nodes, if there is one.",
        "Add the node, or correct its name.",
        severity="error",
    ),
    ProblemCode(
        "TL0019",
        "pids-apart",
        "Two tasks never have one process id on one node at one time.",
        "One of the two tasks has a wrong process id, node or time: correct the source.",
        severity="error",
    ),
    ProblemCode(
        "TL0020",
        "sampled",
        "A task that is longer than a sampling period has a sample.",
        "Record again with a shorter period, or remove the usage of this log.",
        severity="error",
    ),
    ProblemCode(
        "TL0021",
        "samples-within",
        "The window of a sample touches the execution of its task.",
        "Correct the times of the samples; a constant shift means another time zone.",
        severity="error",
    ),
    ProblemCode(
        "TL0022",
        "samples-reach-ends",
        "Samples begin and end within one sampling period of the start and the end of their task.",
        "The recorder began late or ended early: record again, or remove these samples.",
        severity="error",
    ),
    ProblemCode(
        "TL0023",
        "cpu-possible",
        "A sample has no more CPU time than its node could give, plus 5 % and a tick of 10 ms.",
        "Check the number of cores of the node, and the unit of the CPU time.",
        severity="error",
    ),
    ProblemCode(
        "TL0024",
        "memory-possible",
        "A sample has no more memory than its node.",
        "Check the memory of the node, and the unit of the samples.",
        severity="error",
    ),
    ProblemCode(
        "TL0025",
        "times-known",
        "The start and the end of each execution are known.",
        "Tasks without both times count in no mean; add the times if the source has them.",
        severity="warning",
    ),
    ProblemCode(
        "TL0026",
        "too-short-to-sample",
        "A task has a sample, even if it is shorter than a sampling period.",
        "Record with a shorter period if the usage of short tasks matters.",
        severity="warning",
    ),
    ProblemCode(
        "TL0027",
        "samples-cover",
        "Samples cover their task from its start to its end.",
        "Less than one period is missing; a shorter period makes the gap smaller.",
        severity="warning",
    ),
    ProblemCode(
        "TL0028",
        "gaps-in-samples",
        "Consecutive samples of a process have no gap of more than one sampling period.",
        "The recorder was too slow or was suspended: record with a longer period or on a "
        "quiet machine.",
        severity="warning",
    ),
    ProblemCode(
        "TL0029",
        "usage-of-every-task",
        "If a log has usage but no executions, every task has usage.",
        "Tasks without usage do no work in a simulation; add their usage or remove them.",
        severity="warning",
    ),
    ProblemCode(
        "TL0030",
        "run-time-matches-usage",
        "If a log has usage but no executions, the usage lasts as long as the run time.",
        "Check the unit of the run time and of the usage.",
        severity="warning",
    ),
    ProblemCode(
        "TL0031",
        "run-time-matches-execution",
        "The run time of a task equals the length of its executions.",
        "Check whether the run time includes waiting, or several attempts.",
        severity="warning",
    ),
    ProblemCode(
        "TL0032",
        "after-zero",
        "Nothing happens before t = 0.",
        "Shift the times of the log, or correct the date of t = 0.",
        severity="warning",
    ),
    ProblemCode(
        "TL0033",
        "parents-first",
        "A task starts after its parents have ended.",
        "A simulation starts such a task later than the log did; check the dependency.",
        severity="warning",
    ),
    ProblemCode(
        "TL0034",
        "cpu-exact",
        "A sample has no more CPU time than its node could give, without any tolerance.",
        "Up to 5 % and one tick of 10 ms is the error of the accounting; nothing needs to be done.",
        severity="warning",
    ),
    ProblemCode(
        "TL0035",
        "overcommit",
        "The cores in use on a node never exceed its cores.",
        "Check the cores of the node; a site that shares cores needs a policy that shares "
        "them too.",
        severity="warning",
    ),
    ProblemCode(
        "TL0036",
        "fits-no-node",
        "A task that was never executed requests no more than some node has.",
        "Such a task is rejected in a simulation: correct its request or the nodes.",
        severity="warning",
    ),
    ProblemCode(
        "TL0037",
        "runnable",
        "A task of a log has processors (requested, else allocated) and a run time.",
        "Such a task is skipped and counted; add its run time to simulate it, or let tasks run "
        "as long as requested (`workload: inject: predictions`).",
        severity="warning",
    ),
    ProblemCode(
        "TL0038",
        "requested-cores-positive",
        "The requested cores and nodes of a task are positive.",
        "The allocated cores are used instead, where they are known.",
        severity="warning",
    ),
    ProblemCode(
        "TL0039",
        "within-requested-time",
        "A task runs no longer than its requested time, unless that is a prediction.",
        "The site did not enforce the limit; leave `kill_at_requested_time` off for this log.",
        severity="warning",
    ),
    ProblemCode(
        "TL0040",
        "zero-length",
        "The run time of a task is positive.",
        "Tasks of zero length end at once in a simulation; check the resolution of the log.",
        severity="warning",
    ),
    ProblemCode(
        "TL0041",
        "instance-periods",
        "The periods of an instance do not overlap, and none follows its end.",
        "Remove rows that repeat an instance; merge runs with a prefix per run.",
        severity="error",
    ),
    ProblemCode(
        "TL0042",
        "instance-states-within",
        "The states of an instance do not overlap, and lie between its request and its end.",
        "Remove rows that repeat a state, and the states of other instances of the same name.",
        severity="error",
    ),
    ProblemCode(
        "TL0043",
        "instance-fits-host",
        "An instance has no more cores and memory than its host.",
        "Correct the instance or the node; a host whose size was changed during the run needs "
        "nothing.",
        severity="warning",
    ),
    # Files and folders
    ProblemCode(
        "TL0101",
        "file-not-found",
        "A file or folder does not exist.",
        "Check the path; paths in a description are relative to the file of the description.",
    ),
    ProblemCode(
        "TL0102",
        "wrong-file-type",
        "A path is a folder where a file is needed, a file where a folder is needed, or a device.",
        "Give the path of the kind that the message asks for.",
    ),
    ProblemCode(
        "TL0103",
        "cannot-read",
        "The operating system or a decompressor could not read a file.",
        "Check its permissions, and whether it was copied completely.",
    ),
    ProblemCode(
        "TL0104",
        "cannot-write",
        "The operating system could not write a file: a missing permission, a full or a "
        "read-only disk.",
        "Make room or choose another folder. What was written before is kept.",
    ),
    ProblemCode(
        "TL0105",
        "output-exists",
        "The output exists already, and is replaced only on request.",
        "Give another name, or --overwrite (overwrite=True) to replace it.",
    ),
    ProblemCode(
        "TL0106",
        "not-replaceable",
        "The output exists and was not written by Twinloop, or contains other files, so it "
        "is never replaced.",
        "Give another name, or move these files away yourself.",
    ),
    ProblemCode(
        "TL0107",
        "output-is-input",
        "The output is an input of the same command, contains it, or is inside of it.",
        "Write to another place.",
    ),
    ProblemCode(
        "TL0108",
        "in-use",
        "Another process is using the file or folder.",
        "Wait until that process has ended, or end it.",
    ),
    ProblemCode(
        "TL0109",
        "changed-meanwhile",
        "Another process changed the file while it was being written.",
        "Choose another name; nothing was replaced.",
    ),
    ProblemCode(
        "TL0110",
        "not-utf8",
        "A text is not in the encoding UTF-8.",
        "Convert it first, for example with iconv.",
    ),
    ProblemCode(
        "TL0111",
        "too-large",
        "An input is beyond a limit of size, depth, number of items or memory.",
        "Give a smaller input. The memory limit of logs is set by the variable TWINLOOP_MAX_INPUT.",
    ),
    ProblemCode(
        "TL0112",
        "unsafe-name",
        "A name cannot be used as a file name: it has a slash, control characters, or is too long.",
        "Use a plain name.",
    ),
    ProblemCode(
        "TL0113",
        "damaged-file",
        "A file that Twinloop wrote cannot be read back: it was changed, cut, or written by"
        " another version.",
        "Restore it from a copy, or create it again. The message names the readable part, "
        "if there is one.",
    ),
    ProblemCode(
        "TL0114",
        "not-a-result",
        "A folder or file holds no result of the kind that is needed (calibration, study, "
        "confirmation, loop).",
        "Give the folder that the command wrote with -o.",
    ),
    ProblemCode(
        "TL0115",
        "different-inputs",
        "An interrupted piece of work cannot be resumed, because its inputs, code or "
        "options differ from before.",
        "Use the inputs that it was begun with, or start again in another folder.",
    ),
    ProblemCode(
        "TL0116",
        "hash-mismatch",
        "The content of a file differs from the hash that was recorded for it.",
        "Restore the file; a result that refers to it would no longer be valid.",
    ),
    ProblemCode(
        "TL0117",
        "incomplete-trace",
        "A trace folder lacks a file that its manifest names, or has one that it does not name.",
        "Copy the whole folder, or write the trace again.",
    ),
    ProblemCode(
        "TL0118",
        "unsupported-version",
        "A file has a schema version that this version of Twinloop does not read.",
        "Update Twinloop.",
    ),
    ProblemCode(
        "TL0119",
        "incomplete-result",
        "A result is not complete: a step or its runs are still missing.",
        "Repeat the command that makes it; it resumes where it stopped.",
    ),
    ProblemCode(
        "TL0120",
        "outside-folder",
        "A path or link leads out of the folder that it must stay in.",
        "Move the file into the folder, or remove the link.",
    ),
    # Descriptions and arguments
    ProblemCode(
        "TL0200",
        "invalid-input",
        "An input breaks a rule that has no code of its own, such as a rule of a plug-in.",
        "The message says which rule, and where.",
    ),
    ProblemCode(
        "TL0201",
        "not-yaml",
        "A text is not valid YAML, or uses a part of YAML that descriptions do not allow (tags, "
        "keys that are not strings).",
        "Correct the line that is named.",
    ),
    ProblemCode(
        "TL0202",
        "not-json",
        "A text is not valid JSON, or not the JSON value that is expected.",
        "Correct the line or field that is named; NaN and Infinity are not JSON.",
    ),
    ProblemCode(
        "TL0203",
        "unknown-field",
        "A description has a field that does not exist there.",
        "Check the spelling; the message names the nearest field. The pages on platforms, "
        "workloads, scenarios and policies list all fields.",
    ),
    ProblemCode("TL0204", "missing-field", "A required field or value is missing.", "Add it."),
    ProblemCode(
        "TL0205",
        "wrong-type",
        "A value is of another type than the field needs: a number, a text, a list, a "
        "mapping, true or false.",
        "Write a value of the type that the message names; put texts that look like numbers"
        " in quotes.",
    ),
    ProblemCode(
        "TL0206",
        "out-of-range",
        "A number is outside of the range that the field allows.",
        "Correct the value; the message names the range.",
    ),
    ProblemCode(
        "TL0207",
        "not-a-choice",
        "A value is not one of the values that the field allows.",
        "Choose one of the values that the message lists.",
    ),
    ProblemCode(
        "TL0208",
        "invalid-quantity",
        "A text is not a number with a unit of the right kind (time, memory, frequency, "
        "power, price).",
        "Write it like 90min, 64GiB, 2.4GHz or 150W.",
    ),
    ProblemCode(
        "TL0209",
        "unknown-name",
        "No policy, loss, optimiser, generator, figure, parameter or other component has "
        "this name.",
        "Check the spelling; the message lists the known names or the nearest one.",
    ),
    ProblemCode(
        "TL0210",
        "unknown-reference",
        "A description refers to a task, machine, node, user, queue or resource that does "
        "not exist.",
        "Correct the name, or add what it refers to.",
    ),
    ProblemCode(
        "TL0211",
        "duplicate-name",
        "Two things of one kind have the same name, or a key or value is given twice.",
        "Give each its own name, and each key once.",
    ),
    ProblemCode(
        "TL0212",
        "wrong-count",
        "A list has too few or too many items, or an array has the wrong shape.",
        "The message names the number or the shape that is needed.",
    ),
    ProblemCode(
        "TL0213",
        "conflicting-fields",
        "Two fields or arguments exclude each other.",
        "Keep one of them.",
    ),
    ProblemCode(
        "TL0214",
        "no-effect",
        "A field is set that has no effect without another one.",
        "Set the other field too, or remove this one.",
    ),
    ProblemCode(
        "TL0215",
        "wrong-order",
        "Values are not in the order that is needed, such as an end before its start or "
        "times that do not increase.",
        "Correct or sort the values.",
    ),
    ProblemCode(
        "TL0216",
        "invalid-path",
        "A path to a value of a description cannot be read, or leads to no value.",
        "Write it like clusters[0].hosts[2].cores in a platform; in a scenario (--set) it begins "
        "with platform.",
    ),
    ProblemCode(
        "TL0217",
        "invalid-date",
        "A text is not a date and time.",
        "Write it like 2026-11-17T08:00:00Z.",
    ),
    ProblemCode(
        "TL0218",
        "inconsistent-values",
        "Two values that describe the same thing contradict each other.",
        "Correct one of them, or leave one out.",
    ),
    ProblemCode(
        "TL0219",
        "not-stored",
        "An object that existed only in memory (a policy, a workload, code) is not stored "
        "in the file.",
        "Give the object again, or use one that a file can name.",
    ),
    ProblemCode(
        "TL0220",
        "wrong-argument",
        "A function of the Python interface was called with an argument of the wrong kind.",
        "The message names what it takes; help() of the function has an example.",
    ),
    ProblemCode(
        "TL0221",
        "invalid-command",
        "A command or an environment variable to run is not valid.",
        "Write a command as a list of a program and its arguments; no shell is involved.",
    ),
    ProblemCode(
        "TL0222",
        "invalid-template",
        "A text with {names} in braces cannot be filled in.",
        "Write {{ and }} for braces, and use only names that have a value.",
    ),
    ProblemCode(
        "TL0223",
        "plugin-error",
        "A plug-in or a class given as module:Class cannot be imported, or is defined more "
        "than once.",
        "Check that its package is installed and can be imported in Python.",
    ),
    ProblemCode(
        "TL0224",
        "code-not-allowed",
        "A description names Python code, which is run only with permission.",
        "If you trust the file: --allow-code on the command line, allow_code=True in Python.",
    ),
    ProblemCode(
        "TL0225",
        "wrong-interface",
        "An object or class does not have the interface that is needed (a policy, a loss, "
        "an optimiser).",
        "Derive it from the class, or implement the methods, that the message names.",
    ),
    ProblemCode(
        "TL0226",
        "invalid-setting",
        "A value violates a constraint on this field, or on several fields together.",
        "The message states the rule; correct the value.",
    ),
    # Logs and formats
    ProblemCode(
        "TL0301",
        "unknown-format",
        "The format of a log could not be detected, or no format has this name or suffix.",
        "Name the format with --format (or --to for the output); docs/traces.md lists the formats.",
    ),
    ProblemCode(
        "TL0302",
        "wrong-format",
        "A file is not in the format that it should have.",
        "Check that the file and the format belong together.",
    ),
    ProblemCode(
        "TL0303",
        "format-not-writable",
        "Logs of this format can only be read.",
        "Choose one of the formats that the message lists.",
    ),
    ProblemCode(
        "TL0304",
        "option-of-other-format",
        "An option is given that the format of the log does not have.",
        "Leave it out, or name the format that has it.",
    ),
    ProblemCode(
        "TL0305",
        "invalid-value",
        "A field of a log has a value that cannot be read.",
        "Correct it in the source, or write it as unknown (-1 in SWF, an empty cell in CSV).",
    ),
    ProblemCode(
        "TL0306",
        "empty-log",
        "A log is empty, or has no row that can be read.",
        "Check that the file is complete, and that it is the right one.",
    ),
    ProblemCode(
        "TL0307",
        "wrong-columns",
        "A table lacks a column, names one twice, or its map of columns does not fit.",
        "The message lists the columns of the file; map them with --columns.",
    ),
    ProblemCode(
        "TL0308",
        "malformed-row",
        "A line of a table has the wrong number of cells, an open quote, or is too long.",
        "Correct the line that is named.",
    ),
    ProblemCode(
        "TL0309",
        "unknown-date",
        "The date of t = 0 is needed and unknown, or two clocks are mixed.",
        "Give the date (start in a scenario), or give all times in seconds since t = 0.",
    ),
    ProblemCode(
        "TL0310",
        "dependency-cycle",
        "Tasks wait for each other in a cycle, so none of them can ever start.",
        "Remove one dependency of the cycle that is named.",
    ),
    ProblemCode(
        "TL0311",
        "not-representable",
        "A value cannot be written in the chosen format.",
        "Repair the trace first, or choose another format.",
    ),
    ProblemCode(
        "TL0312",
        "unknown-core-speed",
        "The clock frequency that CPU time refers to is unknown or not valid.",
        "Give reference_mhz.",
    ),
    ProblemCode(
        "TL0313",
        "nothing-selected",
        "A selection leaves no task, or has no condition.",
        "Widen the selection.",
    ),
    ProblemCode(
        "TL0314",
        "not-mergeable",
        "Logs cannot be merged: their CPU times or their names contradict each other.",
        "Merge logs of one kind, and give each a name of its own.",
    ),
    ProblemCode(
        "TL0315",
        "quality-gate",
        "A trace violates quality rules of severity error.",
        "`twinloop check` lists the rules and rows; `twinloop convert --repair` applies the"
        " defined repairs.",
    ),
    # Workloads, platforms, scenarios and policies
    ProblemCode(
        "TL0401",
        "not-runnable",
        "A task of a workload can never run or never end: its run time, rate or platform "
        "does not allow it.",
        "Give run times, or remove the task.",
    ),
    ProblemCode(
        "TL0402",
        "missing-scenario",
        "A scenario is needed and not given, or the trace has none in its manifest.",
        "Give one: --scenario scenario.yaml.",
    ),
    ProblemCode(
        "TL0403",
        "missing-platform",
        "The platform is unknown: the log names no nodes and no number of processors.",
        "Give one: --platform 100x1, or a file.",
    ),
    ProblemCode(
        "TL0404",
        "not-a-platform",
        "A text is neither the short form of a platform nor the path of a file.",
        "Write it like 100x1 or 2x8@2400MHz/64GiB.",
    ),
    ProblemCode(
        "TL0405",
        "too-many",
        "A generator or a random process would make more tasks, failures, rows or bins than"
        " the limit.",
        "Check the unit of the value that is named, or give a smaller number.",
    ),
    ProblemCode(
        "TL0406",
        "policy-options",
        "A policy or a source cannot be created with these options.",
        "The message has the error of its class; docs/policies.md and docs/sources.md list the "
        "options.",
    ),
    ProblemCode(
        "TL0407",
        "carbon-unavailable",
        "The carbon intensity of the electricity is unknown for a part of the run, or not unique.",
        "Use a series that covers the run, and give the date of t = 0.",
    ),
    ProblemCode(
        "TL0408",
        "log-as-scenario",
        "A log was given where a scenario is needed.",
        "Use the log as the workload of a scenario.",
    ),
    # Simulation
    ProblemCode(
        "TL0501",
        "invalid-state",
        "A state from which a simulation should start is not possible on this platform and "
        "workload.",
        "Correct the task or machine that is named.",
    ),
    ProblemCode(
        "TL0502",
        "invalid-operation",
        "An operation on a running simulation is not possible in its present state.",
        "The message names the state that is needed.",
    ),
    ProblemCode(
        "TL0503",
        "time-in-past",
        "An event was to be added at a time that the simulation has passed, or at no finite time.",
        "Give a time that is not before `now`.",
    ),
    # Real executions, recording and power
    ProblemCode(
        "TL0601",
        "missing-program",
        "A program or a Python package that is needed is not installed, or lacks a feature.",
        "Install it as the message says.",
    ),
    ProblemCode(
        "TL0602",
        "unsupported-system",
        "Real executions and recording need Linux.",
        "Simulate here, and execute in a virtual machine or container with Linux.",
    ),
    ProblemCode(
        "TL0603",
        "missing-resources",
        "This machine has fewer cores or less memory, or allows fewer open files, than the "
        "platform needs.",
        "Use a smaller platform, or raise the limit that is named.",
    ),
    ProblemCode(
        "TL0604",
        "isolation-unavailable",
        "The requested isolation of nodes is not available on this machine.",
        "Use isolation auto; `twinloop nodes` lists what is available and why.",
    ),
    ProblemCode(
        "TL0605",
        "no-such-process",
        "A process or control group to record does not exist, or cannot be recorded.",
        "`ps -e` lists processes; control groups are folders below /sys/fs/cgroup.",
    ),
    ProblemCode(
        "TL0606",
        "command-failed",
        "A command that a run needs could not be started, failed, or did not create its file.",
        "Run the command by hand; the message has its last line or exit status.",
    ),
    ProblemCode(
        "TL0607",
        "invalid-power-readings",
        "A file of power readings has no usable reading, or does not match the run.",
        "Check the columns, the sensors, the units and the time zone.",
    ),
    ProblemCode(
        "TL0608",
        "missing-command",
        "A task has no command, so it can be simulated but not executed.",
        "Give its command in the workload, such as [twinloop-burn, cpu, '{run_time}'].",
    ),
    # Figures and comparisons
    ProblemCode(
        "TL0701",
        "too-few-values",
        "There are too few values or runs for this statistic.",
        "Give more runs or values, or ask for less (fewer batches, fewer parameters).",
    ),
    ProblemCode(
        "TL0702",
        "missing-data",
        "A quantity is needed that the trace or run does not have.",
        "Record or simulate with the output that is named, or use another quantity.",
    ),
    ProblemCode(
        "TL0703",
        "undefined-error",
        "A relative error is undefined, because the measured value is 0 or has no spread.",
        "Use an absolute loss, or one relative to a mean.",
    ),
    ProblemCode(
        "TL0704",
        "repeated-run",
        "One run is given twice, or two runs are identical.",
        "Give each run once.",
    ),
    ProblemCode(
        "TL0705",
        "noise-floor-mismatch",
        "A noise floor was computed with other criteria or other runs.",
        "Compute it from all repetitions of this run with the same criteria.",
    ),
    ProblemCode(
        "TL0706",
        "training-data",
        "A run that was used to fit would be used to assess the fit.",
        "Assess with runs that were not fitted.",
    ),
    # Calibration and campaigns
    ProblemCode(
        "TL0801",
        "no-runs",
        "There is no run, experiment or parameter to work with.",
        "Give at least one.",
    ),
    ProblemCode(
        "TL0802",
        "evaluations-failed",
        "Every evaluation failed, or the one at the calibration did.",
        "The message has the first error; check the parameter ranges.",
    ),
    ProblemCode(
        "TL0803",
        "not-divisible",
        "Runs cannot be divided into training and validation as requested.",
        "Give more runs, or another criterion.",
    ),
    ProblemCode(
        "TL0804",
        "unknown-uncertainty",
        "A fit has no analysis of its uncertainty.",
        "Calibrate again with an analysis.",
    ),
    ProblemCode(
        "TL0805",
        "scheduler-unavailable",
        "A Dask scheduler cannot be reached, or has no workers or certificates.",
        "Start a scheduler and workers, and check the address.",
    ),
    ProblemCode(
        "TL0806",
        "not-serialisable",
        "A function or object cannot be sent to another process, or compared with an earlier one.",
        "Open files, locks and connections inside the function.",
    ),
    ProblemCode(
        "TL0807",
        "invalid-black-box",
        "A black box is not a command or function that can be run here.",
        "Give a command with its arguments, or a Python function.",
    ),
    ProblemCode(
        "TL0808",
        "not-applicable",
        "A parameter, a loss or an option does not apply to this scenario or policy.",
        "The message says what it applies to.",
    ),
    # Studies, rankings and confirmations
    ProblemCode(
        "TL0901",
        "no-usable-runs",
        "No run of a study can be made, or none has succeeded.",
        "The message has the reason of the first; the column `error` of the runs has all.",
    ),
    ProblemCode(
        "TL0902",
        "not-ranked",
        "Configurations cannot be ranked by this KPI, because runs do not have it.",
        "Energy needs hosts with a power model, carbon an intensity, deadlines tasks with "
        "deadlines.",
    ),
    ProblemCode(
        "TL0903",
        "no-candidate",
        "There is no candidate or baseline to compare.",
        "Take more candidates, or name the baseline.",
    ),
    ProblemCode(
        "TL0904",
        "not-comparable",
        "Candidates or runs were made under different conditions, so they cannot be paired.",
        "Compare candidates of one study.",
    ),
    ProblemCode(
        "TL0905",
        "not-portable",
        "A scenario refers to something on this machine that a bundle cannot contain.",
        "Leave it out, or put the file beside the scenario.",
    ),
    # Reports and pictures
    ProblemCode(
        "TL1001",
        "nothing-to-draw",
        "A picture or a page has no data to show.",
        "The message says which data are missing, and how to get them.",
    ),
    ProblemCode(
        "TL1002",
        "unsupported-page",
        "A report cannot be written in the format of this file name.",
        "End the name with .html, or as the message says.",
    ),
    ProblemCode(
        "TL1003",
        "port-unavailable",
        "The port for the pages of `twinloop view` is not available.",
        "Leave out --port to use a free one.",
    ),
    # Command line
    ProblemCode(
        "TL1101",
        "missing-argument",
        "A command lacks an argument or an option.",
        "`twinloop COMMAND --help` has an example.",
    ),
    ProblemCode(
        "TL1102",
        "conflicting-options",
        "Two options exclude each other, or set the same value.",
        "Give one of them.",
    ),
    ProblemCode(
        "TL1103",
        "inapplicable-option",
        "An option does not apply to what the command is given.",
        "Leave it out; the message says what it applies to.",
    ),
    ProblemCode(
        "TL1104",
        "malformed-option",
        "The value of an option cannot be read.",
        "Write it as the message says.",
    ),
)

#: All codes by name.
CODES: Final = {entry.name: entry for entry in _TABLE}
