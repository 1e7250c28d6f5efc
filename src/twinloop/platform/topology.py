"""The shape of OpenDC's topology files, and how OpenDC writes quantities."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from twinloop.platform.description import Description
from twinloop.platform.problems import Findings
from twinloop.platform.quantities import Count, Flag, Label, NotNegative, Positive, shown
from twinloop.trace.errors import InputError

_PREFIXES = {
    "": 1, "k": 10**3, "kilo": 10**3, "m": 10**6, "mega": 10**6, "g": 10**9, "giga": 10**9,
    "t": 10**12, "tera": 10**12, "ki": 2**10, "kibi": 2**10, "mi": 2**20, "mebi": 2**20,
    "gi": 2**30, "gibi": 2**30, "ti": 2**40, "tebi": 2**40,
}  # fmt: skip
_NUMBER = re.compile(r"\s*([-+0-9.eE]+)\s*")
_BARE = {"MHz": 1.0, "MiB": 2.0**20, "W": 1.0}


def _quantity(bare: str, units: Mapping[str, str], *, ignore_case: bool) -> Any:
    """Reads a number, bare or with one of OpenDC's ways to write a unit, in our own unit."""

    def read(value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(_decimal(str(value))) * _BARE[bare]
        if isinstance(value, str) and (number := _NUMBER.match(value)):
            rest = value[number.end() :].strip()
            word = rest.casefold() if ignore_case else rest
            for unit, factor in units.items():
                prefix = word.removesuffix(unit).strip().casefold()
                if word.endswith(unit) and prefix in _PREFIXES:
                    return float(_decimal(number[1]) * _PREFIXES[prefix] * Decimal(factor))
            if not rest:
                return float(_decimal(number[1])) * _BARE[bare]
        raise InputError(f"{shown(value)} is no quantity", remedy=f"write it like '100 {bare}'")

    return BeforeValidator(read)


def _decimal(text: str) -> Decimal:
    """The number as it is written, so that changing its unit rounds once."""
    try:
        if math.isfinite(float(text)):
            return Decimal(text)
    except ValueError:
        pass
    raise InputError(f"'{text[:40]}' is no number")


_Frequency = Annotated[
    float, Field(gt=0), _quantity("MHz", {"hz": "1e-6", "hertz": "1e-6"}, ignore_case=True)
]
_Size = Annotated[
    float,
    Field(gt=0),
    _quantity(
        "MiB",
        dict.fromkeys(("B", "Bytes", "bytes", "Byte", "byte"), "1")
        | dict.fromkeys(("b", "bits", "Bits", "bit", "Bit"), "0.125"),
        ignore_case=False,
    ),
]
_Power = Annotated[
    float, Field(ge=0), _quantity("W", dict.fromkeys(("watts", "watt", "w"), "1"), ignore_case=True)
]


class Part(Description):
    """Fields that are not ours stay with it, to be reported."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def noun(cls) -> str:
        """What errors call it."""
        return cls.__name__.lower()


class Cpu(Part):
    """The processors of a host."""

    coreCount: Count
    coreSpeed: _Frequency
    count: Count = 1


class Memory(Part):
    """The memory of a host."""

    memorySize: _Size


class Gpu(Part):
    """The accelerators of a host."""

    count: Count = 1


class PowerModel(Part):
    """How much power a host draws."""

    modelType: Literal["constant", "sqrt", "linear", "square", "cubic", "mse", "asymptotic"]
    power: _Power = 400.0
    idlePower: _Power
    maxPower: _Power
    calibrationFactor: Positive = 1.0
    asymUtil: NotNegative = 0.0
    dvfs: Flag = True

    @model_validator(mode="after")
    def _ordered(self) -> PowerModel:
        findings = Findings()
        if self.maxPower < self.idlePower:
            findings.add(("maxPower",), "must not be below the idle power")
        findings.check()
        return self

    def values(self) -> dict[str, Any]:
        """The plain values of our power model."""
        ends = {"idle": self.idlePower, "max": self.maxPower}
        match self.modelType:
            case "constant":
                return {"model": "constant", "power": self.power}
            case "mse":
                return {"model": "mse", **ends, "r": self.calibrationFactor}
            case "asymptotic":
                return {"model": "asymptotic", **ends, "a": self.asymUtil, "dvfs": self.dvfs}
            case model:
                return {"model": model, **ends}

    def unused(self) -> set[str]:
        """Fields that were given but that OpenDC does not look at for this model."""
        used = {"modelType", "idlePower", "maxPower"} | {
            "constant": {"power"},
            "mse": {"calibrationFactor"},
            "asymptotic": {"asymUtil", "dvfs"},
        }.get(self.modelType, set())
        return set(type(self).model_fields) & self.model_fields_set - used


class Host(Part):
    """A group of identical hosts."""

    name: Label = ""
    count: Count = 1
    cpu: Cpu
    memory: Memory
    gpu: Gpu | None = None
    cpuPowerModel: PowerModel | None = None
    #: What `cpuPowerModel` was called in older versions.
    powerModel: PowerModel | None = None


class PowerSource(Part):
    """Where the electricity of a cluster comes from."""

    carbonTracePath: str | None = None


class Cluster(Part):
    """Hosts that stand together."""

    name: Label = ""
    count: Count = 1
    hosts: tuple[Host, ...] = Field(min_length=1)
    powerSource: PowerSource | None = None


class Topology(Part):
    """The whole file."""

    clusters: tuple[Cluster, ...] = Field(min_length=1)
