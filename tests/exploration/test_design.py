"""Experimental designs: their combinations of levels, and the changes of the scenario."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop import InputError, Scenario
from twinloop.exploration import Design
from twinloop.exploration.factors.factors import Factor, apply_changes

THESIS = """
factors:
  platform: [4x4, 2x8]
  policy: [baseline-ic1, first-fit, pack-ic, spread-ic, spread-vcpu]
  overcommit:
    levels: [1, 1.25, 1.5, 2]
    when: {policy: [pack-ic, spread-ic, spread-vcpu]}
seeds: 3
"""

BASE = Scenario(platform="4x4", policy="fifo", workload="log.swf")


def test_the_published_design_has_28_scenarios_of_84_runs() -> None:
    """Table 5.2: two topologies, two plain policies, three policies at four ratios; three seeds."""
    design = Design.from_text(THESIS)
    found = list(design.configurations())
    assert len(found) == 2 * (2 + 3 * 4) == 28
    assert design.seeds == (0, 1, 2)
    assert len({each.name for each in found}) == 28
    scenarios = [apply_changes(BASE, each.changes) for each in found]
    plain = [each for each in scenarios if each.policy.name in ("baseline-ic1", "first-fit")]
    assert len(plain) == 4
    assert all("overcommit" not in each.policy.options for each in plain)
    ratios = {
        (each.platform.shorthand, each.policy.name, each.policy.options["overcommit"])
        for each in scenarios
        if each not in plain
    }
    policies = ("pack-ic", "spread-ic", "spread-vcpu")
    assert ratios == set(product(("4x4", "2x8"), policies, (1, 1.25, 1.5, 2)))


levels = st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True)


@given(st.lists(levels, min_size=1, max_size=4))
def test_a_factorial_is_the_product_of_its_levels(sizes: list[list[int]]) -> None:
    design = Design(
        factors={f"f{i}": {"field": "seed", "levels": each} for i, each in enumerate(sizes)}
    )
    found = [tuple(each.labels.values()) for each in design.configurations()]
    assert found == [tuple(map(float, each)) for each in product(*sizes)]


@given(st.lists(levels, min_size=1, max_size=4))
def test_one_at_a_time_changes_one_factor_from_the_first_levels(sizes: list[list[int]]) -> None:
    design = Design(
        design="one-at-a-time",
        factors={f"f{i}": {"field": "seed", "levels": each} for i, each in enumerate(sizes)},
    )
    found = [tuple(each.labels.values()) for each in design.configurations()]
    usual = tuple(float(each[0]) for each in sizes)
    assert found[0] == usual
    assert len(found) == 1 + sum(len(each) - 1 for each in sizes) == len(set(found))
    for each in found[1:]:
        assert sum(mine != usually for mine, usually in zip(each, usual, strict=True)) == 1


@given(st.integers(1, 40), st.integers(0, 5))
def test_a_latin_hypercube_has_one_value_in_each_part_of_each_range(many: int, seed: int) -> None:
    design = Design(
        design="latin-hypercube",
        samples=many,
        seed=seed,
        factors={
            "model.speed_factor": {"range": [1, 3]},
            "time_scale": {"range": [0.1, 10], "log": True},
        },
    )
    found = list(design.configurations())
    assert found == list(design.configurations())
    speeds = np.array([each.changes["model.speed_factor"] for each in found])
    scales = np.array([each.changes["time_scale"] for each in found])
    for shares in ((speeds - 1) / 2, (np.log10(scales) + 1) / 2):
        assert sorted(np.floor(shares * many).astype(int)) == list(range(many))


def test_limits_of_an_integer_range_have_the_same_probability_as_other_values() -> None:
    factor = Factor(range=[1, 4], integer=True)
    found = [factor.sampled(share) for share in np.linspace(0.0005, 0.9995, 1000)]
    assert [found.count(each) for each in (1, 2, 3, 4)] == [250, 250, 250, 250]
    wide = Factor(range=[1, 1000], integer=True, log=True)
    assert (wide.sampled(0.0), wide.sampled(1.0)) == (1, 1000)
    assert wide.sampled(0.5) == round(math.sqrt(1000))


def test_a_list_design_has_exactly_its_points() -> None:
    design = Design.from_text("""
design: list
factors:
  policy: [fifo, pack-ic]
  overcommit: {levels: [1, 2], when: {policy: pack-ic}}
