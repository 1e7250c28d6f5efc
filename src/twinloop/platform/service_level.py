"""Service levels of a cloud: a limit that a share of its instances or tasks may exceed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from twinloop.description.description import Description
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import DURATION, Label, number_to_text, quote_value

#: The quantities that a service level can limit: their subjects, units and meanings.
SERVICE_METRICS: Final[Mapping[str, tuple[str, str, str]]] = {
    "instance_wait": ("instance", "s", "time from the request of an instance to its use"),
    "downtime": ("instance", "s", "time in which an instance was stopped"),
    "wait": ("task", "s", "time from the submission of a task to its start"),
    "turnaround": ("task", "s", "time from the submission of a task to its end"),
    "slowdown": ("task", "", "turnaround of a task, divided by its run time"),
    "bounded_slowdown": ("task", "", "slowdown with a lower bound of the run time"),
}
_PERCENT: Final = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*%\s*", re.ASCII)


def _read_share(value: Any) -> Any:
    """Read a share from 0 to 1, or a percentage."""
    if isinstance(value, str):
        match = _PERCENT.fullmatch(value)
        if match is not None:
            return float(match[1]) / 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if 1 < value <= 100:
            number = number_to_text(float(value))
            raise InputError(
                f"must be at most 1, not {number}",
                kind="out-of-range",
                remedy=f"did you mean {number} %?",
            )
        return float(value)
    raise InputError(
        f"must be a share, not {quote_value(value)}",
        kind="invalid-quantity",
        remedy="write a number from 0 to 1, or a percentage such as 5 %",
    )


def _read_limit(value: Any) -> Any:
    """Read a limit: a number, or a duration with a unit."""
    return DURATION.read(value)


class ServiceLevel(Description):
    """A service level: at most a share of the instances or tasks may exceed the limit of a metric.

    >>> level = ServiceLevel(metric="instance_wait", limit="2min", share="5 %")
    >>> level.limit, level.share
    (120.0, 0.05)
    >>> level.title
    'instance_wait > 120 s for at most 5 %'
    """

    name: Label = Field("", description="name of the service level, for reports")
    metric: Literal[
        "instance_wait", "downtime", "wait", "turnaround", "slowdown", "bounded_slowdown"
    ] = Field(description="; ".join(f"{name}: {each[2]}" for name, each in SERVICE_METRICS.items()))
    limit: Annotated[
        float,
        Field(ge=0),
        BeforeValidator(_read_limit),
        WithJsonSchema(DURATION.schema(positive=False)),
    ] = Field(description="limit: a duration, of a slowdown a number")
    share: Annotated[
        float,
        Field(ge=0, le=1),
        BeforeValidator(_read_share),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "number", "minimum": 0, "maximum": 1},
                    {"type": "string", "pattern": "%"},
                ]
            }
        ),
    ] = Field(0.0, description="share that may exceed the limit, from 0 to 1 or in %; by default 0")

    @model_validator(mode="before")
    @classmethod
    def _check_unit(cls, values: Any) -> Any:
        """Refuse a limit with a unit of a metric without one."""
        if not isinstance(values, Mapping):
            return values
        metric, limit = values.get("metric"), values.get("limit")
        known = SERVICE_METRICS.get(metric) if isinstance(metric, str) else None
        if (
            known is not None
            and not known[1]
            and isinstance(limit, str)
            and re.search(r"[A-Za-zµ]\s*$", limit)
        ):
            findings = ProblemCollector()
            findings.add(
                ("limit",),
                f"{metric} has no unit, but the limit is {quote_value(limit)}",
                "write a number such as 10",
                kind="invalid-quantity",
            )
            findings.check()
        return values

    @property
    def subject(self) -> str:
        """What is counted: `instance` or `task`."""
        return SERVICE_METRICS[self.metric][0]

    @property
    def title(self) -> str:
        """Its name, or the rule as a text."""
        if self.name:
            return self.name
        unit = SERVICE_METRICS[self.metric][1]
        limit = f"{number_to_text(self.limit)} {unit}".strip()
        return f"{self.metric} > {limit} for at most {number_to_text(round(self.share * 100, 9))} %"
