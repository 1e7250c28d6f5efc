"""The speed-up law of a task that is listed in a scenario."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from twinloop.description import Description
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Positive, Share
from twinloop.workload.speedup_laws import find_table_problem


class Speedup(Description):
    """A speed-up law S(n): the speed of a task on n cores, as a multiple of that on one core.

    `linear`, the short form, is S(n) = n.

    >>> Speedup.from_dict("linear").amdahl
    1.0
    >>> Speedup(table=[[1, 1], [2, 1.8], [4, 3.1]]).table[-1]
    (4.0, 3.1)
    """

    amdahl: Share | None = Field(
        None,
        description="share a of the work that several cores do in parallel: "
        "S(n) = 1 / ((1 - a) + a / n)",
    )
    table: tuple[tuple[Positive, Positive], ...] = Field(
        (),
        description="numbers of cores and the speed-up on each; linear between them, constant "
        "beyond the last one",
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"amdahl": 1.0} if data == "linear" else data

    @model_validator(mode="after")
    def _check_kind(self) -> Speedup:
        findings = ProblemCollector()
        if (self.amdahl is None) == (not self.table):
            findings.add((), "needs either `amdahl` or `table`, or is `linear`", kind="wrong-type")
        elif self.table and (problem := find_table_problem(list(self.table))):
            findings.add(("table",), problem, kind="inconsistent-values")
        findings.check()
        return self
