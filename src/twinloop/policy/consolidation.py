"""The controller of a cloud that moves instances between hosts."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twinloop.description.quantities import Seconds, Share
from twinloop.policy.built_in import BuiltInPolicy


class Consolidate(BuiltInPolicy):
    """Move the instances of hosts with a low load to others, so that hosts can be switched off.

    At every decision, hosts with instances and with a load below `threshold` are drained one after
    the other, if other hosts with instances have room for all of theirs. Hosts that receive
    instances are not drained in the same decision; while instances wait, none is.

    - `draining`: hosts by load, each instance to the first host with room.
    - `first-fit`: all hosts, also those above `threshold`, the last one of the platform first; each
      instance for itself to the first host before it with room, so that hosts are emptied in part.
    - `best-fit-decreasing`: hosts by load, the largest instance first, to the host with the fewest
      free cores.
    - `cost`: the same, hosts by the memory that has to be copied, and only if the energy that is
      saved within `horizon` is more than that of switching the host off and on; the host still runs
      while its instances are copied. A host takes part in one copy at a time, because concurrent
      copies prolong the downtime.

    >>> Consolidate(method="cost", interval="10min").interval
    600.0
    """

    name: ClassVar[str] = "consolidate"
    method: Annotated[
        Literal["draining", "first-fit", "best-fit-decreasing", "cost"],
        Field(description="which hosts are drained, and where their instances go"),
    ] = "draining"
    interval: Annotated[Seconds, Field(gt=0, description="time between two decisions (s)")] = 600.0
    threshold: Annotated[
        Share, Field(description="share of allocated cores below which a host is drained")
    ] = 0.5

    horizon: Annotated[
        Seconds,
        Field(gt=0, description="cost: time that a drained host is expected to stay empty (s)"),
    ] = 3600.0

    def _settings(self) -> dict[str, object]:
        # The powers and the bandwidth are those of a platform, which is not known here.
        return {
            "kind": "consolidate",
            "method": self.method,
            "interval": self.interval,
            "threshold": self.threshold,
            "horizon": self.horizon,
            "idle_watts": 0.0,
            "off_watts": 0.0,
            "switch_time": 0.0,
            "switch_energy": 0.0,
            "bandwidth": float("inf"),
        }
