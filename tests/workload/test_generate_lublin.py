"""Lublin and Feitelson's model, compared with the published figures and program.

The figures of "the program" were seen in 400,000 jobs of the published `m_lublin99.c`, as the
package `parallelworkloads` 0.1.3 ships it compiled.
"""

import math
from functools import cache

import numpy as np
import polars as pl
import pytest

from twinloop.workload.generators import Lublin
from twinloop.workload.generators.lublin_classes import ALL, BATCH, INTERACTIVE, JobClass

COUNT = 200_000

# The weights of the slots that begin at 4:00, 8:00, 12:00, 16:00 and 20:00, from the program.
PROGRAM_BATCH = [0.260225, 1.0352502, 1.6404699, 1.4944192, 0.9979697]
PROGRAM_INTERACTIVE = [0.1921046, 0.7224965, 1.728026, 1.7587397, 1.1082086]


@cache
def jobs(classes: str, count: int = COUNT, seed: int = 1) -> pl.DataFrame:
    return Lublin(tasks=count, classes=classes).generate(seed).tasks  # type: ignore[arg-type]


def near(share: float, expected: float, count: float) -> bool:
    return abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


def gamma_pdf(x: np.ndarray, shape: float, scale: float) -> np.ndarray:
    y = x / scale
    return np.exp((shape - 1) * np.log(y) - y - math.lgamma(shape)) / scale


def integrate(values: np.ndarray, step: float) -> float:
    return float(values.sum() * step)


@pytest.mark.parametrize(
    ("classes", "serial"), [("batch", 0.2927), ("interactive", 0.1541), ("one", 0.244)]
)
def test_published_share_of_serial_jobs(classes: str, serial: float) -> None:
    size = jobs(classes)["requested_cores"]
    assert near((size == 1).mean(), serial, COUNT)


@pytest.mark.parametrize(
    ("classes", "power", "low", "change", "high", "low_probability"),
    [
        ("batch", 0.6686, 1.2, 5.0, 7.0, 0.875),
        ("interactive", 0.625, 1.0, 3.0, 5.5, 0.705),
        ("one", 0.576, 0.8, 4.5, 7.0, 0.86),
    ],
)
def test_published_sizes_of_parallel_jobs(
    classes: str, power: float, low: float, change: float, high: float, low_probability: float
) -> None:
    """Up to the change of the two-stage uniform distribution, and powers of two in between."""

    def cdf(x: float) -> float:
        first = min(max((x - low) / (change - low), 0), 1)
        second = min(max((x - change) / (high - change), 0), 1)
        return low_probability * first + (1 - low_probability) * second

    size = jobs(classes)["requested_cores"].to_numpy()
    serial = {"batch": 0.2927, "interactive": 0.1541, "one": 0.244}[classes]
    other = 1 - serial - power
    for exponent in range(1, int(high) + 1):
        cores = 2**exponent
        chosen = cdf(exponent + 0.5) - cdf(exponent - 0.5)
        by_chance = cdf(math.log2(cores + 0.5)) - cdf(math.log2(cores - 0.5))
        expected = power * chosen + other * by_chance
        assert near((size == cores).mean(), expected, COUNT), cores
    odd = cdf(math.log2(11.5)) - cdf(math.log2(8.5))
    assert near(((size > 8) & (size < 12)).mean(), other * odd, COUNT)
    assert size.max() <= round(2**high)


@pytest.mark.parametrize(
    ("classes", "short", "long", "slope", "intercept"),
    [
        ("batch", (6.57, 0.823), (639.1, 0.0156), -0.003, 0.6986),
        ("interactive", (3.8351, 0.6605), (7.073, 0.6856), -0.0118, 0.9156),
        ("one", (4.2, 0.94), (312.0, 0.03), -0.0054, 0.78),
    ],
)
@pytest.mark.parametrize("cores", [1, 2, 8, 32])
def test_published_run_times_by_size(
    classes: str,
    short: tuple[float, float],
    long: tuple[float, float],
    slope: float,
    intercept: float,
    cores: int,
) -> None:
    """The logarithm of the run time has a mixture of two gamma densities, cut at 12."""
    frame = jobs(classes).filter(pl.col("requested_cores") == cores)
    run = np.log(frame["run_time"].to_numpy())
    p = slope * cores + intercept
    step = 1e-3
    x = np.arange(step / 2, 12, step)
    density = p * gamma_pdf(x, *short) + (1 - p) * gamma_pdf(x, *long)
    whole = integrate(density, step)
    # Run times are cut to whole seconds, so "less than a whole number" is not moved by the cut.
    for seconds in (5, 20, 100, 1000, 10_000, 25_000, 100_000):
        expected = integrate(density[x < math.log(seconds)], step) / whole
        assert near((run < math.log(seconds) - 1e-9).mean(), expected, run.size), seconds


