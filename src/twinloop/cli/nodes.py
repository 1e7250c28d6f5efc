"""`twinloop nodes`: resources of this machine for real runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinloop import _core, report
from twinloop.cli.console import escape, out
from twinloop.cli.output import Json, print_json, report_errors

if TYPE_CHECKING:
    from twinloop.execution.local_machine import LocalMachine

_POWERCAP = Path("/sys/class/powercap")


def nodes(json: Json = False) -> None:
    """Show what this machine can provide for real runs.

    CPUs, memory, isolation and counters are tried out with a small node, which is removed again.
    Leftovers of killed runs are removed as well.

    - `twinloop nodes`
    - `twinloop nodes --json`
    """
    with report_errors(json):
        # Imported here, because it needs Linux.
        from twinloop.execution.local_machine import LocalMachine

        machine = LocalMachine.detect()
        document = _make_document(machine)
        if json:
            print_json(document)
        else:
            _show(document)


def _make_document(machine: LocalMachine) -> dict[str, Any]:
    from twinloop.execution.nodes import LocalNodes, NodeSpec, remove_stale_groups

    removed = remove_stale_groups()
    trial = NodeSpec("trial", cores=min(0.5, machine.cores), memory=2.0**24)
    with LocalNodes.create([trial], machine=machine) as local_nodes:
        controllers = {
            name: {"version": local_nodes.controllers[name], "group": str(path)}
            for name, path in local_nodes.group_paths.items()
        }
        isolation, warnings = local_nodes.isolation, list(local_nodes.warnings)
    return {
        "cpus": list(machine.cpus),
        "cores": machine.cores,
        "model": machine.model,
        "mhz": machine.mhz,
        "memory": machine.memory,
        "isolation": isolation,
        "controllers": controllers,
        "warnings": warnings,
        "counters": _list_counters(),
        "rapl": any(_POWERCAP.glob("intel-rapl:*")),
        "ffmpeg": shutil.which("ffmpeg"),
        "suggestions": list(machine.suggest_platforms()),
        "swept": removed,
    }


def _list_counters() -> list[str]:
    opened = _core.open_counters(os.getpid())
    for _, file in opened:
        os.close(file)
    return [name for name, _ in opened]


def _show(document: dict[str, Any]) -> None:
    numbers = document["cpus"]
    clock = f", {document['mhz']:,.0f} MHz" if document["mhz"] else ""
    rows = [
        ("CPUs", f"{report.format_count(len(numbers), 'CPU')}: {', '.join(map(str, numbers))}"),
        ("", f"{document['model'] or 'unknown model'}{clock}"),
        ("memory", report.format_size(document["memory"])),
        ("isolation", document["isolation"]),
    ]
    if document["cores"] < len(numbers):
        rows.insert(2, ("", f"limited to {report.format_number(document['cores'])} cores"))
    rows += [
        ("", f"{name}: {controller['version']} in {controller['group']}")
        for name, controller in document["controllers"].items()
    ]
    rows += [
        ("counters", ", ".join(document["counters"]) or "none"),
        ("energy", "RAPL" if document["rapl"] else "no counter"),
        ("ffmpeg", document["ffmpeg"] or "not installed"),
        ("platforms", f"such as {', '.join(document['suggestions'])}"),
    ]
    for name, text in rows:
        out.print(f"{name:<11}{escape(text)}", soft_wrap=True)
    for text in document["warnings"]:
        out.print(f"[yellow]warning[/]: {escape(text)}", soft_wrap=True)
    for text in document["swept"]:
        out.print(f"[yellow]removed leftover of a killed run[/]: {escape(text)}", soft_wrap=True)
