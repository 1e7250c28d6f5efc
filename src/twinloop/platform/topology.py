"""The shape of OpenDC's topology files."""

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
    """Fields that are not ours stay with it, to be reported."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def noun(cls) -> str:
        """What errors call it."""
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
    """How much power a host draws."""

    modelType: Literal["constant", "sqrt", "linear", "square", "cubic", "mse", "asymptotic"]
    power: _Power = 400.0
    idlePower: _Power
    maxPower: _Power
    calibrationFactor: Positive = 1.0
    asymUtil: NotNegative = 0.0
    dvfs: Flag = True

    @model_validator(mode="after")
    def _ordered(self) -> OpenDCPowerModel:
        findings = ProblemCollector()
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


class OpenDCHost(OpenDCPart):
    """A group of identical hosts."""

    name: Label = ""
    count: Count = 1
    cpu: OpenDCCpu
    memory: OpenDCMemory
    gpu: OpenDCGpu | None = None
    cpuPowerModel: OpenDCPowerModel | None = None
    #: What `cpuPowerModel` was called in older versions.
    powerModel: OpenDCPowerModel | None = None


class OpenDCPowerSource(OpenDCPart):
    """Where the electricity of a cluster comes from."""

    carbonTracePath: str | None = None


class OpenDCCluster(OpenDCPart):
    """Hosts that stand together."""

    name: Label = ""
    count: Count = 1
    hosts: tuple[OpenDCHost, ...] = Field(min_length=1)
    powerSource: OpenDCPowerSource | None = None


class OpenDCTopology(OpenDCPart):
    """The whole file."""

    clusters: tuple[OpenDCCluster, ...] = Field(min_length=1)
