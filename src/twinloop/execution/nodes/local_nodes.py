"""The nodes of a run on this machine."""

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

# Maximum weight of a group, relative to a process without a group.
_MAX_WEIGHT: Final = 100.0


class _Node(NamedTuple):
    spec: NodeSpec
    cpus: tuple[int, ...]
    groups: list[tuple[GroupTree, Path]]
    entries: list[int]
    """Open entry files of the groups that its tasks share."""


class LocalNodes:
    """The nodes of one run on this machine; a context manager.

    `create` makes them. At the end all groups are removed, and the processes in them are killed.

    >>> with LocalNodes.create([NodeSpec("a", 0.5, None)]) as nodes:
    ...     task = nodes.add_task(0, "first", cores=0.5, memory=None)
    ...     nodes.is_alive(0)
    True
    >>> nodes.is_alive(0)
    False
    """

    def __init__(self, run: str, isolation: str, trees: list[GroupTree]) -> None:
        #: Name of the run.
        self.run = run
        #: Mechanism that limits tasks to their nodes: `cgroup2`, `cgroup1`, `affinity` or `none`.
        self.isolation = isolation
        #: Limits that are not enforced, a sentence each.
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
        """Make nodes on this machine.

        Whole cores get CPUs of their own, fractions share the remaining CPUs. For each controller
        the strongest available mechanism is used.

        Args:
            specs: The nodes.
            run: Name of the run as made by `make_run_name`; by default a new name.
            isolation: `auto`, or one of `cgroup2`, `cgroup1`, `affinity`, `none`, which must then
                be available.
            machine: The machine, if it has been detected already.

        Raises:
            InputError: The machine has too few cores or too little memory, or does not allow the
                isolation.
        """
        if isolation not in ISOLATIONS:
            raise InputError(
                f"there is no isolation '{isolation}'",
                kind="not-a-choice",
                field="isolation",
                remedy=f"one of {', '.join(ISOLATIONS)}",
            )
        run = make_run_name() if run is None else run
        if not is_run_name(run):
            raise ValueError(f"'{run}' is not the name of a run, see make_run_name()")
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
            while refusal := nodes._create_all(specs, cpus):
                reasons += nodes._retry_without(*refusal)
            nodes._set_isolation(isolation, reasons)
        except BaseException:
            nodes.close()
            raise
        return nodes

    @property
    def groups(self) -> tuple[Path, ...]:
        """The highest groups of this run, which its guard removes."""
        return tuple(tree.top for tree in self._trees)

    @property
    def controllers(self) -> dict[str, str]:
        """The controllers in use, with the version of control groups of each."""
        return {name: f"cgroup{tree.version}" for tree in self._trees for name in tree.controllers}

    @property
    def group_paths(self) -> dict[str, Path]:
        """The controllers in use, with the parent of the groups of this run in each."""
        return {name: tree.top.parent for tree in self._trees for name in tree.controllers}

    def facts(self) -> dict[str, Any]:
        """Return isolation, controllers, CPUs and warnings, for the manifest."""
        return {
            "isolation": self.isolation,
            "controllers": self.controllers,
            "nodes": [{**node.spec._asdict(), "cpus": list(node.cpus)} for node in self._nodes],
            "warnings": list(self.warnings),
        }

    def add_task(self, node: int, name: str, cores: float, memory: float | None) -> NodeTask:
        """Make the groups of a task on a node.

        The weight of a task relative to the other tasks of the node is its number of cores, which
        is also its limit. Its memory is limited if `memory` is given.

        Raises:
            OSError: The groups of the node are gone, or the kernel allows no more groups.
        """
        target = self._nodes[node]
        weight = cores * min(1.0, _MAX_WEIGHT / target.spec.cores)
        quota = cores if cores < target.spec.cores - CORE_TOLERANCE else None
        limits = GroupLimits(quota=quota, weight=weight, memory=memory)
        self._count += 1
        safe_name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100]
        groups: list[tuple[GroupTree, Path]] = []
        try:
            for tree, node_group in target.groups:
                if tree.has_task_groups():
                    groups.append((tree, node_group / f"{self._count}-{safe_name}"))
                    for controller, why in tree.make_group(groups[-1][1], limits).items():
                        self._warn(f"{controller}: {why}")
            task = NodeTask(groups, join=tuple(target.entries), cpus=self._get_affinity(target))
        except OSError:
            for _, path in groups:
                if path.is_dir():
                    path.rmdir()
            raise
        self._tasks = {open_task for open_task in self._tasks if open_task.is_open} | {task}
        return task

    def is_alive(self, node: int) -> bool:
        """Whether the groups of a node still exist."""
        if not self._nodes:
            return False
        return all(path.is_dir() for _, path in self._nodes[node].groups)

    def close(self) -> None:
        """Remove all groups, and kill the processes in them; may be repeated."""
        inside = [str(path) for node in self._nodes for _, path in node.groups]
        kill_processes(lambda: find_members(group for top in inside for group in list_groups(top)))
        for task in self._tasks:
            task.close()
        self._tasks = set()
        self._close_nodes()
        self._trees = [tree for tree in self._trees if not tree.close()]

    def __enter__(self) -> LocalNodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create_all(
        self, specs: Sequence[NodeSpec], cpus: list[tuple[int, ...]]
    ) -> tuple[GroupTree, dict[str, str]] | None:
        """Make the groups of all nodes; returns the first tree with a controller that failed."""
        total = GroupLimits(weight=math.fsum(spec.cores for spec in specs))
        for tree in self._trees:
            if refused := tree.set_limits(tree.top, total):
                return tree, refused
        for index, (spec, node_cpus) in enumerate(zip(specs, cpus, strict=True)):
            # A node with CPUs of its own needs no quota.
            has_own_cpus = (
                "cpuset" in self.controllers and len(node_cpus) <= spec.cores + CORE_TOLERANCE
            )
            limits = GroupLimits(
                node_cpus, None if has_own_cpus else spec.cores, spec.cores, spec.memory
            )
            node = _Node(spec, node_cpus, [], [])
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

    def _retry_without(self, tree: GroupTree, refused: dict[str, str]) -> tuple[str, ...]:
        """Remove the groups of all nodes, and stop using the controllers that failed."""
        self._close_nodes()
        for each_tree in self._trees:
            for path in each_tree.top.glob("node-*"):
                remove_groups(str(path))
        tree.drop_controllers(refused)
        if not tree.controllers:
            tree.close()
            self._trees.remove(tree)
        return tuple(f"{controller}: {why}" for controller, why in refused.items())

    def _set_isolation(self, requested: str, reasons: tuple[str, ...]) -> None:
        """Set the resulting isolation, and warnings on limits that are not enforced."""
        versions = {tree.version for tree in self._trees if set(tree.controllers) - {"cpuacct"}}
        if versions:
            self.isolation = f"cgroup{max(versions)}"
        elif requested not in ("auto", "affinity"):
            raise InputError(
                f"{requested} is not available: {'; '.join(reasons) or 'the machine has none'}",
                kind="isolation-unavailable",
                field="isolation",
                remedy="auto uses what is available; `twinloop nodes` shows it",
            )
        self.warnings = find_unenforced_limits(
            [node.spec for node in self._nodes], set(self.controllers)
        )
        if self.warnings:
            self.warnings += reasons

    def _close_nodes(self) -> None:
        for node in self._nodes:
            for entry in node.entries:
                os.close(entry)
        self._nodes = []

    def _get_affinity(self, node: _Node) -> tuple[int, ...]:
        return () if "cpuset" in self.controllers else node.cpus

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings += (text,)


def make_run_name() -> str:
    """Make a name for a run of this process, from its process ID, start time and a random part.

    >>> is_run_name(make_run_name())
    True
    """
    return f"{os.getpid()}-{read_start_ticks(os.getpid())}-{os.urandom(2).hex()}"