points:
- {policy: fifo, overcommit: 2}
- {policy: pack-ic, overcommit: 2}
- {policy: fifo}
""")
    found = [each.changes for each in design.configurations()]
    # The third point equals the first, because overcommit is not active with fifo.
    assert found == [{"policy": "fifo"}, {"policy": "pack-ic", "policy.options.overcommit": 2}]


def test_a_level_may_change_several_fields_and_have_a_name() -> None:
    design = Design.from_text("""
factors:
  site:
    levels:
      small: {platform: 2x4, policy: easy}
      large: {platform: 16x4, policy: fcfs}
""")
    assert [each.name for each in design.configurations()] == ["small", "large"]
    large = apply_changes(BASE, list(design.configurations())[1].changes)
    assert (large.platform.shorthand, large.policy.name) == ("16x4", "fcfs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "factors:\n  polcy: [fifo]",
            "f.yaml:2: factors.polcy.field: the field .* is not given .* 'policy'",
        ),
        (
            "factors:\n  policy: []",
            "f.yaml:2: factors.policy.levels: needs either levels or a range",
        ),
        ("factors:\n  policy: [a, a]", "f.yaml:2: .*contains 'a' twice"),
        ("factors: {}", "there is no factor"),
        ("factors:\n  seed: [1, 2]", "is the name of a column .*seeds"),
        ("factors:\n  policy: [fifo]\nsedes: 3", "f.yaml:3: sedes: is not a field .*'seeds'"),
        (
            "factors:\n  policy: [fifo]\n  overcommit: {levels: [1], when: {policy: easy}}",
            "f.yaml:3: factors.overcommit.when.policy: has no level 'easy' .known: fifo",
        ),
        (
            "factors:\n  overcommit: {levels: [1], when: {policy: easy}}\n  policy: [easy]",
            "is not a factor defined above .define it before",
        ),
        (
            "factors:\n  time_scale: {range: [1, 2]}",
            "is a range, but the design factorial needs levels",
        ),
        ("design: list\npoints:\n- {policy: fifo}", "factors"),
        ("factors:\n  policy: [fifo]\nseeds: 0", "seeds"),
        ("design: list\nfactors:\n  policy: [fifo]", "points: are required by the design `list`"),
    ],
)
def test_errors_of_a_design_name_their_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Design.from_text(text, file="f.yaml")


def test_a_policy_and_its_required_option_are_two_factors() -> None:
    design = Design.from_text("""
        factors:
          policy: [asap, budget]
          budget: {field: policy.options.budget, levels: [10, 20], when: {policy: [budget]}}
    """)
    found = [apply_changes(BASE, each.changes).policy for each in design.configurations()]
    assert [(each.name, each.options) for each in found] == [
        ("asap", {}), ("budget", {"budget": 10}), ("budget", {"budget": 20})
    ]  # fmt: skip


def test_levels_of_equal_value_and_other_names_are_two_configurations() -> None:
    design = Design.from_text(
        "factors: {site: {levels: {a: {platform: 4x4}, b: {platform: 4x4}}}, policy: [fifo, easy]}"
    )
    names = [each.name for each in design.configurations()]
    assert names == ["a, fifo", "a, easy", "b, fifo", "b, easy"]


def test_a_single_level_is_named_where_nothing_else_is() -> None:
    (only,) = Design.from_dict({"policy": ["fifo"]}).configurations()
    assert only.name == "fifo"


@pytest.mark.parametrize("given", ["0", "-3", "many", "1.5", "true"])
def test_a_number_of_seeds_is_a_positive_whole_number(given: str) -> None:
    expected = "seeds: must be a positive whole number, or a list of seeds, not "
    with pytest.raises(InputError, match=expected):
        Design.from_text(f"factors:\n  policy: [fifo]\nseeds: {given}")


def test_seeds_under_both_names_are_an_error() -> None:
    with pytest.raises(InputError, match="seeds and seed"):
        Design.from_dict({"policy": ["fifo"], "seed": [1], "seeds": 2})


@pytest.mark.parametrize("name", ["seed", "seeds"])
def test_seeds_can_be_given_among_factors(name: str) -> None:
    short = Design.from_dict({"policy": ["fifo", "easy"], name: [3, 4]})
    assert short == Design(factors={"policy": ["fifo", "easy"]}, seeds=[3, 4])  # type: ignore[dict-item,arg-type]
