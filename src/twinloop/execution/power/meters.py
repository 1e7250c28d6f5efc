"""The energy counters of a machine, and of virtual machines, as files.

Linux shows the counters of the CPUs (RAPL, of Intel and AMD) as a tree of zones: a package with
its parts. The energy of DRAM is not included in its package, that of `core` and `uncore` is; `psys`
includes all of them and more. Sources: Documentation/power/powercap of the Linux kernel; the
explanation of the zones in the powercap library (github.com/powercap/powercap, issue 3).

Scaphandre's QEMU exporter writes the same kind of tree for each virtual machine of a host, with
`energy_uj` alone (hubblo-org.github.io/scaphandre-documentation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Folder of the counters of Linux.
POWERCAP: Final = Path("/sys/class/powercap")
#: Folder of the counters of virtual machines, by Scaphandre.
SCAPHANDRE: Final = Path("/var/lib/libvirt/scaphandre")

_ENERGY, _RANGE, _NAME = "energy_uj", "max_energy_range_uj", "name"
_ZONE = re.compile(r"([^:]+):([0-9]+)")
_WHOLE_MACHINE = "psys"


@dataclass(frozen=True, slots=True)
class Meter:
    """One energy counter.

    >>> Meter(None, "package-0", Path("energy_uj"), 262_143_328_850).source
    'package-0'
    """

    #: The node that it measures; None for the machine with all its nodes.
    node: str | None
    #: The component that it measures.
    source: str
    file: Path
    #: Range at which it wraps around, in microjoules; None if unknown.
    wraps_at: int | None

    def read(self) -> int | None:
        """Read the counter in microjoules; None while the file is being written.

        Raises:
            OSError: It cannot be read.
            ValueError: It is not a number.
        """
        # Opened each time: the file may have been replaced or removed.
        text = self.file.read_text(encoding="ascii", errors="replace").strip()
        # Scaphandre empties the file before it writes.
        if not text:
            return None
        if not text.isdecimal():
            raise ValueError(f"{text[:40]!r} is not a number of microjoules")
        return int(text)


def find_meters(root: Path = POWERCAP, *, node: str | None = None) -> list[Meter]:
    """Find the counters in a folder of powercap zones that together count every energy once.

    They are the packages and their DRAM. Other parts are included in their package. A package that
    appears again under another control type (`intel-rapl-mmio`) is the same one. `psys` is used
    only if there is no package.

    Args:
        root: The folder.
        node: The node of these counters; None for the machine with all its nodes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"),
    ...                        ("intel-rapl:0:1", "dram"), ("intel-rapl:1", "psys")):
    ...         folder = Path(parent, zone)
    ...         folder.mkdir()
    ...         _ = (folder / "name").write_text(name + "\\n")
    ...         _ = (folder / "energy_uj").write_text("12345\\n")
    ...     [meter.source for meter in find_meters(Path(parent))]
    ['package-0', 'package-0/dram']
    """
    packages: dict[str, Meter] = {}
    whole_machine: dict[str, Meter] = {}
    for zone in _list_zones(root):
        name = _read_text(zone / _NAME) or zone.name
        meters = whole_machine if name == _WHOLE_MACHINE else packages
        if (zone / _ENERGY).exists():
            meters.setdefault(name, _make_meter(zone, node, name))
        for part in _list_parts(root, zone):
            if _read_text(part / _NAME) == "dram" and (part / _ENERGY).exists():
                source = f"{name}/dram"
                meters.setdefault(source, _make_meter(part, node, source))
    return list((packages or whole_machine).values())


def find_vm_meters(root: Path = SCAPHANDRE) -> list[Meter]:
    """Find the counters of Scaphandre's QEMU exporter on a host: one node per virtual machine.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = Path(parent, "worker1", "intel-rapl:0")
    ...     folder.mkdir(parents=True)
    ...     _ = (folder / "energy_uj").write_text("12345")
    ...     [(meter.node, meter.source) for meter in find_vm_meters(Path(parent))]
    [('worker1', 'intel-rapl:0')]
    """
    return [meter for vm in _list_folders(root) for meter in find_meters(vm, node=vm.name)]


def _list_zones(root: Path) -> list[Path]:
    """List the zones at the top, by control type and number."""
    matches = (
        (match, zone) for zone in _list_folders(root) if (match := _ZONE.fullmatch(zone.name))
    )
    return [zone for _, zone in sorted(matches, key=lambda pair: (pair[0][1], int(pair[0][2])))]


def _list_parts(root: Path, zone: Path) -> Iterator[Path]:
    """Yield the parts of a zone: beside it, as in /sys/class, or in it, as in /sys/devices."""
    names = set()
    for folder in (root, zone):
        for part in _list_folders(folder):
            if part.name.startswith(f"{zone.name}:") and part.name not in names:
                names.add(part.name)
                yield part


def _list_folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return []


def _make_meter(zone: Path, node: str | None, source: str) -> Meter:
    text = _read_text(zone / _RANGE)
    wraps_at = int(text) if text is not None and text.isdecimal() else 0
    return Meter(node, source, zone / _ENERGY, wraps_at or None)


def _read_text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip() or None
    except OSError:
        return None
