"""Properties of all optimisers: points in the cube, repeatable, tolerant of failures, effective."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from twinloop.calibration.optimisers import (
    GROUP,
    OPTIMISERS,
    Optimiser,
    choose_optimiser,
    create_optimiser,
)
from twinloop.calibration.optimisers.cma_es import Cma
from twinloop.calibration.optimisers.nelder_mead import NelderMead
from twinloop.calibration.optimisers.portfolio import OptimiserPortfolio
from twinloop.calibration.optimisers.powell import Powell
from twinloop.calibration.optimisers.quadratic import Quadratic
from twinloop.calibration.parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
    OrderedParameter,
)
from twinloop.calibration.parameters.space import Space
from twinloop.description.errors import InputError

Floats = NDArray[np.float64]

CUBE = Space([LinearParameter(f"x{i}", 0, 1) for i in range(3)])
MIXED = Space(
    [
        LinearParameter("x", 0, 1),
        LinearParameter("n", 1, 5, integer=True),
        ExponentialParameter("m", 1, 64, integer=True),
        CategoricalParameter("c", ["a", "b", "c"]),
        OrderedParameter("o", ["low", "high"]),
    ]
)
TRUTH = np.array([0.31, 0.62, 0.77])
ALL = [*OPTIMISERS, "cma+powell"]
BAYES = ["bayes-gp", "bayes-gbrt", "bayes-rf", "bayes-et"]
FAST = [name for name in ALL if "bayes" not in name]
#: Optimisers that use the losses; the others place their points independently of them.
ADAPTIVE = [name for name in FAST if name not in ("random", "lhs", "sobol", "grid")]


def budget_of(name: str, usual: int) -> int:
    """Fewer evaluations for optimisers with surrogate models, which are slow."""
    return 14 if "bayes" in name else usual


def sphere(points: Floats) -> Floats:
    return ((points - TRUTH) ** 2).sum(axis=1)


def run(
    name: str, space: Space, loss: Any, *, budget: int, batch: int, seed: int = 3
) -> tuple[Floats, Floats]:
    """Run an optimiser; return its points and their losses, and check every point."""
    optimiser = create_optimiser(name, space, seed=seed, budget=budget, batch=batch)
    points, losses = np.empty((0, len(space))), np.empty(0)
    while len(losses) < budget:
        count = min(batch, budget - len(losses))
        asked = optimiser.ask(count)
        assert asked.shape == (count, len(space))
        assert asked.dtype == np.float64
        assert ((asked >= 0.0) & (asked <= 1.0)).all()
        observed = loss(asked)
        optimiser.tell(asked, observed)
        points, losses = np.concatenate([points, asked]), np.concatenate([losses, observed])
    return points, losses


def test_the_names_are_those_of_the_design() -> None:
    assert set(OPTIMISERS) == {
        "random", "lhs", "sobol", "grid", "gradient", "genetic", "de", "cma", "powell",
        "nelder-mead", "quadratic", "bayes-gp", "bayes-gbrt", "bayes-rf", "bayes-et", "auto",
    }  # fmt: skip
    assert all(OPTIMISERS.values())


@pytest.mark.parametrize("name", ALL)
def test_the_same_losses_lead_to_the_same_points(name: str) -> None:
    budget = budget_of(name, 100)
    first, losses = run(name, CUBE, sphere, budget=budget, batch=7)
    again = create_optimiser(name, CUBE, seed=3, budget=budget, batch=7)
    for begin in range(0, budget, 7):
        asked = again.ask(len(first[begin : begin + 7]))
        assert (asked == first[begin : begin + 7]).all()
        again.tell(asked, losses[begin : begin + 7])


@pytest.mark.parametrize("name", sorted(set(FAST) - {"grid"}))
def test_another_seed_gives_other_points(name: str) -> None:
    first, _ = run(name, CUBE, sphere, budget=40, batch=7)
    other, _ = run(name, CUBE, sphere, budget=40, batch=7, seed=4)
    assert (other != first).any()


def nothing(points: Floats) -> Floats:
    return np.full(len(points), np.nan)


def constant(points: Floats) -> Floats:
    return np.ones(len(points))


def patchy(points: Floats) -> Floats:
    losses = ((points - 0.4) ** 2).sum(axis=1)
    losses[points[:, 0] > 0.6] = np.nan
    losses[points[:, 0] < 0.2] = np.inf
    losses[points[:, 1] > 0.9] = -np.inf
    return losses


def huge(points: Floats) -> Floats:
    return 1e300 * (points.sum(axis=1) - 1.0)


@pytest.mark.parametrize("loss", [nothing, constant, patchy, huge])
@pytest.mark.parametrize("name", ALL)
def test_no_kind_of_loss_stops_an_optimiser(name: str, loss: Any) -> None:
    run(name, CUBE, loss, budget=budget_of(name, 120), batch=7)


def differing(points: Floats) -> Floats:
    """A loss over mixed parameters: each wrong discrete value costs at least 1."""
    values = MIXED.decode(points)
    wrong = [(c != "b") + (o != "high") for c, o in zip(values["c"], values["o"], strict=True)]
    return np.abs(values["x"] - 0.3) + np.abs(values["n"] - 4) + np.array(wrong, dtype=float)


def best_losses(name: str, space: Space, loss: Any, *, budget: int, batch: int) -> list[float]:
    """The best loss found with each of five seeds."""
    return [
        run(name, space, loss, budget=budget, batch=batch, seed=seed)[1].min() for seed in range(5)
    ]


@pytest.mark.parametrize(
    "space",
    [
        Space([CategoricalParameter("c", list("abc")), CategoricalParameter("d", list("xy"))]),
        Space(
            [
                LinearParameter("n", 1, 9, integer=True),
                ExponentialParameter("m", 1, 64, integer=True),
            ]
        ),
        Space([OrderedParameter("o", ["low", "high"]), LinearParameter("x", 0, 1)]),
        Space([CategoricalParameter("c", ["a"]), LinearParameter("x", 0, 1)]),
        Space([CategoricalParameter("c", ["a"])]),
    ],
    ids=["categories", "integers", "two values", "one value", "no choice"],
)
@pytest.mark.parametrize("name", sorted(set(FAST) - {"gradient"}))
def test_spaces_of_few_kinds_are_searched(name: str, space: Space) -> None:
    """The best of sixty points is at most a fifth of the range away from the truth.

    Gradients mean nothing between discrete values.
    """
    truth = np.array([parameter.encode(parameter.decode(0.7)) for parameter in space])
    points, losses = run(name, space, lambda u: ((u - truth) ** 2).sum(axis=1), budget=60, batch=4)
    found = space.encode(space.decode_one(points[np.argmin(losses)]))
    assert np.abs(found - truth).max() < 0.2


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("name", FAST)
def test_the_right_discrete_values_are_found(name: str, batch: int) -> None:
    """One of thirty combinations is right; a hundred points usually suffice to find it."""
    assert np.median(best_losses(name, MIXED, differing, budget=100, batch=batch)) < 0.5


@pytest.mark.parametrize("name", sorted(set(ADAPTIVE) - {"gradient", "quadratic"}))
def test_mixed_parameters_are_searched_better_than_at_random(name: str) -> None:
    """The median over five seeds; between discrete values, gradients have no meaning."""
    random = best_losses("random", MIXED, differing, budget=100, batch=1)
    found = best_losses(name, MIXED, differing, budget=100, batch=1)
    assert np.median(found) < np.median(random) / 2


@pytest.mark.parametrize("name", ADAPTIVE)
def test_an_elongated_bowl_is_searched_better_than_at_random(name: str) -> None:
    """With the losses, the median over five seeds is below a quarter of that of random search."""

    def bowl(points: Floats) -> Floats:
        return ((points - TRUTH) ** 2 * [1.0, 4.0, 16.0]).sum(axis=1)

    random = best_losses("random", CUBE, bowl, budget=120, batch=1)
    found = best_losses(name, CUBE, bowl, budget=120, batch=1)
    assert np.median(found) < np.median(random) / 4


@pytest.mark.parametrize("name", [*BAYES, "powell+bayes-gp+quadratic+cma"])
def test_surrogates_search_mixed_parameters(name: str) -> None:
    def loss(points: Floats) -> Floats:
        values = MIXED.decode(points)
        return np.abs(values["x"] - 0.3) + np.array([c != "b" for c in values["c"]])

    _, losses = run(name, MIXED, loss, budget=32, batch=8)
    assert losses.min() < 0.3


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("name", FAST)
def test_a_bowl_is_found(name: str, batch: int) -> None:
    _, losses = run(name, CUBE, sphere, budget=300, batch=batch)
    # The probability that 300 random points all miss the ball of loss 0.05 is one in a million.
    assert losses.min() < (0.01 if name in ADAPTIVE else 0.05)


@pytest.mark.parametrize("name", BAYES)
def test_a_surrogate_model_finds_the_bowl_after_few_points(name: str) -> None:
    """The second half of 28 points lies lower than half of the cube by a factor of two.

    Random points would have a ratio of 1. The mean of two seeds reduces the variance.
    """
    middle = np.median(sphere(np.random.default_rng(0).random((10_000, 3))))
    late = [
        np.median(run(name, CUBE, sphere, budget=28, batch=4, seed=seed)[1][14:])
        for seed in range(2)
    ]
    assert np.mean(late) < middle / 2


@pytest.mark.parametrize("name", ["cma", "powell", "nelder-mead", "quadratic", "auto"])
def test_a_bowl_is_found_exactly(name: str) -> None:
    _, losses = run(name, CUBE, sphere, budget=300, batch=1)
    assert losses.min() < 1e-6


@pytest.mark.parametrize("name", ["powell", "quadratic", "de", "genetic", "cma", "auto"])
def test_an_optimum_on_a_bound_is_found(name: str) -> None:
    def slope(points: Floats) -> Floats:
        return points[:, 0] + (1.0 - points[:, 1]) + (points[:, 2] - 0.5) ** 2

    _, losses = run(name, CUBE, slope, budget=300, batch=4)
    assert losses.min() < 0.05


@pytest.mark.parametrize("name", ["cma", "auto", "de", "powell"])
def test_a_converged_search_looks_elsewhere(name: str) -> None:
    # Two valleys; the middle of the cube is in the wide valley, the other is lower.
    def valleys(points: Floats) -> Floats:
        wide = ((points - 0.45) ** 2).sum(axis=1) + 0.1
        deep = 4.0 * ((points - 0.85) ** 2).sum(axis=1)
        return np.minimum(wide, deep)

    _, losses = run(
        name,
        Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)]),
        valleys,
        budget=3000,
        batch=10,
    )
    assert losses.min() < 0.01


def test_auto_is_robust_against_losses_that_are_low_by_chance() -> None:
    # A narrow rotated valley with errors of 30 %: a search by single losses stops on its slopes.
    draw = np.random.default_rng(1)
    rotation = np.linalg.qr(draw.standard_normal((5, 5)))[0]
    axes = rotation * np.sqrt(10.0 ** np.linspace(0.0, 2.5, 5))
    truth = np.array([0.2, 0.7, 0.35, 0.8, 0.6])
    space = Space([LinearParameter(f"x{i}", 0, 1) for i in range(5)])

    def valley(points: Floats) -> Floats:
        return (((points - truth) @ axes) ** 2).sum(axis=1)

    def noisy(points: Floats) -> Floats:
        return (valley(points) + 1e-3) * np.exp(0.3 * draw.standard_normal(len(points)))

    late = []
    for seed in range(3):
        points, _ = run("auto", space, noisy, budget=600, batch=1, seed=seed)
        late.append(np.median(valley(points[-100:])))
    assert np.median(late) < 0.01


@pytest.mark.parametrize("name", ["cma", "de", "genetic", "powell", "nelder-mead", "quadratic"])
def test_failed_points_do_not_attract_the_search(name: str) -> None:
    def failing(points: Floats) -> Floats:
        losses = sphere(points)
        losses[points[:, 0] > 0.7] = -np.inf
        losses[points[:, 1] < 0.2] = np.nan
        return losses

    _, losses = run(name, CUBE, failing, budget=300, batch=5)
    assert np.isfinite(losses[-100:]).mean() > 0.6
    assert losses[np.isfinite(losses)].min() < 0.01


class TestGrid:
    @pytest.mark.parametrize("space", [CUBE, MIXED, Space([LinearParameter("a", 0, 1)])])
    def test_no_point_is_repeated(self, space: Space) -> None:
        points = create_optimiser("grid", space).ask(700)
        assert len(np.unique(points, axis=0)) == 700

    def test_discrete_values_are_evaluated_once_each_and_then_at_random(self) -> None:
        space = Space(
            [LinearParameter("n", 1, 5, integer=True), CategoricalParameter("c", list("abc"))]
        )
        values = space.decode(create_optimiser("grid", space).ask(15))
        assert len(set(zip(values["n"].tolist(), values["c"], strict=True))) == 15
        assert create_optimiser("grid", space).ask(40).shape == (40, 2)

    def test_the_resolution_doubles(self) -> None:
        # Rounds of 1, 2^3 and 4^3 points on the middles of cells.
        points = create_optimiser("grid", CUBE).ask(1 + 8 + 64)
        for begin, end, cells in ((0, 1, 1), (1, 9, 2), (9, 73, 4)):
            scaled = points[begin:end] * cells - 0.5
            assert (scaled == np.rint(scaled)).all()
            assert len(np.unique(scaled, axis=0)) == cells**3

    def test_the_beginning_of_a_round_is_spread_out(self) -> None:
        space = Space([LinearParameter(f"x{i}", 0, 1) for i in range(10)])
        points = create_optimiser("grid", space).ask(1 + 128)[1:]  # of 1,024 in the round
        assert (np.abs((points > 0.5).mean(axis=0) - 0.5) < 0.2).all()

    def test_many_dimensions_cost_nothing(self) -> None:
        space = Space([LinearParameter(f"x{i}", 0, 1) for i in range(1100)])
        assert len(np.unique(create_optimiser("grid", space).ask(50), axis=0)) == 50


class TestSampling:
    def test_a_latin_hypercube_has_one_point_in_every_row(self) -> None:
        points = create_optimiser("lhs", CUBE, seed=1, budget=50).ask(50)
        for column in points.T:
            assert sorted(np.floor(column * 50).tolist()) == list(range(50))

    def test_sobols_points_are_balanced(self) -> None:
        points = create_optimiser("sobol", CUBE, seed=1).ask(64)
        halves = (points > 0.5).astype(int) @ [1, 2, 4]
        assert np.bincount(halves, minlength=8).tolist() == [8] * 8


class TestChoice:
    def test_the_choice_depends_on_budget_kinds_and_cost(self) -> None:
        many = Space([LinearParameter(f"x{i}", 0, 1) for i in range(60)])
        assert choose_optimiser(CUBE, budget=4, cost=0.0) == "sobol"
        assert "bayes" not in choose_optimiser(CUBE, budget=100, cost=1e-4)
        assert "bayes-gp" in choose_optimiser(CUBE, budget=100, cost=1.0)
        assert "bayes" not in choose_optimiser(CUBE, budget=100_000, cost=1.0)
        assert "quadratic" not in choose_optimiser(many, budget=1000, cost=1e-4)
        assert choose_optimiser(CUBE, seconds=60.0, cost=1e-4, budget=None) == "cma+powell"
        assert choose_optimiser(MIXED, budget=1000).startswith("powell")

    @pytest.mark.parametrize("space", [CUBE, MIXED])
    @pytest.mark.parametrize("budget", [1, 5, 50, 10**6, None])
    @pytest.mark.parametrize("cost", [0.0, 1e-4, 2.0])
    def test_chosen_optimisers_can_be_created(
        self, space: Space, budget: int | None, cost: float
    ) -> None:
        name = choose_optimiser(space, budget=budget, seconds=60.0, cost=cost)
        assert create_optimiser(name, space, budget=budget).ask(2).shape == (2, len(space))


class Echo:
    def __init__(self, space: Space, *, seed: int, budget: int | None, batch: int) -> None:
        self.size = len(space)

    def ask(self, count: int) -> Floats:
        return np.full((count, self.size), 0.25)

    def tell(self, points: Floats, losses: Floats) -> None:
        pass


class Mute:
    def __init__(self, space: Space, **_: Any) -> None:
        pass


class Broken:
    def __init__(self, space: Space, **_: Any) -> None:
        raise RuntimeError("out of order")


class TestPlugIns:
    @pytest.fixture(autouse=True)
    def offered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entries = [
            EntryPoint(name.lower(), f"{__name__}:{name}", GROUP)
            for name in ("Echo", "Mute", "Broken", "Missing")
        ]
        entries += [EntryPoint("twice", f"{__name__}:{name}", GROUP) for name in ("Echo", "Mute")]

        def entry_points(*, group: str) -> list[EntryPoint]:
            return [entry for entry in entries if entry.group == group]

        monkeypatch.setattr("twinloop.description.plugins.entry_points", entry_points)

    def test_a_plug_in_is_found_by_its_name(self) -> None:
        made = create_optimiser("echo", CUBE, seed=1)
        assert isinstance(made, Optimiser)
        assert made.ask(2).tolist() == [[0.25] * 3] * 2

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("mute", "is not an optimiser"),
            ("broken", "cannot be used: RuntimeError: out of order"),
            ("missing", "cannot be loaded: AttributeError"),
            ("twice", "several plug-ins"),
            ("ecko", "did you mean 'echo'"),
            ("cma+echo", "no built-in optimiser is called 'echo'"),
        ],
    )
    def test_errors_state_the_problem(self, name: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            create_optimiser(name, CUBE, seed=1)


def test_a_batch_without_points_is_an_error() -> None:
    with pytest.raises(InputError, match="batch: must be at least 1"):
        create_optimiser("random", CUBE, batch=0)


def test_importing_the_optimisers_imports_no_heavy_library() -> None:
    code = (
        "import sys, twinloop.calibration.optimisers\n"
        "print([m for m in ('scipy', 'sklearn', 'cma', 'distributed') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


#: The optimisers that only the table of the source document compares, by the module of each.
ON_DEMAND = {
    "genetic": "genetic",
    "gradient": "gradient",
    "bayes-gbrt": "bayes_trees",
    "bayes-rf": "bayes_trees",
    "bayes-et": "bayes_trees",
}
RUN = """
import json, sys
import twinloop.calibration, twinloop.calibration.search.minimisation
from twinloop.calibration.optimisers import create_optimiser
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space

