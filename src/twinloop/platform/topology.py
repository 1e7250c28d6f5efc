"""The data model of OpenDC's topology files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from twinloop.description.description import Description
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Count, Flag, Label, NotNegative, Positive
from twinloop.trace.formats.opendc.quantities import FREQUENCY, POWER, SIZE

_Frequency = Annotated[float, Field(gt=0), BeforeValidator(FREQUENCY.read)]
_Size = Annotated[float, Field(gt=0), BeforeValidator(SIZE.read)]
_Power = Annotated[float, Field(ge=0), BeforeValidator(POWER.read)]


class OpenDCPart(Description):
    """Base class of the parts of a topology; unknown fields are kept, to be reported."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def noun(cls) -> str:
        """The name of the part in error messages."""
        return cls.__name__.removeprefix("OpenDC").lower()


class OpenDCCpu(OpenDCPart):
    """The processors of a host."""

    coreCount: Count
    coreSpeed: _Frequency
    count: Count = 1


class OpenDCMemory(OpenDCPart):
    """The memory of a host."""

    memorySize: _Size


class OpenDCGpu(OpenDCPart):
    """The accelerators of a host."""

    count: Count = 1


class OpenDCPowerModel(OpenDCPart):
    """The power model of a host; the defaults are those of OpenDC."""

    modelType: Literal["constant", "sqrt", "linear", "square", "cubic", "mse", "asymptotic"]
    power: _Power = 400.0
    idlePower: _Power
    maxPower: _Power
    calibrationFactor: Positive = 1.0
    asymUtil: NotNegative = 0.0
    dvfs: Flag = True

    @model_validator(mode="after")
    def _check_order(self) -> OpenDCPowerModel:
        findings = ProblemCollector()
        if self.maxPower < self.idlePower:
            findings.add(("maxPower",), "must not be below the idle power", kind="out-of-range")
        findings.check()
        return self

    def to_values(self) -> dict[str, Any]:
        """Convert to the plain values of a Twinloop power model."""
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

    def unused_fields(self) -> set[str]:
        """Return the given fields that OpenDC does not use for this type of model."""
        used = {"modelType", "idlePower", "maxPower"} | {
            "constant": {"power"},
            "mse": {"calibrationFactor"},
            "asymptotic": {"asymUtil", "dvfs"},
        }.get(self.modelType, set())
        return set(type(self).model_fields) & self.model_fields_set - used


class OpenDCHost(OpenDCPart):
    """A group of identical hosts."""

    name: Label = ""
    count: Count = 1
    cpu: OpenDCCpu
    memory: OpenDCMemory
    gpu: OpenDCGpu | None = None
    cpuPowerModel: OpenDCPowerModel | None = None
    #: The name of `cpuPowerModel` in older versions of OpenDC.
    powerModel: OpenDCPowerModel | None = None


class OpenDCPowerSource(OpenDCPart):
    """The electricity supply of a cluster."""

    carbonTracePath: str | None = None


class OpenDCCluster(OpenDCPart):
    """A cluster of hosts."""

    name: Label = ""
    count: Count = 1
    hosts: tuple[OpenDCHost, ...] = Field(min_length=1)
    powerSource: OpenDCPowerSource | None = None


class OpenDCTopology(OpenDCPart):
    """The root of a topology file."""

    clusters: tuple[OpenDCCluster, ...] = Field(min_length=1)
