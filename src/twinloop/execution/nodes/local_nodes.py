"""The nodes of a run, laid onto the machine at hand."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from twinloop.description.errors import InputError
from twinloop.execution.leftovers import end, groups_within, is_run, members, remove, start_ticks
from twinloop.execution.local_machine import Machine
from twinloop.execution.nodes.cgroup_tree import Limits, Tree
from twinloop.execution.nodes.cgroup_versions import ISOLATIONS, open_trees
from twinloop.execution.nodes.cpu_layout import NEARLY, cpus_of_nodes
from twinloop.execution.nodes.missing_resources import NodeSpec, check_fits, shortfalls
from twinloop.execution.nodes.node_task import Part

# A group may not weigh more than 100 processes.
_HEAVIEST: Final = 100.0


class _Node(NamedTuple):
    spec: NodeSpec
    cpus: tuple[int, ...]
    groups: list[tuple[Tree, Path]]
    entries: list[int]
    """Open entries of the groups that its parts share."""


class LocalNodes:
    """Nodes laid onto the machine at hand, for one run; a context manager.

    `lay` makes them. At the end everything is removed: groups, and the processes in them.

    >>> with LocalNodes.lay([NodeSpec("a", 0.5, None)]) as nodes:
    ...     part = nodes.part(0, "first", cores=0.5, memory=None)
    ...     nodes.alive(0)
    True
    >>> nodes.alive(0)
    False
    """

    def __init__(self, run: str, isolation: str, trees: list[Tree]) -> None:
        #: The name of the run.
        self.run = run
        #: What keeps tasks to their nodes: `cgroup2`, `cgroup1`, `affinity` or `none`.
        self.isolation = isolation
        #: What is weaker than asked for, a sentence each.
        self.warnings: tuple[str, ...] = ()
        self._trees = trees
        self._nodes: list[_Node] = []
        self._parts: set[Part] = set()
        self._count = 0

    @classmethod
    def lay(
        cls,
        specs: Sequence[NodeSpec],
        *,
        run: str | None = None,
        isolation: str = "auto",
        machine: Machine | None = None,
    ) -> LocalNodes:
        """Lay nodes onto the machine.

        Whole cores get CPUs of their own, fractions share those that are left. What keeps tasks
        to their nodes is the strongest of what can be had, controller by controller.

        Args:
            specs: The nodes.
            run: Name of the run as `run_name` makes it, one for this process where it is None.
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
        run = run_name() if run is None else run
        if not is_run(run):
            raise ValueError(f"'{run}' is no name of a run, see run_name()")
        machine = machine or Machine.here()
        if isolation == "none":
            nodes = cls(run, "none", [])
            nodes._nodes = [_Node(spec, (), [], []) for spec in specs]
            return nodes
        check_fits(specs, machine)
        trees, reasons = open_trees(machine, isolation, run)
        nodes = cls(run, "affinity", trees)
        try:
            cpus = cpus_of_nodes([spec.cores for spec in specs], machine.cpus)
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
    def places(self) -> dict[str, Path]:
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

    def part(self, node: int, name: str, cores: float, memory: float | None) -> Part:
        """Room for one task on a node.

        It counts for as much as it has cores beside the other parts of the node, and gets no more
        than these, nor more memory than it has, if that is said.

        Raises:
            OSError: The groups of the node are gone, or the kernel gives no more.
        """
        place = self._nodes[node]
        weight = cores * min(1.0, _HEAVIEST / place.spec.cores)
        quota = cores if cores < place.spec.cores - NEARLY else None
        limits = Limits(quota=quota, weight=weight, memory=memory)
        self._count += 1
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100]
        groups: list[tuple[Tree, Path]] = []
        try:
            for tree, above in place.groups:
                if tree.holds_parts():
                    groups.append((tree, above / f"{self._count}-{safe}"))
                    for controller, why in tree.group(groups[-1][1], limits).items():
                        self._warn(f"{controller}: {why}")
            part = Part(groups, join=tuple(place.entries), cpus=self._affinity(place))
        except OSError:
            for _, path in groups:
                if path.is_dir():
                    path.rmdir()
            raise
        self._parts = {one for one in self._parts if one.is_open} | {part}
        return part

    def alive(self, node: int) -> bool:
        """Whether a node is still as it was laid."""
        if not self._nodes:
            return False
        return all(path.is_dir() for _, path in self._nodes[node].groups)

    def close(self) -> None:
        """Remove everything, with whoever is still in it. Closing twice is no mistake."""
        inside = [str(path) for node in self._nodes for _, path in node.groups]
        end(lambda: members(group for top in inside for group in groups_within(top)))
        for part in self._parts:
            part.close()
        self._parts = set()
        self._forget_nodes()
        self._trees = [tree for tree in self._trees if not tree.close()]

    def __enter__(self) -> LocalNodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lay_all(
        self, specs: Sequence[NodeSpec], cpus: list[tuple[int, ...]]
    ) -> tuple[Tree, dict[str, str]] | None:
        """Make the groups of all nodes, up to the first tree that refuses something."""
        total = Limits(weight=math.fsum(spec.cores for spec in specs))
        for tree in self._trees:
            if refused := tree.limit(tree.top, total):
                return tree, refused
        for index, (spec, own) in enumerate(zip(specs, cpus, strict=True)):
            # CPUs of its own are a limit by themselves.
            fenced = "cpuset" in self.controllers and len(own) <= spec.cores + NEARLY
            limits = Limits(own, None if fenced else spec.cores, spec.cores, spec.memory)
            node = _Node(spec, own, [], [])
            self._nodes.append(node)
            for tree in self._trees:
                path = tree.top / f"node-{index}"
                if refused := tree.group(path, limits):
                    return tree, refused
                node.groups.append((tree, path))
                if not tree.holds_parts():
                    entry = os.open(path / tree.entry, os.O_WRONLY | os.O_CLOEXEC)
                    node.entries.append(entry)
        return None

    def _without(self, tree: Tree, refused: dict[str, str]) -> tuple[str, ...]:
        """Take back the groups of all nodes, and do without what was refused."""
        self._forget_nodes()
        for one in self._trees:
            for path in one.top.glob("node-*"):
                remove(str(path))
        tree.give_up(refused)
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
        self.warnings = shortfalls([node.spec for node in self._nodes], set(self.controllers))
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


def run_name() -> str:
    """A name for a run of this process, that says which process that is and when it started.

    >>> is_run(run_name())
    True
    """
    return f"{os.getpid()}-{start_ticks(os.getpid())}-{os.urandom(2).hex()}"
