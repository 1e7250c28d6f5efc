"""Scheduling policies of workflows: native, with dependencies, files and speed-up laws.

They order tasks by declared run times: requested, or else recorded.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from twinloop.description.errors import InputError
from twinloop.description.quantities import Count, quote_value
from twinloop.policy.built_in import BuiltInPolicy


def _read_cores(value: object) -> object:
    """Read a number of cores: `max`, or an efficiency."""
    if value == "max":
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise InputError(
            f"must be 'max' or an efficiency, more than 0 and at most 1, not {quote_value(value)}",
            kind="wrong-type",
        )
    return float(value)


class ListScheduling(BuiltInPolicy):
    """List scheduling of workflows: the first ready task by priority, in a cluster with idle cores.

    >>> ListScheduling(cluster="fastest", cores=0.9).native_settings()["efficiency"]
    0.9
    """

    name: ClassVar[str] = "list-scheduling"

    order: Literal["bottom-level", "children", "data", "work"] = Field(
        "bottom-level",
        description="priority of ready tasks, largest first: declared work on the longest path "
        "from the task on (bottom-level), number of children, bytes of its files, declared work",
    )
    cluster: Literal["fastest", "most-idle", "most-idle-speed", "most-data"] = Field(
        "most-idle-speed",
        description="choice among the clusters with an idle core: by the speed of their fastest "
        "host, their idle cores, the product of both, or the bytes of the inputs in their stores",
    )
    cores: Annotated[
        float | Literal["max"],
        BeforeValidator(_read_cores),
        WithJsonSchema(
            {"anyOf": [{"const": "max"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]}
        ),
        Field(
            description="cores of a task with a speed-up law, on one host: as many as possible "
            "(max), or the most with at least this efficiency"
        ),
    ] = "max"
    cap: Count | None = Field(
        None, description="maximum cores of a task with a speed-up law; by default its own maximum"
    )
    ties: Literal["last", "first"] = Field(
        "last", description="choice among clusters that are equal: the last or the first one"
    )
    data: Literal["input+output", "input"] = Field(
        "input+output", description="files that `order: data` counts"
    )

    def _settings(self) -> dict[str, object]:
        return {
            "kind": "list",
            "order": self.order,
            "cluster": self.cluster,
            "efficiency": 0.0 if self.cores == "max" else self.cores,
            "cap": math.inf if self.cap is None else float(self.cap),
            "ties": self.ties,
            "data": self.data,
        }


class MinMin(BuiltInPolicy):
    """Min-min: the ready task with the earliest completion next, on the host that completes it so.

    The completion of a task on a host follows from its declared run time, the speed and the load of
    the host, and the files that have to move.

    >>> MinMin().native_settings()["largest"]
    False
    """

    name: ClassVar[str] = "min-min"
    _largest: ClassVar[bool] = False

    def _settings(self) -> dict[str, object]:
        return {"kind": "completion-time", "largest": self._largest}


class MaxMin(MinMin):
    """Max-min: as `min-min`, but the task whose earliest completion is the latest comes next.

    >>> MaxMin().native_settings()["largest"]
    True
    """

    name: ClassVar[str] = "max-min"
    _largest: ClassVar[bool] = True


class Heft(BuiltInPolicy):
    """HEFT: a plan at the start: tasks on long paths first, each where it is completed first.

    Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing", IEEE TPDS 13(3), 2002. A task is inserted into a gap of the plan if it
    fits there.

    >>> Heft().native_settings()["critical_path"]
    False
    """

    name: ClassVar[str] = "heft"
    _critical_path: ClassVar[bool] = False

    def _settings(self) -> dict[str, object]:
        return {"kind": "static", "critical_path": self._critical_path}


class Cpop(Heft):
    """CPOP: a plan at the start, with all tasks of the critical path on one host.

    By the authors of `heft`, in the same article.

    >>> Cpop().native_settings()["critical_path"]
    True
    """

    name: ClassVar[str] = "cpop"
    _critical_path: ClassVar[bool] = True