@pytest.mark.parametrize(
    ("classes", "seen_jobs", "run_below", "of_cores"),
    [
        (
            "interactive",
            342_728,
            {4: 0.1517, 10: 0.41662, 50: 0.76786, 200: 0.90764, 2000: 0.98412, 20_000: 0.99802},
            {1: 0.15416, 2: 0.13505, 4: 0.24655, 8: 0.15807, 16: 0.07636, 32: 0.07627},
        ),
        (
            "batch",
            57_272,
            {4: 0.00222, 10: 0.02362, 50: 0.16795, 200: 0.34712, 2000: 0.56078, 20_000: 0.78735},
            {1: 0.29431, 2: 0.04697, 4: 0.15821, 8: 0.1565, 16: 0.15496, 32: 0.09581},
        ),
    ],
)
def test_run_times_and_sizes_agree_with_the_published_program(
    classes: str, seen_jobs: int, run_below: dict[int, float], of_cores: dict[int, float]
) -> None:
    tasks = jobs(classes)
    both = 1 / (1 / COUNT + 1 / seen_jobs)
    for seconds, share in run_below.items():
        assert near((tasks["run_time"] < seconds).mean(), share, both), seconds
    for cores, share in of_cores.items():
        assert near((tasks["requested_cores"] == cores).mean(), share, both), cores


@pytest.mark.parametrize(
    ("classes", "shape", "scale"),
    [
        ("batch", 6.0415 * 1.0519, 0.8531),
        ("interactive", 6.5510 * 0.9797, 0.6621),
        ("one", 10.2303 * 1.0225, 0.4871),
    ],
)
def test_gaps_on_the_clock_of_the_day_have_the_published_distribution(
    classes: str, shape: float, scale: float
) -> None:
    """A gap, weighed by how busy the time of day is, is exp of a gamma variate cut at 13."""
    count = 50_000
    description = Lublin(tasks=count, classes=classes, resolution="exact")  # type: ignore[arg-type]
    submit = description.generate(1).tasks["submit"].to_numpy()
    weights = {"batch": BATCH, "interactive": INTERACTIVE, "one": ALL}[classes].day_weights()
    reach = np.concatenate([[0], np.cumsum(weights)])
    passed = np.interp(submit % 86400, np.arange(49) * 1800.0, reach) + submit // 86400 * 48
    gaps = np.log(np.diff(passed * 1800.0))
    step = 1e-3
    x = np.arange(step / 2, 13, step)
    density = gamma_pdf(x, shape, scale)
    for point in (2.0, 3.0, 4.0, 5.0, 6.0, 8.0):
        expected = integrate(density[x < point], step) / integrate(density, step)
        assert near((gaps < point).mean(), expected, gaps.size), point
    assert gaps.max() <= 13


@pytest.mark.parametrize(
    ("of", "shape", "scale"),
    [
        (BATCH, 6.1271, 5.2740),
        (INTERACTIVE, 8.9186, 3.6680),
        (ALL, 8.1737, 3.9631),
    ],
)
def test_the_day_follows_a_gamma_density_that_begins_at_half_past_five(
    of: JobClass, shape: float, scale: float
) -> None:
    """Slot i of a day (from 1) has the mass of [i - 0.5, i + 0.5], for i from 11 to 58."""
    step = 1e-3
    mass = {}
    for slot in range(11, 59):
        x = np.arange(slot - 0.5 + step / 2, slot + 0.5, step)
        mass[(slot - 1) % 48] = integrate(gamma_pdf(x, shape, scale), step)
    mean = sum(mass.values()) / 48
    assert of.day_weights().tolist() == pytest.approx([mass[i] / mean for i in range(48)], 1e-6)


def test_day_weights_agree_with_the_published_program() -> None:
    slots = [8, 16, 24, 32, 40]
    assert BATCH.day_weights()[slots].tolist() == pytest.approx(PROGRAM_BATCH, abs=1e-6)
    assert INTERACTIVE.day_weights()[slots].tolist() == pytest.approx(PROGRAM_INTERACTIVE, abs=1e-6)


