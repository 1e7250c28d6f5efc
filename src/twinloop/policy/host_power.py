"""Controllers that decide which machines are on, beside a policy."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twinloop.policy.built_in import BuiltInPolicy


class AlwaysOn(BuiltInPolicy):
    """All machines are on all the time: this controller gives no orders.

    >>> AlwaysOn().native_settings()["kind"]
    'always-on'
    """

    name: ClassVar[str] = "always-on"

    def _settings(self) -> dict[str, object]:
        return {"kind": "always-on"}


class OnDemand(BuiltInPolicy):
    """Machines are on only while they are needed; at the start of a run, those of a cloud are off.

    With `starts: one`, the rule of DISSECT-CF: while tasks (or instances of a cloud) wait and no
    machine is being switched on, the first machine that is off is switched on; while none waits,
    machines without tasks are switched off. With `starts: needed`, all machines that the waiting
    tasks need are switched on at once, and others are switched off when they become idle.

    >>> OnDemand(starts="needed").native_settings()["one_at_a_time"]
    False
    """

    name: ClassVar[str] = "on-demand"
    starts: Annotated[
        Literal["one", "needed"],
        Field(description="one: one machine at a time; needed: as many as the queue needs"),
    ] = "one"

    def _settings(self) -> dict[str, object]:
        return {"kind": "on-demand", "one_at_a_time": self.starts == "one"}
