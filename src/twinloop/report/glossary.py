"""Glossary: the definition of each term of the reports and of the documentation.

The table here is the only source. Each report page has the definitions of its terms in an
appendix, and `docs/glossary.md` is the output of `python -m twinloop.report.glossary`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import fill
from typing import Final

from twinloop.policy.registry import list_policies
from twinloop.report.quantity_text import format_count


@dataclass(frozen=True, slots=True)
class Term:
    """Term with its definition.

    >>> Term("tie", "No significant difference.").anchor
    'term-tie'
    """

    name: str
    definition: str
    #: Other forms of the term in a text; a plural with s is always recognised.
    forms: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """The id of the definition on a page."""
        return f"term-{re.sub(r'[^a-z0-9]+', '-', self.name.lower())}"

    @property
    def title(self) -> str:
        """The name with a capital letter."""
        return f"{self.name[0].upper()}{self.name[1:]}"


#: All terms in alphabetical order.
TERMS: Final = (
    Term(
        "acceptable set",
        "The parameter values whose loss is so close to the lowest loss that the data do not "
        "reject them. It is the joint confidence region of the parameters.",
    ),
    Term(
        "assessment",
        "The comparison of a twin with a real run by several criteria. Its result is a verdict.",
    ),
    Term(
        "baseline",
        "The unchanged scenario of a study, with which all configurations are compared.",
    ),
    Term(
        "bill",
        "The sum of the prices of the instances, of reservations and of transfers from clouds. An "
        "instance has a price for every begun unit of time.",
    ),
    Term(
        "bounded slowdown",
        "The turnaround of a task divided by its run time, where a run time below a bound (10 s "
        "by default) counts as the bound; at least 1.",
    ),
    Term(
        "broker",
        "A client that assigns each task to an instance, existing or new, by predicted times.",
    ),
    Term(
        "calibration",
        "The search for the parameter values of the model with which the twin is closest to the "
        "real runs. Its result is a fit.",
        ("calibrated",),
    ),
    Term(
        "carbon intensity",
        "The carbon emissions per unit of electricity, in g/kWh.",
    ),
    Term(
        "client",
        "The policy of a scenario that rents instances from a cloud, assigns tasks to them and "
        "gives them back.",
    ),
    Term(
        "cloud",
        "A set of hosts on which clients rent instances. Its provider selects the host of an "
        "instance.",
    ),
    Term(
        "configuration",
        "One combination of levels of the factors of a study.",
    ),
    Term(
        "confirmation",
        "The execution of recommended configurations and of the baseline on real machines, to "
        "test the predictions of a study. The runs are repeated, in random order.",
        ("confirmed",),
    ),
    Term(
        "consolidation",
        "The migration of instances from hosts with a low load to other hosts, so that hosts "
        "can be switched off.",
    ),
    Term(
        "contention",
        "The slowdown of tasks that share a host, because they compete for its cores, caches or "
        "memory.",
    ),
    Term(
        "contention kind",
        "The class of a task in the contention model, for example `cpu` or `cache`. Each kind has "
        "a pressure on its neighbours and a sensitivity to the pressure of its neighbours.",
    ),
    Term(
        "criterion",
        "A statistic of the difference between the twin and the real run, with a threshold. A "
        "criterion passes, fails or is not assessable.",
        ("criteria",),
    ),
    Term(
        "crude baseline",
        "List scheduling of the tasks of a run on free cores, with mean run times of training runs "
        "and without any overhead. A simulator that is no better predicts nothing more.",
    ),
    Term(
        "CTS",
        "Core Trace Schema, a trace format of JSON files with the executions of tasks, samples of "
        "their processes and the nodes.",
    ),
    Term(
        "data cleaning",
        "The treatment of faulty records when a log is read: they are dropped, repaired, imputed "
        "or left unchanged. The trace records each treatment with its count.",
    ),
    Term(
        "downtime",
        "The time in which the tasks of an instance are stopped by a migration.",
    ),
    Term(
        "effect",
        "The difference between the mean of a KPI at one level of a factor and its mean over all "
        "runs of a study in which the factor is active.",
    ),
    Term(
        "factor",
        "A property of the scenario that a study varies, such as the policy or the platform. Its "
        "values are called levels.",
    ),
    Term(
        "fit",
        "The result of a calibration: the fitted parameter values, their identifiability, the "
        "losses and the verdicts.",
    ),
    Term(
        "hold-out",
        "A run that the calibration does not use, so that the assessment of the twin on it tests "
        "a prediction.",
        ("hold-out run", "held out"),
    ),
    Term(
        "ideal simulator",
        "A simulator that returns the mean of the repetitions of each workload. Its loss is the "
        "least that a simulator without random parts can have.",
    ),
    Term(
        "identifiability",
        "The degree to which the data determine the value of a parameter. A parameter is "
        "identifiable if the interval of its acceptable values is at most a tenth of its range.",
        ("identifiable",),
    ),
    Term(
        "image",
        "The data that is copied to a host before an instance can boot there.",
    ),
    Term(
        "imputation",
        "The replacement of a missing value by an assumed one, which the trace records.",
        ("imputed",),
    ),
    Term(
        "instance",
        "A virtual machine or container that is rented from a cloud, with cores and memory of a "
        "host.",
    ),
    Term(
        "interaction",
        "The part of the joint effect of two factors that is not the sum of their separate "
        "effects.",
    ),
    Term(
        "Kendall's tau",
        "A rank correlation: 1 for the same order, -1 for the reverse order, near 0 for unrelated "
        "orders.",
        ("tau",),
    ),
    Term(
        "KPI",
        "Key performance indicator: a figure by which runs are compared, such as the makespan, "
        "the wait or the energy.",
    ),
    Term(
        "lateness",
        "The delay of a submission against the recorded one in a replay with feedback. For a task "
        "with a deadline, the delay of its end after the deadline.",
    ),
    Term(
        "level of detail",
        "What a model represents, such as a link or a star of links. A study of it compares "
        "versions of a scenario, each of which is calibrated.",
        ("levels of detail",),
    ),
    Term(
        "live migration",
        "The move of an instance to another host while its tasks run. The memory is copied in "
        "rounds, each with what has changed during the round before.",
    ),
    Term(
        "loss",
        "The distance between runs of the twin and real runs in one number, which a calibration "
        "minimises; 0 means no difference.",
        ("losses",),
    ),
    Term(
        "makespan",
        "The time from the first submission to the last end of a task.",
    ),
    Term(
        "model",
        "The parameters of the simulator that describe the behaviour of the machines: speed "
        "factors, overheads, contention, power.",
    ),
    Term(
        "noise floor",
        "The difference between repetitions of the same real run, measured like the difference "
        "between the twin and the real run. No twin can be shown to be closer than this.",
    ),
    Term(
        "optimiser",
        "The algorithm that searches the range of the parameters for the lowest loss.",
    ),
    Term(
        "overcommit",
        "The ratio of the cores that a node offers to tasks to the cores that it has; above 1, "
        "tasks share cores.",
        ("overcommitment", "overcommitted"),
    ),
    Term(
        "Pareto front",
        "The configurations for which no other is better in one objective without being worse in "
        "another.",
    ),
    Term(
        "placement of instances",
        "The selection of a host for each instance by the provider of a cloud, and the order of "
        "its queue.",
    ),
    Term(
        "platform",
        "The description of the machines: clusters, hosts, cores, memory, power models.",
    ),
    Term(
        "policy",
        "The scheduling algorithm, which decides when and where a task starts.",
        ("policies", "scheduling policy"),
    ),
    Term(
        "predict",
        "The mode in which the twin gets only the declared work of the tasks, and no measurement "
        "of the run with which it is compared.",
    ),
    Term(
        "prediction",
        "A result of the twin for a run that was not executed, or that its calibration did not "
        "use.",
        ("predicted",),
    ),
    Term(
        "probe",
        "A short real run that measures how much tasks of the contention kinds slow each other "
        "down.",
    ),
    Term(
        "profile likelihood",
        "A method for confidence intervals: one parameter is fixed, all others are fitted again, "
        "and the interval contains the values for which the loss stays below a bound (Raue et "
        "al., 2009).",
    ),
    Term(
        "provider",
        "The controllers of a cloud: they place instances, switch hosts on and off, and migrate "
        "instances.",
    ),
    Term(
        "quality gate",
        "The set of rules that check the data of a trace. A violated rule is an error or a "
        "warning.",
    ),
    Term(
        "random seed",
        "The number that initialises the random number generator; runs with equal inputs and the "
        "same seed are identical.",
        ("seed",),
    ),
    Term(
        "repair",
        "The correction of a faulty value that has one defined correction, which the trace "
        "records.",
        ("repaired",),
    ),
    Term(
        "replay",
        "The mode in which the twin gets measurements of the run with which it is compared, such "
        "as the run times, so that only scheduling and sharing are tested.",
    ),
    Term(
        "replay with feedback",
        "A replay in which a user submits after the end of earlier tasks and a think time, "
        "instead of at the recorded time.",
    ),
    Term(
        "run effect",
        "The common deviation of all tasks of one run, for example because the machine was slow "
        "for its duration. It is a random effect, with a variance estimated from several runs "
        "(random-effects variance).",
    ),
    Term(
        "scenario",
        "The complete input of a run: platform, workload, source, policy, model and random seed.",
    ),
    Term(
        "session",
        "A series of submissions of one user without a long pause between them.",
    ),
    Term(
        "simulation-based calibration",
        "A test of a method of inference: for data simulated with known parameter values from the "
        "prior, the ranks of these values among their posterior samples must be uniform (Talts et "
        "al., 2018).",
    ),
    Term(
        "sMAPE",
        "Symmetric mean absolute percentage error: the mean of 2 |a - b| / (|a| + |b|) over all "
        "pairs of a measured value a and a simulated value b.",
    ),
    Term(
        "source",
        "The rule for the submission times of a workload: recorded times, or users with sessions "
        "and think times.",
    ),
    Term(
        "study",
        "A what-if experiment: the simulation of many configurations of factors around one base "
        "scenario.",
        ("studies",),
    ),
    Term(
        "SWF",
        "Standard Workload Format, the log format of the Parallel Workloads Archive.",
    ),
    Term(
        "think time",
        "The pause of a user between the end of a session and the start of the next session that "
        "depends on it.",
    ),
    Term(
        "tie",
        "Configurations whose difference is not significant.",
        ("tied",),
    ),
    Term(
        "trace",
        "The record of a run, real or simulated: tasks, placements, nodes, samples, power and a "
        "manifest.",
    ),
    Term(
        "turnaround",
        "The time from the submission of a task to its end.",
    ),
    Term(
        "twin",
        "The simulation of a real system, with the same tasks, platform and policy.",
    ),
    Term(
        "type of instance",
        "The cores and the memory of an instance, as offered by a cloud.",
    ),
    Term(
        "unit of billing",
        "The time for which an instance is paid at once. An instance that is kept beyond it begins "
        "another one.",
    ),
    Term(
        "utilisation",
        "The core-seconds given to tasks divided by those of all cores in the same time.",
    ),
    Term(
        "verdict",
        "The result of an assessment: FAIL if a criterion fails, PASS if all assessable criteria "
        "pass, not assessable if no criterion is. For a recommendation: holds, reversed, tie, not "
        "assessable or not measured.",
    ),
    Term(
        "wait",
        "The time from the submission of a task to its first start; for a task with parents, from "
        "their end.",
        ("wait time",),
    ),
    Term(
        "work inflation",
        "The factor by which contention increases the work of a task.",
    ),
    Term(
        "workload",
        "The tasks of a scenario, with their submission times, sizes and dependencies.",
    ),
)

#: The line width of the documentation.
_WIDTH: Final = 120
_SHORTHAND: Final = re.compile(r"(\d+)x(\d+)")


def define_levels(levels: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Define the levels of a study that are policies or shorthands of platforms.

    Args:
        levels: Names of policies and platforms such as `2x1`; others are left out.

    >>> for name, definition in define_levels(["2x1", "fcfs", "7"]):
    ...     print(f"{name}: {definition}")
    2x1: 2 nodes of 1 core each.
    fcfs (policy): First come, first served: a task that does not fit blocks all tasks behind it.
    """
    policies = list_policies()
    for level in dict.fromkeys(levels):
        if shape := _SHORTHAND.fullmatch(level):
            nodes, cores = (int(part) for part in shape.groups())
            each = " each" if nodes > 1 else ""
            yield level, f"{format_count(nodes, 'node')} of {format_count(cores, 'core')}{each}."
        elif level in policies:
            summary = (inspect.getdoc(policies[level]) or "").split("\n\n")[0]
            yield f"{level} (policy)", f"{' '.join(summary.split()).removesuffix('.')}."


def format_markdown() -> str:
    """Format the glossary as a page of the documentation.

    >>> format_markdown().splitlines()[0]
    '# Glossary'
    """
    intro = (
        "The terms of the reports and of this documentation. Each report page has the definitions "
        "of its terms in an appendix."
    )
    source = "<!-- Output of `python -m twinloop.report.glossary`; edit the table there. -->\n"
    parts = [f"# Glossary\n\n{source}\n{fill(intro, _WIDTH)}\n"]
    parts += [f"## {term.title}\n\n{fill(term.definition, _WIDTH)}\n" for term in TERMS]
    return "\n".join(parts)


if __name__ == "__main__":
    print(format_markdown(), end="")
