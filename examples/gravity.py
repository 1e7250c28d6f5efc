"""Calibration of a model of projectiles that is known to be wrong: the gravity example.

    python examples/gravity.py

J. McDonald, "A Systematic and Automated Methodology for Calibrating Simulators of Parallel and
Distributed Computing Systems" (dissertation, University of Hawai'i at Manoa, 2026), chapters 2 and
3 and appendix A: a projectile is launched upwards, and its simulator is F(t) = A t^2 + B v t + C h.
Without air, A is -g / 2, B and C are 1. The truth is 400 trajectories with quadratic drag: spheres
of 5 densities and 4 radii, launched at 5 speeds from 4 heights. The script prints the values that
are fitted to them, and which of them the data identify.

Drag over mass depends on density x radius only, which has 8 values in these 20 spheres.
"""

from itertools import product
from math import ceil, pi, sqrt

from scipy.integrate import solve_ivp

from twinloop.calibration import Experiment, Fit, calibrate_black_box

GRAVITY = 9.8  # m/s^2
AIR_DENSITY = 1.225  # kg/m^3
DRAG_COEFFICIENT = 0.47
STEP = 0.01  # s
DENSITIES = (2.0, 20.0, 200.0, 2_000.0, 20_000.0)  # kg/m^3
RADII = (0.005, 0.05, 0.5, 5.0)  # m
HEIGHTS = (1.0, 10.0, 100.0, 1_000.0)  # m
SPEEDS = (0.0, 1.0, 10.0, 100.0, 1_000.0)  # m/s

#: The values without air.
PHYSICS = {"A": -GRAVITY / 2, "B": 1.0, "C": 1.0}
#: The parameters of the simulator and their ranges.
PARAMETERS = {"A": {"linear": [-10, -0.1]}, "B": {"linear": [0, 2]}, "C": {"linear": [0, 2]}}
#: The fractions of the time of flight at which heights are compared.
FRACTIONS = {"first_quarter": 0.25, "half": 0.5, "third_quarter": 0.75}


def compute_drag(density: float, radius: float) -> float:
    """Compute the drag of a sphere over its mass: the deceleration at a speed of 1 m/s (1/m).

    The cross-section is 2 pi r^2, as printed in appendix A; that of a sphere is pi r^2.
    """
    mass = density * 4 / 3 * pi * radius**3
    return 0.5 * AIR_DENSITY * DRAG_COEFFICIENT * 2 * pi * radius**2 / mass


def follow(height: float, speed: float, drag: float) -> dict[str, float]:
    """Compute the time of the impact, on the grid of time steps, and heights before it."""

    def derive(_: float, state: list[float]) -> tuple[float, float]:
        return state[1], -GRAVITY - drag * state[1] * abs(state[1])

    def touch(_: float, state: list[float]) -> float:
        return state[0]

    touch.terminal, touch.direction = True, -1
    flight = solve_ivp(
        derive, (0.0, 1e5), (height, speed), "LSODA", events=touch, dense_output=True,
        rtol=1e-9, atol=1e-9,
    )  # fmt: skip
    impact = round_up(flight.t_events[0][0])
    heights = {name: float(flight.sol(part * impact)[0]) for name, part in FRACTIONS.items()}
    return {"impact": impact, **heights}


def round_up(time: float) -> float:
    """Round a time up to the first time step at which the projectile is below the ground."""
    return ceil(time / STEP - 1e-9) * STEP


def simulate(values: dict[str, float], case: dict[str, float]) -> dict[str, float]:
    """Simulate a projectile with F(t) = A t^2 + B v t + C h: the figures of `follow`."""
    a, b, c = values["A"], values["B"] * case["speed"], values["C"] * case["height"]
    impact = round_up((-b - sqrt(b * b - 4 * a * c)) / (2 * a))
    times = {name: part * case["impact"] for name, part in FRACTIONS.items()}
    return {"impact": impact, **{name: (a * t + b) * t + c for name, t in times.items()}}


def make_experiment(density: float, radius: float, height: float, speed: float) -> Experiment:
    """Make an experiment of one trajectory; a density of infinity is one without air."""
    truth = follow(height, speed, compute_drag(density, radius))
    case = {"height": height, "speed": speed, "impact": truth["impact"]}
    return Experiment(case=case, truth=truth)


def make_experiments(
    densities: tuple[float, ...] = DENSITIES, radii: tuple[float, ...] = RADII
) -> list[Experiment]:
    """Make the experiments of all heights and speeds with these spheres."""
    return [
        make_experiment(*sphere, *launch)
        for sphere in product(densities, radii)
        for launch in product(HEIGHTS, SPEEDS)
    ]


def keep_impact(experiments: list[Experiment]) -> list[Experiment]:
    """Keep only the time of the impact of each experiment."""
    return [
        Experiment(case=each.case, truth={"impact": each.truth["impact"]}) for each in experiments
    ]


def calibrate(experiments: list[Experiment], budget: int = 400, analysis: int = 0) -> Fit:
    """Calibrate the simulator, and analyse which values the data identify."""
    return calibrate_black_box(
        simulate, experiments, PARAMETERS, budget=budget, analysis=analysis, on="serial"
    )


def compute_error(experiments: list[Experiment], values: dict[str, float]) -> float:
    """Compute the mean relative error of the time of the impact."""
    pairs = [(simulate(values, each.case)["impact"], each.truth["impact"]) for each in experiments]
    return sum(abs(model - real) / real for model, real in pairs) / len(pairs)


def print_without_air() -> None:
    """Print fits to trajectories without air: of all figures, and of the time of the impact."""
    print(f"without air: A = {PHYSICS['A']}, B = 1, C = 1 by physics")
    experiments = make_experiments((float("inf"),), (1.0,))
    for title, chosen in (
        ("impact and heights", experiments),
        ("impact only", keep_impact(experiments)),
    ):
        fit = calibrate(chosen, analysis=3000)
        values = ", ".join(f"{name} = {value:.3f}" for name, value in fit.values.items())
        print(f"  {title:18}  {values}; {fit.identifiability}")


def print_with_air() -> None:
    """Print fits of the time of the impact in air, for spheres of equal drag and for all."""
    print("\nin air, impact only: density x radius, fitted ratios, and mean errors of the impact")
    print("  kg/m2   trajectories     A / C   B / C     fit   physics")
    spheres: dict[float, list[tuple[float, float]]] = {}
    for density, radius in product(DENSITIES, RADII):
        spheres.setdefault(round(density * radius, 9), []).append((density, radius))
    everything: list[Experiment] = []
    for mass, same in sorted(spheres.items()):
        found = keep_impact(
            [each for sphere in same for each in make_experiments((sphere[0],), (sphere[1],))]
        )
        everything += found
        print_row(f"{mass:g}", found)
    print_row("all", everything)


def print_row(name: str, experiments: list[Experiment]) -> None:
    """Print the ratios that are fitted, and the errors of the fit and of physics."""
    values = calibrate(experiments).values
    ratios = values["A"] / values["C"], values["B"] / values["C"]
    errors = compute_error(experiments, values), compute_error(experiments, PHYSICS)
    print(
        f"  {name:>6} {len(experiments):13} {ratios[0]:10.3f} {ratios[1]:7.3f}"
        f" {errors[0]:8.1%} {errors[1]:8.1%}"
    )


if __name__ == "__main__":
    print_without_air()
    print_with_air()