def test_nights_are_quiet() -> None:
    submit = jobs("both")["submit"].to_numpy() % 86400
    by_hour = np.bincount((submit // 3600).astype(int), minlength=24) / COUNT
    assert by_hour[11:18].min() > 2 * by_hour[1:6].max()


def test_the_clock_can_start_at_any_time_of_day() -> None:
    """At 9:30 the same day has begun 9.5 h before t = 0: busy hours come 9.5 h earlier."""
    late = Lublin(tasks=100_000, start_hour=9.5, classes="interactive").generate(1).tasks
    hour = ((late["submit"].to_numpy() / 3600 + 9.5) % 24).astype(int)
    share = np.bincount(hour, minlength=24) / 100_000
    expected = INTERACTIVE.day_weights().reshape(24, 2).mean(axis=1) / 24
    assert np.all(np.abs(share - expected) < 0.01)
    assert late["submit"].min() >= 0


def test_both_classes_come_in_the_ratio_of_their_rates() -> None:
    """The odds of batch are the ratio of the rates; the program's log has 57,272 of 400,000."""
    count = 1_000_000
    tasks = Lublin(tasks=count).generate(1).tasks
    odds, variance = [], 0.0
    for of in (BATCH, INTERACTIVE):
        gaps = np.diff(tasks.filter(pl.col("queue") == of.name)["submit"].to_numpy())
        odds.append(gaps.size)
        variance += (gaps.std() / gaps.mean()) ** 2 / gaps.size
    expected = INTERACTIVE.mean_gap() / BATCH.mean_gap()
    assert abs(odds[0] / odds[1] / expected - 1) < 5 * math.sqrt(variance)
    seen = 57_272 / 342_728
    assert abs(odds[0] / odds[1] / seen - 1) < 5 * math.sqrt(variance * (1 + 2.5))


@pytest.mark.parametrize("of", [BATCH, INTERACTIVE, ALL])
def test_means_agree_with_integrals_of_the_published_densities(of: JobClass) -> None:
    step = 1e-4
    x = np.arange(step / 2, 13, step)
    gap = gamma_pdf(x, of.gap[0] * of.gap_stretch, of.gap[1])
    assert of.mean_gap() == pytest.approx(
        integrate(gap * np.exp(x), step) / integrate(gap, step), rel=1e-5
    )
    x = np.arange(step / 2, 12, step)
    short, long = gamma_pdf(x, *of.short), gamma_pdf(x, *of.long)
    work = 0.0
    for cores, probability in enumerate(of.size_probabilities(128), start=1):
        p = min(max(of.slope * cores + of.intercept, 0), 1)
        density = p * short + (1 - p) * long
        run = integrate(density * np.exp(x), step) / integrate(density, step)
        work += probability * cores * run
    assert of.mean_work(128) == pytest.approx(work, rel=1e-5)


@pytest.mark.parametrize("of", [BATCH, INTERACTIVE, ALL])
@pytest.mark.parametrize("machine", [8, 16, 100, 128, 1000])
def test_size_probabilities_are_those_of_the_sizes_drawn(of: JobClass, machine: int) -> None:
    classes = {"all": "one"}.get(of.name, of.name)
    description = Lublin(tasks=50_000, machine=machine, classes=classes)  # type: ignore[arg-type]
    size = description.generate(1).tasks["requested_cores"].to_numpy().astype(int)
    assert 1 <= size.min() <= size.max() <= machine
    expected = of.size_probabilities(machine)
    assert expected.sum() == pytest.approx(1)
    share = np.bincount(size, minlength=machine + 1)[1:] / size.size
    assert np.all(np.abs(share - expected) <= 5.5 * np.sqrt(expected / size.size) + 2e-4)


@pytest.mark.parametrize("classes", ["both", "batch", "interactive", "one"])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_a_load_is_met_and_the_daily_cycle_stays(classes: str, load: float) -> None:
    tasks = (
        Lublin(tasks=COUNT, classes=classes, load=load)  # type: ignore[arg-type]
        .generate(2)
        .tasks
    )
    work = (tasks["run_time"] * tasks["requested_cores"]).to_numpy()
    gaps = np.diff(tasks["submit"].to_numpy())
    offered = work.sum() / (128 * tasks["submit"].max())
    sigma = math.hypot(work.std() / work.mean(), gaps.std() / gaps.mean()) / math.sqrt(COUNT)
    assert abs(offered / load - 1) < 5 * sigma
    hours = np.bincount((tasks["submit"].to_numpy() % 86400 // 3600).astype(int), minlength=24)
    assert hours[11:18].min() > 2 * hours[1:6].max()


def test_the_load_of_the_model_is_about_that_of_the_program() -> None:
    """The program's 400,000 jobs offer 0.394 of 128 processors."""
    assert Lublin().model_load == pytest.approx(0.394, rel=0.03)
