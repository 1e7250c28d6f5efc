"""The brokers `asap` and `afap` against a slow twin, on random bags of tasks and graphs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.broker_twin import BrokerCase, BrokerTwin, run_native
from tests.examples import examples

seconds = st.integers(1, 40)


@st.composite
def broker_cases(draw: st.DrawFn, *, overrun: int = 40, **fixed: Any) -> BrokerCase:
    """Draw a bag of tasks or a graph, and settings in which ties and limits are common.

    Args:
        overrun: Most seconds by which a run time exceeds its prediction.
    """
    count = draw(st.integers(1, 9))
    submit = st.sampled_from([0, 0, 1, 7, 30, 55, 60]) | st.integers(0, 150)
    predicted = [draw(seconds | st.just(70)) for _ in range(count)]
    tasks = tuple(
        (draw(submit), draw(st.integers(1, min(40, each + overrun))), each) for each in predicted
    )
    has_parents = draw(st.booleans())
    parents = tuple(
        tuple(sorted(draw(st.sets(st.integers(0, i - 1), max_size=2)))) if has_parents and i else ()
        for i in range(count)
    )
    published = draw(st.booleans())
    boots = ()
    if published and draw(st.booleans()):
        # Even boot times, so that their median is a whole second.
        boot_time = st.integers(1, 15).map(lambda half: 2 * half)
        boot = st.tuples(st.integers(0, 90), boot_time, st.integers(0, 4))
        boots = tuple(draw(st.lists(boot, min_size=1, max_size=6)))
    # The published rule of stops is one of scans at intervals.
    interval = draw(st.sampled_from([1, 3] if published else [0, 1, 3]))
    values: dict[str, Any] = {
        "strategy": draw(st.sampled_from(["asap", "afap"])),
        "tasks": tasks,
        "parents": parents,
        "boots": boots,
        "boot": draw(st.integers(1, 30)),
        "base": draw(st.sampled_from([0.0, 8.0, 8.5, 20.0])),
        "per_booting": draw(st.sampled_from([0.0, 1.0, 6.25])),
        "unit": draw(st.sampled_from([16, 60, 100])),
        # With a smaller margin, the published rule finds no scan within it.
        "margin": draw(st.sampled_from([6, 7] if published else [0, 3, 10])),
        "limit": draw(st.none() | st.integers(1, 4)),
        "is_limit_of_cloud": draw(st.booleans()),
        "interval": interval,
        "later_interval": draw(st.sampled_from([None, 5])) if interval else None,
        "published": published,
        "validation": published and draw(st.booleans()),
    }
    return BrokerCase(**values).change(**fixed)


@examples(40)
@given(broker_cases())
def test_brokers_are_their_twins(case: BrokerCase) -> None:
    assert run_native(case) == BrokerTwin(case).run()


def test_the_last_scan_of_a_unit_is_before_the_margin() -> None:
    """The unit ends at 19 s, and the scans are at 18 s and 21 s."""
    case = BrokerCase("asap", ((1, 1, 2),), boot=1, base=0.0, unit=16, margin=0, interval=3)
    assert run_native(case).instances == [(3, 4, 18)]


def test_an_instance_that_became_idle_within_a_long_margin() -> None:
    """Of a unit of 16 s a margin of 10 s: at 68 s, 25 + 10 s are in the third unit."""
    case = BrokerCase(
        "asap",
        ((43, 7, 39),),
        boots=((28, 4, 2),),
        base=20.0,
        unit=16,
        margin=10,
        interval=1,
        later_interval=5,
        published=True,
    )
    assert BrokerTwin(case).run().instances == [(43, 47, 68)]
    assert run_native(case) == BrokerTwin(case).run()
