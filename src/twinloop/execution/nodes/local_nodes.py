"""The nodes of a run, laid onto the machine at hand."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from twinloop.description.errors import InputError
from twinloop.execution.leftovers import (
    find_members,
    is_run_name,
    kill_processes,
    list_groups,
    read_start_ticks,
    remove_groups,
)
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.nodes.cgroup_tree import GroupLimits, GroupTree
from twinloop.execution.nodes.cgroup_versions import ISOLATIONS, open_trees
from twinloop.execution.nodes.cpu_layout import CORE_TOLERANCE, assign_cpus
from twinloop.execution.nodes.missing_resources import NodeSpec, check_fits, find_unenforced_limits
from twinloop.execution.nodes.node_task import NodeTask

# A group may not weigh more than 100 processes.
_HEAVIEST: Final = 100.0


class _Node(NamedTuple):
    spec: NodeSpec
    cpus: tuple[int, ...]
    groups: list[tuple[GroupTree, Path]]
    entries: list[int]
    """Open entries of the groups that its parts share."""


class LocalNodes:
    """Nodes laid onto the machine at hand, for one run; a context manager.

    `create` makes them. At the end everything is removed: groups, and the processes in them.

    >>> with LocalNodes.create([NodeSpec("a", 0.5, None)]) as nodes:
    ...     part = nodes.add_task(0, "first", cores=0.5, memory=None)
    ...     nodes.is_alive(0)
    True
    >>> nodes.is_alive(0)
    False
    """

    def __init__(self, run: str, isolation: str, trees: list[GroupTree]) -> None:
        #: The name of the run.
        self.run = run
        #: What keeps tasks to their nodes: `cgroup2`, `cgroup1`, `affinity` or `none`.
        self.isolation = isolation
        #: What is weaker than asked for, a sentence each.
        self.warnings: tuple[str, ...] = ()
        self._trees = trees
        self._nodes: list[_Node] = []
        self._tasks: set[NodeTask] = set()
        self._count = 0

    @classmethod
    def create(
        cls,
        specs: Sequence[NodeSpec],
        *,
        run: str | None = None,
        isolation: str = "auto",
        machine: LocalMachine | None = None,
    ) -> LocalNodes:
        """Lay nodes onto the machine.

        Whole cores get CPUs of their own, fractions share those that are left. What keeps tasks
        to their nodes is the strongest of what can be had, controller by controller.

        Args:
            specs: The nodes.
            run: Name of the run as `make_run_name` makes it, one for this process where it is None.
            isolation: `auto`, or one of `cgroup2`, `cgroup1`, `affinity`, `none`: that or an
                error.
            machine: The machine, if it has been looked at already.

        Raises:
            InputError: The machine has not so many cores or not so much memory, or cannot give
                the isolation that was named.
        """
        if isolation not in ISOLATIONS:
            raise InputError(
                f"'{isolation}' is no isolation",
                field="isolation",
                remedy=f"one of {', '.join(ISOLATIONS)}",
            )
        run = make_run_name() if run is None else run
        if not is_run_name(run):
            raise ValueError(f"'{run}' is no name of a run, see run_name()")
        machine = machine or LocalMachine.detect()
        if isolation == "none":
            nodes = cls(run, "none", [])
            nodes._nodes = [_Node(spec, (), [], []) for spec in specs]
            return nodes
        check_fits(specs, machine)
        trees, reasons = open_trees(machine, isolation, run)
        nodes = cls(run, "affinity", trees)
        try:
            cpus = assign_cpus([spec.cores for spec in specs], machine.cpus)
            while refusal := nodes._lay_all(specs, cpus):
                reasons += nodes._without(*refusal)
            nodes._judge(isolation, reasons)
        except BaseException:
            nodes.close()
            raise
        return nodes

    @property
    def groups(self) -> tuple[Path, ...]:
        """The groups that hold all others of this run: what its guard has to know."""
        return tuple(tree.top for tree in self._trees)

    @property
    def controllers(self) -> dict[str, str]:
        """What is controlled, and through which version of control groups."""
        return {name: f"cgroup{tree.version}" for tree in self._trees for name in tree.controllers}

    @property
    def group_paths(self) -> dict[str, Path]:
        """What is controlled, and in which group those of this run lie."""
        return {name: tree.top.parent for tree in self._trees for name in tree.controllers}

    def facts(self) -> dict[str, Any]:
        """What the manifest says of the nodes: isolation, controllers, CPUs, warnings."""
        return {
            "isolation": self.isolation,
            "controllers": self.controllers,
            "nodes": [{**node.spec._asdict(), "cpus": list(node.cpus)} for node in self._nodes],
            "warnings": list(self.warnings),
        }

    def add_task(self, node: int, name: str, cores: float, memory: float | None) -> NodeTask:
        """Room for one task on a node.

        It counts for as much as it has cores beside the other parts of the node, and gets no more
        than these, nor more memory than it has, if that is said.

        Raises:
            OSError: The groups of the node are gone, or the kernel gives no more.
        """
        place = self._nodes[node]
        weight = cores * min(1.0, _HEAVIEST / place.spec.cores)
        quota = cores if cores < place.spec.cores - CORE_TOLERANCE else None
        limits = GroupLimits(quota=quota, weight=weight, memory=memory)
        self._count += 1
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100]
        groups: list[tuple[GroupTree, Path]] = []
        try:
            for tree, above in place.groups:
                if tree.has_task_groups():
                    groups.append((tree, above / f"{self._count}-{safe}"))
                    for controller, why in tree.make_group(groups[-1][1], limits).items():
                        self._warn(f"{controller}: {why}")
            part = NodeTask(groups, join=tuple(place.entries), cpus=self._affinity(place))
        except OSError:
            for _, path in groups:
                if path.is_dir():
                    path.rmdir()
            raise
        self._tasks = {one for one in self._tasks if one.is_open} | {part}
        return part

    def is_alive(self, node: int) -> bool:
        """Whether a node is still as it was laid."""
        if not self._nodes:
            return False
        return all(path.is_dir() for _, path in self._nodes[node].groups)

    def close(self) -> None:
        """Remove everything, with whoever is still in it. Closing twice is no mistake."""
        inside = [str(path) for node in self._nodes for _, path in node.groups]
        kill_processes(lambda: find_members(group for top in inside for group in list_groups(top)))
        for part in self._tasks:
            part.close()
        self._tasks = set()
        self._forget_nodes()
        self._trees = [tree for tree in self._trees if not tree.close()]

    def __enter__(self) -> LocalNodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lay_all(
        self, specs: Sequence[NodeSpec], cpus: list[tuple[int, ...]]
    ) -> tuple[GroupTree, dict[str, str]] | None:
        """Make the groups of all nodes, up to the first tree that refuses something."""
        total = GroupLimits(weight=math.fsum(spec.cores for spec in specs))
        for tree in self._trees:
            if refused := tree.set_limits(tree.top, total):
                return tree, refused
        for index, (spec, own) in enumerate(zip(specs, cpus, strict=True)):
            # CPUs of its own are a limit by themselves.
            fenced = "cpuset" in self.controllers and len(own) <= spec.cores + CORE_TOLERANCE
            limits = GroupLimits(own, None if fenced else spec.cores, spec.cores, spec.memory)
            node = _Node(spec, own, [], [])
            self._nodes.append(node)
            for tree in self._trees:
                path = tree.top / f"node-{index}"
                if refused := tree.make_group(path, limits):
                    return tree, refused
                node.groups.append((tree, path))
                if not tree.has_task_groups():
                    entry = os.open(path / tree.entry, os.O_WRONLY | os.O_CLOEXEC)
                    node.entries.append(entry)
        return None

    def _without(self, tree: GroupTree, refused: dict[str, str]) -> tuple[str, ...]:
        """Take back the groups of all nodes, and do without what was refused."""
        self._forget_nodes()
        for one in self._trees:
            for path in one.top.glob("node-*"):
                remove_groups(str(path))
        tree.drop_controllers(refused)
        if not tree.controllers:
            tree.close()
            self._trees.remove(tree)
        return tuple(f"{controller}: {why}" for controller, why in refused.items())

    def _judge(self, asked: str, reasons: tuple[str, ...]) -> None:
        """Which isolation came out of it, and what is weaker than asked for."""
        versions = {tree.version for tree in self._trees if set(tree.controllers) - {"cpuacct"}}
        if versions:
            self.isolation = f"cgroup{max(versions)}"
        elif asked not in ("auto", "affinity"):
            raise InputError(
                f"{asked} cannot be had here: {'; '.join(reasons) or 'there is none'}",
                field="isolation",
                remedy="auto takes what there is; `twinloop nodes` says what that is",
            )
        self.warnings = find_unenforced_limits(
            [node.spec for node in self._nodes], set(self.controllers)
        )
        if self.warnings:
            self.warnings += reasons

    def _forget_nodes(self) -> None:
        for node in self._nodes:
            for entry in node.entries:
                os.close(entry)
        self._nodes = []

    def _affinity(self, node: _Node) -> tuple[int, ...]:
        return () if "cpuset" in self.controllers else node.cpus

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings += (text,)


def make_run_name() -> str:
    """A name for a run of this process, that says which process that is and when it started.

    >>> is_run_name(make_run_name())
    True
    """
    return f"{os.getpid()}-{read_start_ticks(os.getpid())}-{os.urandom(2).hex()}"