space = Space([LinearParameter("x", 0, 1), LinearParameter("y", 0, 1)])
loaded = {}
for name in sys.argv[1:]:
    if name:
        optimiser = create_optimiser(name, space, seed=1, budget=9)
        for _ in range(9):
            points = optimiser.ask(1)
            optimiser.tell(points, ((points - 0.3) ** 2).sum(axis=1))
    loaded[name] = [each.removeprefix("twinloop.calibration.optimisers.") for each in sys.modules]
print(json.dumps(loaded))
"""


def test_optimisers_for_comparison_are_loaded_on_demand() -> None:
    """In one process: the import, a run of each other optimiser, then of these."""
    others = [name for name in OPTIMISERS if name not in ON_DEMAND and name != "bayes-gp"]
    names = ["", *others, "bayes-gp", *ON_DEMAND]
    found = subprocess.run(
        [sys.executable, "-c", RUN, *names], capture_output=True, text=True, check=True
    )
    loaded = {name: set(modules) for name, modules in json.loads(found.stdout).items()}
    assert loaded[""].isdisjoint({"scipy", "bayes", "cma_es", "differential_evolution"})
    for name in ["", *others]:
        assert "sklearn" not in loaded[name], name
    wanted = set[str]()
    for name in names:
        wanted |= {ON_DEMAND[name]} if name in ON_DEMAND else set()
        assert loaded[name] & set(ON_DEMAND.values()) == wanted, name


@pytest.mark.parametrize(("budget", "share"), [(400, 0.5), (100, 0.0)])
def test_a_broad_search_gets_half_of_every_batch_of_a_large_budget(
    budget: int, share: float
) -> None:
    asked: list[int] = []

    class CountedCma(Cma):
        def ask(self, count: int) -> Floats:
            asked.append(count)
            return super().ask(count)

    space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)])
    search = OptimiserPortfolio(
        space, seed=1, budget=budget, batch=40, members=[Powell, NelderMead, Quadratic, CountedCma]
    )
    for _ in range(budget // 40):
        points = search.ask(40)
        search.tell(points, ((points - 0.3) ** 2).sum(axis=1) + 0.1)
    assert asked
    if share:
        assert min(asked) >= share * 40
    else:
        assert min(asked) < 20
