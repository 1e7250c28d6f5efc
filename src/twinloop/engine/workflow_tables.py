"""Tables for the policies of workflows: the clusters of machines and stores, the order of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from twinloop.engine.platform_columns import MachineTable

#: The kinds of native policies that need the tables.
_KINDS: Final = ("list", "completion-time", "static")
#: Native value of a store that belongs to no cluster.
_NONE: Final = 2**32 - 1


def add_workflow_tables(
    settings: Mapping[str, Any], machines: MachineTable, ids: pl.Series
) -> dict[str, Any]:
    """Return native settings of a policy with the tables that it needs, if it needs any.

    >>> from twinloop.engine import CompiledScenario
    >>> from twinloop.scenario import Scenario
    >>> compiled = CompiledScenario(Scenario(platform="2x4", policy="list-scheduling", workload={
    ...     "tasks": [{"id": "b", "run_time": 1}, {"id": "a", "run_time": 1}]}))
    >>> settings = compiled.policy.native_settings()
    >>> made = add_workflow_tables(settings, compiled.machines, compiled.arrays.ids)
    >>> made["clusters"], made["ranks"]
    ([0, 0], [1, 0])
    """
    if settings.get("kind") not in _KINDS:
        return dict(settings)
    platform = machines.platform
    index = {each.name: number for number, each in enumerate(platform.clusters)}
    ranks = np.empty(ids.len(), dtype=np.int64)
    ranks[ids.arg_sort().to_numpy()] = np.arange(ids.len())
    return {
        **settings,
        "clusters": [index[name] for name in machines.nodes["cluster"].to_list()],
        "store_clusters": [index.get(each.cluster or "", _NONE) for each in platform.stores],
        "ranks": ranks.tolist(),
    }
