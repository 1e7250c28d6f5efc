"""A week of a cluster at SURF: its power as simulated and as measured.

The log, the topology and the measured power of the first four days are those of SURF's cluster in
OpenDT (github.com/atlarge-research/opendt).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from replay_page import table

import twinloop as tl
from twinloop.engine import CompiledScenario

Floats = NDArray[np.float64]

HOSTS, CORES, MHZ = 277, 16, 2100
IDLE, MAX = 25.0, 174.0
STEP = 30.0
PER_DAY = 2880
MEASURED_DAYS, DAYS = 4, 7
SAMPLES = MEASURED_DAYS * PER_DAY

#: Hours at the beginning with a larger difference between measured and simulated power.
ODD_HOURS = 7
#: MAPE of OpenDC on the whole week (%), published with the data.
PUBLISHED = {"mse r=4": 6.4, "linear": 16.6}
MODELS: Mapping[str, dict[str, Any]] = {
    "linear": {"model": "linear"},
    "sqrt": {"model": "sqrt"},
    "square": {"model": "square"},
    "cubic": {"model": "cubic"},
    "mse r=2": {"model": "mse", "r": 2.0},
    "mse r=3": {"model": "mse", "r": 3.0},
    "mse r=4": {"model": "mse", "r": 4.0},
    "mse r=6": {"model": "mse", "r": 6.0},
    "asymptotic a=0.3": {"model": "asymptotic", "a": 0.3},
}
FIRST_FIT = {"name": "filter", "options": {"filters": {"vcpu": 1.0}}}


def read_measured_power(folder: Path) -> Floats:
    """Watts of the cluster in each window of 30 s of the first four days."""
    return pl.read_parquet(folder / "power_first_4_days.parquet")["power_draw"].to_numpy()


def scenario(
    log: tl.Trace,
    model: str = "mse r=4",
    *,
    idle: float = IDLE,
    top: float = MAX,
    policy: Any = FIRST_FIT,
    missing: str = "drop",
) -> tl.Scenario:
    """Return the week as in OpenDC: fixed demand, no delay, no memory limit."""
    power = {**MODELS[model], "idle": idle, "max": top}
    hosts = {"name": "host", "count": HOSTS, "cores": CORES, "mhz": MHZ, "power": power}
    return tl.Scenario(
        platform={"clusters": [{"name": "surf", "hosts": [hosts]}]},
        workload={"object": log, "missing": missing},
        policy=policy,
        model={"demand": "fixed", "sharing": "no-delay"},
    )


def simulate_power(what: tl.Scenario | CompiledScenario, step: float = STEP) -> Floats:
    """Mean power in windows of equal length since t = 0; all hosts idle before the run begins."""
    windows = tl.simulate(what, power_step=step).power.filter(pl.col("node").is_null())
    early = round((windows["t"][0] - windows["dt"][0]) / step)
    return np.concatenate([np.full(early, HOSTS * IDLE), windows["watts"].to_numpy()])


@dataclass(frozen=True)
class PowerDifference:
    """MAPE and bias of a simulated series against a measured one (%)."""

    mape: float
    bias: float

    @classmethod
    def of(cls, simulated: Floats, real: Floats) -> PowerDifference:
        apart = simulated[: len(real)] - real
        mape = float(np.mean(np.abs(apart) / real)) * 100
        return cls(mape, float(apart.mean() / real.mean()) * 100)

    def cells(self) -> list[str]:
        return [f"{self.mape:.2f}", f"{round(self.bias, 2) + 0.0:+.2f}"]


def fit_power(simulated: Floats, real: Floats) -> tuple[float, float]:
    """Fit idle and maximum power to the measured power by least squares.

    Power is linear in both for every model, so one run with known values is enough.
    """
    share = (simulated[: len(real)] - HOSTS * IDLE) / (MAX - IDLE)
    (idle, top), *_ = np.linalg.lstsq(np.column_stack([HOSTS - share, share]), real)
    return float(idle), float(top)


def rescale_power(simulated: Floats, idle: float, top: float) -> Floats:
    """Return the power for other values of idle and maximum power."""
    return HOSTS * idle + (top - idle) * (simulated - HOSTS * IDLE) / (MAX - IDLE)


def models(series: Mapping[str, Floats], again: Mapping[str, Floats], real: Floats) -> str:
    """The table of all models: with the given idle and maximum, and with those fitted on day 1."""
    heads = ["model", "MAPE, days 1-4", "bias", "whole week, OpenDC", "MAPE, days 2-4", "bias"]
    heads += ["fitted idle [W]", "max [W]", "MAPE, day 1", "MAPE, days 2-4", "bias"]
    later = real[PER_DAY:]
    rows = []
    for name, found in series.items():
        idle, top = fit_power(found, real[:PER_DAY])
        cells = PowerDifference.of(found, real).cells()
        cells.append(str(PUBLISHED.get(name, "-")))
        cells += PowerDifference.of(found[PER_DAY:], later).cells()
        cells += [f"{idle:.1f}", f"{top:.1f}"]
        cells.append(PowerDifference.of(again[name], real[:PER_DAY]).cells()[0])
        rows.append([name, *cells, *PowerDifference.of(again[name][PER_DAY:], later).cells()])
    return table(heads, rows)


def days(series: Mapping[str, Floats], real: Floats) -> str:
    heads = ["", *(f"{what}, day {day + 1}" for day in range(4) for what in ("MAPE", "bias"))]
    rows = []
    for name in PUBLISHED:
        cells = []
        for day in range(MEASURED_DAYS):
            part = slice(day * PER_DAY, (day + 1) * PER_DAY)
            cells += PowerDifference.of(series[name][part], real[part]).cells()
        rows.append([name, *cells])
    return table(heads, rows)


def hours(found: Floats, real: Floats) -> str:
    """Bias of one model in each quarter of a day."""
    heads = ["", *(f"hours {at} to {at + 6}" for at in range(0, 24, 6))]
    quarters = [part.reshape(-1, PER_DAY // 4) for part in (found[:SAMPLES], real)]
    biases = [PowerDifference.of(*pair).cells()[1] for pair in zip(*quarters, strict=True)]
    days_ = [biases[at : at + 4] for at in range(0, len(biases), 4)]
    return table(heads, [[f"day {day + 1}", *cells] for day, cells in enumerate(days_)])


def fits(series: Mapping[str, Floats], real: Floats) -> str:
    """Fits on the first day, with and without its first hours."""
    heads = ["", "fitted on", "idle [W]", "max [W]", "MAPE, days 2-4", "bias"]
    rows = []
    for name in PUBLISHED:
        for what, begin in (("day 1", 0), (f"day 1 from hour {ODD_HOURS} on", ODD_HOURS * 120)):
            idle, top = fit_power(series[name][begin:], real[begin:PER_DAY])
            rest = PowerDifference.of(
                rescale_power(series[name], idle, top)[PER_DAY:], real[PER_DAY:]
            )
            rows.append([name, what, f"{idle:.1f}", f"{top:.1f}", *rest.cells()])
    return table(heads, rows)


# --- variants of the simulation ------------------------------------------------------------------


def delay_submissions(log: tl.Trace, seconds: float) -> tl.Trace:
    """Delay the start of every task."""
    return log.replace(tasks=log.tasks.with_columns(pl.col("submit") + seconds))


def round_submissions(log: tl.Trace, seconds: float) -> tl.Trace:
    """Round submissions up, as with a scheduler that decides periodically."""
    at = (pl.col("submit") / seconds).ceil() * seconds
    return log.replace(tasks=log.tasks.with_columns(at.alias("submit")))


def with_recorded_durations(log: tl.Trace) -> tl.Trace:
    """Extend the last fragment of each task to its recorded duration."""
    recorded = log.tasks.select(task="id", recorded="run_time")
    total = pl.col("dt").sum().over("task")
    last = pl.col("task").is_last_distinct()
    length = pl.when(last).then(pl.max_horizontal(pl.col("dt") + pl.col("recorded") - total, 1e-3))
    usage = (
        log.usage.join(recorded, on="task", how="left", maintain_order="left")
        .with_columns(length=length.otherwise(pl.col("dt")))
        .with_columns(pl.col("cpu") * pl.col("length") / pl.col("dt"), dt="length")
    )
    return log.replace(usage=usage.drop("recorded", "length"))


def runs(log: tl.Trace) -> dict[str, Callable[[str], tl.Scenario]]:
    """Variants of the simulation of the week, by changed setting."""
    return {
        "spread over the hosts (`worst-fit`)": lambda m: scenario(log, m, policy="worst-fit"),
        "hosts at random (`random`)": lambda m: scenario(log, m, policy="random"),
        "tasks without fragments on half a core (`synthetic`)": lambda m: scenario(
            log, m, missing="synthetic"
        ),
        "task lengths from `duration`": lambda m: scenario(with_recorded_durations(log), m),
        "starts at whole minutes": lambda m: scenario(round_submissions(log, 60), m),
        "starts at whole 5 minutes": lambda m: scenario(round_submissions(log, 300), m),
        "starts 30 s later": lambda m: scenario(delay_submissions(log, 30), m),
        "starts 5 min later": lambda m: scenario(delay_submissions(log, 300), m),
        "starts 1 h later": lambda m: scenario(delay_submissions(log, 3600), m),
    }


def counts(found: Floats, fine: Floats, real: Floats) -> dict[str, PowerDifference]:
    """Variants of the comparison of the same run; `fine` has windows of one second."""
    per = round(STEP)
    instants = fine[per - 1 :: per][:SAMPLES]

    def means(values: Floats, width: int) -> Floats:
        return values[:SAMPLES].reshape(-1, width).mean(axis=1)

    return {
        "power at the instant, every 30 s": PowerDifference.of(instants, real),
        "power at the instant, every 150 s": PowerDifference.of(instants[4::5], real[4::5]),
        "means of 5 min": PowerDifference.of(means(found, 10), means(real, 10)),
        "means of 1 h": PowerDifference.of(means(found, 120), means(real, 120)),
        "measured one sample later": PowerDifference.of(found, real[1:]),
        "measured one sample earlier": PowerDifference.of(found[1:SAMPLES], real[:-1]),
        "first day only": PowerDifference.of(found, real[:PER_DAY]),
        "first two days only": PowerDifference.of(found, real[: 2 * PER_DAY]),
    }


def hypotheses(found: Mapping[str, Mapping[str, PowerDifference]]) -> str:
    """A row per variant, with a column for each published model."""
    heads = ["", *(f"{what}, {name}" for name in PUBLISHED for what in ("MAPE", "bias"))]
    first = next(iter(found.values()))
    return table(
        heads,
        [[what, *(c for name in PUBLISHED for c in found[name][what].cells())] for what in first],
    )


@dataclass(frozen=True)
class Rest:
    """Figures of the three unmeasured days implied by the published figures."""

    needed: Mapping[str, float]
    factor: float
    follows: float

    @classmethod
    def of(cls, series: Mapping[str, Floats], real: Floats) -> Rest:
        rest = DAYS - MEASURED_DAYS
        needed = {
            name: (DAYS * week - MEASURED_DAYS * PowerDifference.of(series[name], real).mape) / rest
            for name, week in PUBLISHED.items()
        }
        # The ratio of real power to that of `mse` with this error of `mse`; then that of `linear`.
        factor = 1 / (1 - needed["mse r=4"] / 100)
        whole = DAYS * PER_DAY
        unseen = {name: series[name][SAMPLES:whole] for name in PUBLISHED}
        follows = PowerDifference.of(unseen["linear"], factor * unseen["mse r=4"]).mape
        return cls(needed, factor, follows)

    def table(self) -> str:
        heads = ["", "whole week, OpenDC", "days 5-7, needed", "days 5-7, with the factor"]
        rows = [
            ["mse r=4", "6.4", f"{self.needed['mse r=4']:.2f}", f"{self.needed['mse r=4']:.2f}"],
            ["linear", "16.6", f"{self.needed['linear']:.2f}", f"{self.follows:.2f}"],
            ["factor", "", "", f"{self.factor:.3f}"],
        ]
        return table(heads, rows)
