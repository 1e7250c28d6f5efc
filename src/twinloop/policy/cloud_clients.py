"""The clients of a cloud: policies that rent instances and run the tasks on them."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from twinloop.description.quantities import Name, Price
from twinloop.policy.built_in import BuiltInPolicy
from twinloop.policy.filter_scheduler import QueueingPreset


class CloudClient(BuiltInPolicy):
    """Base class of the policies that rent instances of a cloud."""

    cloud: Annotated[
        Name | None, Field(description="name of the cloud; by default the first of the platform")
    ] = None
    type: Annotated[
        Name | None, Field(description="type of the instances; by default the first of the cloud")
    ] = None
    image: Annotated[
        Name | None, Field(description="image of the instances; by default the first of the cloud")
    ] = None

    bid: Annotated[
        Price | None,
        Field(
            description="the highest spot price of a unit at which instances run; by default they "
            "are not rented at spot prices"
        ),
    ] = None

    def _settings(self) -> dict[str, object]:
        # The numbers of cloud, type and image are those of a platform, which is not known here.
        return {
            "kind": self.name,
            "cloud": 0,
            "type": 0,
            "image": 0,
            "overcommit": 1.0,
            "bid": np.nan if self.bid is None else self.bid,
        }


class OnePerTask(CloudClient):
    """An instance for every task: rented when the task is submitted, given back when it ends.

    A task whose instance is refused is killed. Beyond the limits of the cloud, tasks wait in the
    order of their submission.

    >>> OnePerTask(image="base").image
    'base'
    """

    name: ClassVar[str] = "one-per-task"


class OneInstance(CloudClient):
    """One instance for all tasks, which run on it in the order of their submission.

    It is given back when no task is left, and rented again for later tasks.

    >>> OneInstance(type="large").type
    'large'
    """

    name: ClassVar[str] = "one-instance"


class Manual(QueueingPreset):
    """Instances that are requested through `Simulation.cloud`: tasks run on the first that fits.

    It rents nothing, so that tasks wait for an instance, or a machine in no cloud, with room.

    >>> Manual().native_settings()["waits"]
    True
    """

    name: ClassVar[str] = "manual"

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "waits": True}
