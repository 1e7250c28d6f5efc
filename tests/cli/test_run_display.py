"""The display of an active run: one line per node at every width."""

import pytest
from rich.console import Console

from twinloop.cli.run_display import describe, render
from twinloop.execution.run_progress import RunProgress


def render_lines(moment: RunProgress, width: int, *, terminal: bool = True) -> list[str]:
    """Render a moment; return its lines without colours."""
    console = Console(width=width, force_terminal=terminal, color_system=None, highlight=False)
    with console.capture() as shown:
        console.print(render(moment))
    found = shown.get().splitlines()
    assert all(len(line) <= width for line in found)
    return [line.rstrip() for line in found]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [40, 60, 90])
@pytest.mark.parametrize("over", [0, 4, 9])
def test_every_node_has_one_line(width: int, over: int, terminal: bool) -> None:
    running: dict[str, tuple[str, ...]] = {"n1": ("a", "b"), "n2": (), "n[3]": ("[red]c",)}
    moment = RunProgress(3.0, 9, {"completed": over}, 2, running)
    found = render_lines(moment, width, terminal=terminal)
    assert [line.split() for line in found[-3:]] == [
        ["n1", "a", "b"],
        ["n2", "-"],
        ["n[3]", "[red]c"],
    ]
    *words, bar = found[:-3]
    assert " ".join(line.strip() for line in words) == describe(moment)
    assert set(bar) <= set("━╸╺ ")
    assert bar.count("━") == pytest.approx(min(width, 60) * over / 9, abs=1)


@pytest.mark.parametrize("width", [40, 60, 90])
def test_tasks_and_nodes_that_do_not_fit_are_cut_and_counted(width: int) -> None:
    long = tuple(f"a-task-with-a-long-name-{number}" for number in range(20))
    moment = RunProgress(3.0, 99, {}, 0, {f"node-{number}": long for number in range(20)})
    found = render_lines(moment, width)[-17:]
    assert [line.split()[0] for line in found] == [*(f"node-{n}" for n in range(16)), "..."]
    assert found[-1].endswith("and 4 more nodes")
    assert all("a-task-with-a-long-name-0" in line for line in found[:-1])
    assert all(line.endswith(("...", "…")) for line in found[:-1])


@pytest.mark.parametrize("width", [40, 60, 90])
def test_the_name_of_a_node_leaves_room_for_its_tasks(width: int) -> None:
    found = render_lines(RunProgress(3.0, 9, {}, 0, {"n" * 100: ("a", "b"), "n2": ("c",)}), width)
    assert [line.split()[1:] for line in found[-2:]] == [["a", "b"], ["c"]]


@pytest.mark.parametrize("width", [40, 60, 90])
def test_a_run_without_tasks_or_nodes_is_displayed(width: int) -> None:
    assert render_lines(RunProgress(0.0, 0, {}, 0, {}), width)[0].startswith(
        "0.0 s: 0 of 0 tasks ended"
    )
