"""Measured power: energy counters of the machine, files of other tools, and the power table."""

from twinloop.execution.power.meters import Meter, find_meters, find_vm_meters
from twinloop.execution.power.power_files import read_power, with_power
from twinloop.execution.power.power_table import reconstruct
from twinloop.execution.power.readings import Readings
from twinloop.execution.power.recorder import PowerRecorder

__all__ = [
    "Meter",
    "PowerRecorder",
    "Readings",
    "find_meters",
    "find_vm_meters",
    "read_power",
    "reconstruct",
    "with_power",
]
