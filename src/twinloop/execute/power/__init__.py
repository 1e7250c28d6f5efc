"""Power that was measured: counters of the machine, files of other tools, and what they mean."""

from twinloop.execute.power.files import read_power, with_power
from twinloop.execute.power.meters import Meter, find_meters, find_vm_meters
from twinloop.execute.power.readings import Readings
from twinloop.execute.power.reconstruct import reconstruct
from twinloop.execute.power.recorder import PowerRecorder

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
