"""The policy page of the documentation agrees with the classes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from twinloop.description import Description
from twinloop.description.quantities import number_to_text
from twinloop.policy import Place, Policy, Wake, list_clients, list_policies

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policies.md"


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Description):
        return f"`{value.to_dict()}`".replace("'", "").replace("`{}`", "none")
    return number_to_text(float(value)) if isinstance(value, int | float) else str(value)


def policy_table() -> str:
    """The table of policies in Markdown."""
    rows = ["| policy | what it does | option | default | meaning |", "|---|---|---|---|---|"]
    for name, kind in {**list_policies(), **list_clients()}.items():
        does = (kind.__doc__ or "").partition("\n")[0].rstrip(".")
        head = f"| `{name}` | {does} "
        for option, field in kind.model_fields.items():
            default = (
                "required"
                if field.is_required()
                else shown(field.get_default(call_default_factory=True))
            )
            rows.append(f"{head}| `{option}` | {default} | {field.description} |")
            head = "| | "
        if not kind.model_fields:
            rows.append(f"{head}| | | |")
    return "\n".join(rows)


def test_the_page_describes_every_policy_and_option() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert policy_table() in text, "write policy_table() into the page"


def example(name: str) -> Policy:
    """The policy of this name on the page."""
    found = re.search(rf"```\w+\n(class {name}\(Policy\):\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    names: dict[str, Any] = {"Policy": Policy, "Place": Place, "Wake": Wake, "np": np}
    exec(found[1], names)
    made: Policy = names[name]()
    return made


def view(cores: list[float], requested: list[float], free: list[float]) -> Any:
    return SimpleNamespace(
        now=7.0,
        waiting=list(range(len(cores))),
        free_cores=np.array(free),
        free_memory=np.full(len(free), np.inf),
        cores=cores.__getitem__,
        memory=lambda task: 0.0,
        requested_time=requested.__getitem__,
    )


def decide(name: str, seen: Any) -> list[Any]:
    return list(example(name).start(seen, np.random.default_rng(1)).decide(seen) or [])


def test_the_example_of_shortest_first_takes_the_shortest_first() -> None:
    # Task 1 is the shortest and takes all of machine 0, so task 0 goes to machine 1; task 2 fits
    # nowhere then.
    seen = view(cores=[2, 4, 3], requested=[50, 10, 90], free=[4, 4])
    assert decide("Shortest", seen) == [Place(1, 0), Place(0, 1)]


def test_the_example_with_dice_takes_a_machine_with_room_or_waits() -> None:
    assert decide("Dice", view(cores=[2], requested=[1], free=[1, 2, 1])) == [Place(0, 1)]
    assert decide("Dice", view(cores=[2], requested=[1], free=[1, 1])) == [Wake(67.0)]
    assert decide("Dice", view(cores=[], requested=[], free=[1])) == []
