"""`twinloop nodes`: resources of this machine for real runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinloop import _core, report
from twinloop.cli.output import Json, escape, out, print_json, report_errors

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
        document = _document(machine)
        if json:
            print_json(document)
        else:
            _show(document)


def _document(machine: LocalMachine) -> dict[str, Any]:
    from twinloop.execution.nodes import LocalNodes, NodeSpec, remove_stale_groups

    swept = remove_stale_groups()
    trial = NodeSpec("trial", cores=min(0.5, machine.cores), memory=2.0**24)
    with LocalNodes.create([trial], machine=machine) as laid:
        controllers = {
            name: {"version": laid.controllers[name], "group": str(place)}
            for name, place in laid.group_paths.items()
        }
        isolation, warnings = laid.isolation, list(laid.warnings)
    return {
        "cpus": list(machine.cpus),
        "cores": machine.cores,
        "model": machine.model,
        "mhz": machine.mhz,
        "memory": machine.memory,
        "isolation": isolation,
        "controllers": controllers,
        "warnings": warnings,
        "counters": _counters(),
        "rapl": any(_POWERCAP.glob("intel-rapl:*")),
        "ffmpeg": shutil.which("ffmpeg"),
        "suggestions": list(machine.suggest_platforms()),
        "swept": swept,
    }


def _counters() -> list[str]:
    opened = _core.open_counters(os.getpid())
    for _, file in opened:
        os.close(file)
    return [name for name, _ in opened]


def _show(document: dict[str, Any]) -> None:
    numbers = document["cpus"]
    clock = f", {document['mhz']:,.0f} MHz" if document["mhz"] else ""
    rows = [
        ("CPUs", f"{report.format_count(len(numbers), 'CPU')}: {', '.join(map(str, numbers))}"),
        ("", f"{document['model'] or 'of an unknown model'}{clock}"),
        ("memory", report.format_size(document["memory"])),
        ("isolation", document["isolation"]),
    ]
    if document["cores"] < len(numbers):
        rows.insert(2, ("", f"limited to {report.format_number(document['cores'])} cores"))
    rows += [
        ("", f"{name}: {place['version']} in {place['group']}")
        for name, place in document["controllers"].items()
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
