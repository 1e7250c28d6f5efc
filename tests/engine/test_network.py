"""Four transfers of 768 MB between four nodes, all started at once: 15, 60, 60 and 30 s."""

import pytest

from twinloop.engine import Environment, run_columns

PAIRS = [(0, 1), (2, 0), (2, 3), (1, 3)]
SIZE = 768.0
FINISH = [15, 60, 60, 30]
GIGABIT = [128.0] * 4

CAPPED_PORTS = ([51.2, 128.0, 25.6, 128.0], [128.0, 128.0, 128.0, 38.4], [None] * 4)
LIMITED_TRANSFERS = (GIGABIT, GIGABIT, [51.2, 12.8, 12.8, 25.6])
SETUPS = pytest.mark.parametrize(
    ("send", "receive", "limits"),
    [CAPPED_PORTS, LIMITED_TRANSFERS],
    ids=["capped ports", "limited transfers"],
)


@SETUPS
def test_as_flows(send, receive, limits):
    env = Environment()
    out = [env.resource(c) for c in send]
    into = [env.resource(c) for c in receive]
    transfers = [
        env.start(SIZE, [out[i], into[j]], limit=limit)
        for (i, j), limit in zip(PAIRS, limits, strict=True)
    ]
    env.run()
    assert [t.finished for t in transfers] == pytest.approx(FINISH, rel=1e-9)


@SETUPS
def test_as_columns(send, receive, limits):
    run = run_columns(
        [0.0] * 4,
        [SIZE] * 4,
        capacity=[*send, *receive],
        resource=[[i, 4 + j] for i, j in PAIRS],
        limit=[float("inf") if limit is None else limit for limit in limits],
    )
    assert run.finish == pytest.approx(FINISH, rel=1e-9)


def test_the_ports_of_the_slow_transfers_are_shared_out():
    env = Environment()
    send, receive, _ = CAPPED_PORTS
    out = [env.resource(c) for c in send]
    into = [env.resource(c) for c in receive]
    transfers = [env.start(SIZE, [out[i], into[j]]) for i, j in PAIRS]
    assert [t.rate for t in transfers] == pytest.approx([51.2, 12.8, 12.8, 25.6], rel=1e-9)


@pytest.mark.parametrize("later", [{"at": 1.0}, {"latency": 1.0}])
def test_a_flow_that_starts_later_shares_with_running_flows(later):
    env = Environment()
    busy, free = env.resource(1.0), env.resource(2.0)
    first = busy.execute(10.0)
    flow = env.start(1.0, [busy, free], **later)
    env.run()
    assert (flow.finished, first.finished) == (3.0, 11.0)
