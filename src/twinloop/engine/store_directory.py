"""The names of the data stores and files of a running simulation, and their native numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from twinloop.description.errors import InputError
from twinloop.engine.arguments import require_name
from twinloop.engine.network_columns import (
    build_store_columns,
    list_planned_files,
    list_run_files,
    list_run_stores,
)
from twinloop.platform.network import LOCAL, SharedStore

if TYPE_CHECKING:
    from twinloop._core import ClusterRun
    from twinloop.engine.compiled_scenario import CompiledScenario
    from twinloop.engine.simulation import Simulation
    from twinloop.platform.network import LocalStore


class StoreDirectory:
    """Finds the stores and files of a simulation by name, and registers stores."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._names: list[str] = []
        self._planned: pl.Series | None = None

    @property
    def run(self) -> ClusterRun:
        """The native run."""
        return self._simulation._run

    @property
    def _compiled(self) -> CompiledScenario:
        return self._simulation._compiled

    # --- stores ----------------------------------------------------------------------------------

    def list_names(self) -> list[str]:
        """List the names of the stores by their native numbers."""
        if len(self._names) != self.run.store_count:
            self._names = list_run_stores(self._compiled, self.run)
        return self._names

    def list_present(self) -> list[tuple[int, str]]:
        """List the numbers and names of all stores that were not deregistered."""
        self._open_network()
        for machine in self._compiled.names.machines:
            self._find_number(machine)
        return [
            (number, name)
            for number, name in enumerate(self.list_names())
            if not self.run.store_figures(number)["gone"]
        ]

    def find_store(self, name: str) -> int:
        """Return the number of a store: that of the platform, of a host, or a registered one."""
        require_name(name, "store")
        if self._has_stores():
            self._open_network()
        number = self._find_number(name)
        if number is None:
            known = [each.name for each in self._compiled.machines.platform.stores]
            raise InputError(
                f"there is no data store {name!r}"
                if self._has_stores()
                else "the platform has no data stores",
                kind="unknown-reference",
                remedy=f"known: {', '.join(known[:10])}"
                if known
                else "describe `stores` of the platform or the `store` of a host",
            )
        if self.run.store_figures(number)["gone"]:
            raise InputError("was deregistered", kind="invalid-operation", field=f"store {name!r}")
        return number

    def find_stores_of(self, file: str) -> list[str]:
        """List the names of the stores that have a file."""
        numbers = self.find_files(file)
        return [
            name
            for store, name in enumerate(self.list_names())
            if any(self.run.has_file(store, each) for each in numbers)
        ]

    def _has_stores(self) -> bool:
        platform = self._compiled.machines.platform
        return bool(
            self.run.store_count
            or platform.stores
            or any(host.store is not None for _, host in platform.hosts())
        )

    def _find_number(self, name: str) -> int | None:
        """Return the number of a store; the store of a host may have to be opened."""
        names = self.list_names()
        if name in names:
            return names.index(name)
        local = self._find_local(name)
        if local is None:
            return None
        machine, store = local
        number: int = self.run.register_store(
            {"name": name, "machine": machine, **_describe_figures(store)}
        )
        return number

    def _find_local(self, name: str) -> tuple[int, LocalStore] | None:
        """Return the number of a host and its store, for which the scenario has no use."""
        compiled = self._compiled
        if not self.run.has_network or name not in compiled.names.machines:
            return None
        machine = compiled.names.machines.index(name)
        if machine in compiled.machines.instances:
            return None
        added = dict(compiled.added_machines)
        if name in added and (added[name] or {}).get("like") is None:
            return None
        hosts = [host for _, host in compiled.machines.platform.hosts()]
        store = hosts[compiled.machines.group[machine]].store
        return None if store is None else (machine, store)

    def _open_network(self) -> None:
        """Open the network of a run in which no task has files."""
        if self.run.has_network:
            return
        compiled = self._compiled
        names = compiled.names.machines
        likes = [(each or {}).get("like") for _, each in compiled.added_machines]
        columns, stores = build_store_columns(
            compiled.machines, len(likes), compiled.scenario.model.detail
        )
        self.run.open_network(
            columns, stores, [-1 if like is None else names.index(like) for like in likes]
        )

    # --- registration ----------------------------------------------------------------------------

    def register_store(self, store: SharedStore, like: str | None) -> None:
        """Register a store at a node of its own, or again at the node of its host."""
        field = f"store {store.name!r}"
        if like is not None and store.ports is not None:
            raise InputError(
                "has the ports of the store that it is like",
                kind="inconsistent-values",
                field=f"{field}: ports",
                remedy="leave out `ports` or `like`",
            )
        model = None if like is None else self.find_store(like)
        self._open_network()
        names = self.list_names()
        given: dict[str, Any] = {"name": store.name}
        if store.name in names:
            given["again"] = names.index(store.name)
            if not self.run.store_figures(given["again"])["gone"]:
                raise InputError("is registered already", kind="duplicate-name", field=field)
        elif (use := self._find_use(store.name)) is not None:
            raise InputError(f"is already the name of {use}", kind="duplicate-name", field=field)
        if store.name in self._compiled.names.machines:
            given["machine"] = self._compiled.names.machines.index(store.name)
        elif model is not None:
            given["like"] = model
        else:
            self._require_star(field)
        if model is not None:
            figures = self.run.store_figures(model)
            given |= {name: figures[name] for name in ("capacity", "read", "write")}
            if figures["streams"] >= 0:
                given["streams"] = figures["streams"]
        if store.ports is not None:
            given |= _drop_none(send=store.ports.send, receive=store.ports.receive)
        self.run.register_store(given | _describe_figures(store))

    def _find_use(self, name: str) -> str | None:
        if name == LOCAL:
            return "the stores of the machines that write a file"
        return self._compiled.machines.find_use_of_name(name)

    def _require_star(self, field: str) -> None:
        network = self._compiled.machines.platform.network
        if network is not None and network.links:
            raise InputError(
                "no link would lead to it",
                kind="invalid-operation",
                field=field,
                remedy="name in `like` a store whose links it gets",
            )

    # --- files -----------------------------------------------------------------------------------

    def find_files(self, name: str) -> list[int]:
        """Return the numbers of the files of this name; clouds may have images of one name."""
        require_name(name, "file")
        count = self.run.planned_files
        if self._planned is None or len(self._planned) != count:
            self._planned = list_planned_files(self._compiled, self.run)
        found: list[int] = (self._planned == name).arg_true().to_list()
        new = self.run.find_new_file(name)
        return found if new < 0 else [*found, new]

    def name_files(self, numbers: Any) -> pl.Series:
        """Return the names of files by their numbers."""
        return list_run_files(self._compiled, self.run).gather(numbers)

    def name_file(self, number: int) -> str:
        """Return the name of one file."""
        name: str = self.name_files([number])[0]
        return name


def _describe_figures(store: LocalStore) -> dict[str, Any]:
    """Return the native figures of a store; those without a limit are left out."""
    return _drop_none(
        capacity=store.capacity, read=store.read, write=store.write, streams=store.streams
    )


def _drop_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
