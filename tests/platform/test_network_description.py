"""Networks and stores in a platform description: units, expansion, errors by path."""

from __future__ import annotations

from typing import Any

import pytest

from twinloop.description import DescriptionError
from twinloop.description.errors import InputError
from twinloop.description.quantities import BANDWIDTH
from twinloop.platform import Platform, Ports
from twinloop.platform.network import expand_links


def platform(**parts: Any) -> Platform:
    return Platform.from_dict(
        {
            "clusters": [{"name": "rack", "hosts": [{"name": "pm", "cores": 1, "count": 2}]}],
            "stores": [{"name": "disk", "capacity": "10 TB", "ports": "1 Gb/s"}],
            **parts,
        }
    )


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("1 Gb/s", 125e6),
        ("1Gbit/s", 125e6),
        ("1 GB/s", 1e9),
        ("100 MB/s", 1e8),
        ("8 b/s", 1.0),
        ("1 MiB/s", 2.0**20),
        ("12.5", 12.5),
        (3, 3.0),
    ],
)
def test_bits_and_bytes_are_different_units(text, bytes_per_second):
    assert BANDWIDTH.read(text) == bytes_per_second


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 gb/s", "did you mean 'Gb/s' or 'GB/s'"),
        ("1 Gbps", "is not a unit for a bandwidth"),
        ("1 GB", "is not a unit for a bandwidth"),
    ],
)
def test_an_unclear_bandwidth_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        BANDWIDTH.read(text)


def test_one_bandwidth_stands_for_both_directions():
    assert platform().stores[0].ports == Ports.from_dict({"in": 125e6, "out": 125e6})


def test_a_description_is_written_as_it_was_read():
    network = {
        "latency": 0.005,
        "switches": ["core"],
        "links": [
            {"between": ["rack", "core"], "bandwidth": 125e6, "latency": 0.001},
            {"name": "up", "between": ["core", "disk"], "duplex": "half"},
        ],
        "routes": [{"between": ["rack-pm-001", "disk"], "links": ["rack-pm-001-core", "up"]}],
    }
    described = platform(network=network)
    assert described.to_dict()["network"] == network
    assert Platform.from_dict(described.to_dict()) == described


def test_a_link_of_a_group_is_one_of_every_node():
    network = {
        "switches": ["core"],
        "links": [{"between": ["core", "rack-pm"]}, {"between": ["core", "disk"]}],
    }
    links = expand_links(platform(network=network))
    assert [link.ends for link in links] == [
        ("core", "rack-pm-001"),
        ("core", "rack-pm-002"),
        ("core", "disk"),
    ]
    assert [link.name for link in links] == ["core-rack-pm-001", "core-rack-pm-002", "core-disk"]


def line(*more: Any, **others: Any) -> dict[str, Any]:
    links = [{"between": ["rack", "core"]}, {"name": "up", "between": ["core", "disk"]}, *more]
    return {"network": {"switches": ["core"], "links": links, **others}}


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (
            line({"between": ["cores", "disk"]}),
            r"network.links\[2\].between\[0\]: unknown node 'cores' \(did you mean 'core'\?\)",
        ),
        (line({"between": ["disk", "disk"]}), r"links\[2\].between: must name two different"),
        (line({"between": ["rack", "rack-pm"]}), "at most one end may be a group"),
        (
            line({"between": ["core", "disk"], "bandwidth": "-1 Gb/s"}),
            r"links\[2\].bandwidth: must be positive",
        ),
        (
            line(routes=[{"between": ["rack-pm-001", "core"], "links": []}]),
            r"network.routes\[0\].between\[1\]: unknown node 'core'",
        ),
        (
            line(routes=[{"between": ["rack-pm-001", "disk"], "links": ["down"]}]),
            r"network.routes\[0\].links\[0\]: unknown link 'down'",
        ),
        (
            line(routes=[{"between": ["rack-pm-001", "disk"], "links": ["up"]}]),
            r"'up' does not begin at 'rack-pm-001'",
        ),
        (
            line(routes=[{"between": ["rack-pm-001", "disk"], "links": ["rack-pm-001-core"]}]),
            r"lead to 'core', not to 'disk'",
        ),
        (
            {"network": {"links": [{"between": ["rack-pm-001", "disk"]}]}},
            r"stores\[0\]: no links lead from 'disk' to 'rack-pm-002'",
        ),
        ({"stores": [{"name": "a"}, {"name": "a"}]}, r"stores\[1\].name"),
        ({"network": {"switches": ["disk"]}}, r"'disk' is also the name of a node or a store"),
        ({"stores": [{"name": "a", "streams": 0}]}, r"stores\[0\].streams"),
    ],
)
def test_problems_have_their_path(parts, problem):
    with pytest.raises(InputError, match=problem):
        platform(**parts)


LINK = {"name": "x", "between": ["s", "disk"], "bandwidth": "1 MB/s"}
RACK = {"between": ["rack", "s"]}


@pytest.mark.parametrize(
    ("network", "path", "problem"),
    [
        ({"switches": ["s"], "links": [RACK, LINK, LINK]}, "links[2].name", "link is called 'x'"),
        (
            {"switches": ["s"], "links": [RACK, {"between": ["s", "disk"]}] * 2},
            "links[2].between",
            "link is called 'rack-pm-001-s'",
        ),
        ({"switches": ["core", "core"]}, "switches[1]", "switch is called 'core'"),
        (
            {
                "routes": [
                    {"between": ["rack-pm-001", "disk"]},
                    {"between": ["disk", "rack-pm-001"]},
                ]
            },
            "routes[1].between",
            "route is between 'disk' and 'rack-pm-001'",
        ),
    ],
)
def test_names_and_ends_of_routes_are_given_once(network, path, problem):
    with pytest.raises(DescriptionError) as found:
        platform(network=network)
    # One problem per link, not one per node of a group.
    first = {each.field: each for each in found.value.problems}[f"network.{path}"]
    assert (first.problem, first.code) == (f"another {problem} already", "TL0211")
    assert len(found.value.problems) == len({each.field for each in found.value.problems})


def test_a_problem_of_a_short_form_is_reported_once():
    with pytest.raises(DescriptionError) as found:
        platform(stores=[{"name": "disk", "ports": float("nan")}])
    assert [each.field for each in found.value.problems] == ["stores[0].ports"]
