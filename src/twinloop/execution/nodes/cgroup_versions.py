"""The control groups that a run can use, of both versions if the machine has both."""

from __future__ import annotations

from typing import Final

from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.nodes import cgroup1, cgroup2
from twinloop.execution.nodes.cgroup_tree import GroupTree, UnusableHierarchyError

#: Values of `isolation`.
ISOLATIONS: Final = ("auto", "cgroup2", "cgroup1", "affinity", "none")


def open_trees(
    machine: LocalMachine, isolation: str, run: str
) -> tuple[list[GroupTree], tuple[str, ...]]:
    """Open the trees of a run in all hierarchies that it can use.

    Returns the trees, and for every other hierarchy the cause why it cannot be used.

    A controller belongs to one hierarchy of one version, so no two trees have the same. If both
    versions account CPU time, version 2 is used.

    >>> open_trees(LocalMachine.detect(), "affinity", "1-1-0000")
    ([], ())
    """
    trees: list[GroupTree] = []
    refusals = []
    for hierarchy in sorted(machine.hierarchies, key=lambda hierarchy: -hierarchy.version):
        if isolation not in ("auto", f"cgroup{hierarchy.version}"):
            continue
        used = hierarchy.controllers
        if any(tree.version == 2 for tree in trees):
            used = tuple(name for name in used if name != "cpuacct")
        if hierarchy.version == 1 and not set(used) & set(cgroup1.CONTROLLERS):
            continue
        try:
            if hierarchy.version == 2:
                trees.append(cgroup2.GroupTreeV2.open(hierarchy, run))
            else:
                trees.append(cgroup1.GroupTreeV1.open(hierarchy._replace(controllers=used), run))
        except UnusableHierarchyError as refusal:
            name = ",".join(used) or "cgroup2"
            refusals.append(f"{name}: {refusal}")
    return trees, tuple(refusals)
