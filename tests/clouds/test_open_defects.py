"""Defects that are not corrected yet."""

from __future__ import annotations

from hypothesis import given

from tests.clouds.broker_twin import BrokerCase, BrokerTwin, run_native
from tests.clouds.test_broker_base import make_broker
from tests.clouds.test_broker_twin import broker_cases
from tests.examples import examples


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


@examples(20)
@given(broker_cases(published=False, validation=False, boots=(), interval=0, later_interval=None))
def test_brokers_in_python_see_no_true_run_times(case: BrokerCase) -> None:
    assert run_native(case, make_broker(case)).placements == run_native(case).placements
