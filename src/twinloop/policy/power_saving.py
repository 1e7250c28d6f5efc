"""The controller that switches idle machines off."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from twinloop.description.quantities import Seconds, Whole
from twinloop.policy.built_in import BuiltInPolicy


class PowerSaving(BuiltInPolicy):
    """Switch off machines that have been idle for some time, and on those that tasks need.

    It acts after the policy. For the tasks that still wait, in their order, it searches machines
    among those that run or are switching on; for a task that fits on none, it switches on the
    machines that the task needs in addition.

    >>> PowerSaving(idle_time="5min", keep=2).idle_time
    300.0
    """

    name: ClassVar[str] = "power-saving"
    idle_time: Annotated[
        Seconds, Field(description="time without tasks after which a machine is switched off (s)")
    ] = 0.0
    keep: Annotated[
        Whole, Field(description="number of machines that stay on, also without tasks")
    ] = 0

    def _settings(self) -> dict[str, object]:
        return {"kind": "power-saving", "idle_time": self.idle_time, "keep": self.keep}
