"""The page of a confirmation says which recommendations hold, and draws what was measured."""

import json
from pathlib import Path

import pytest

from tests.report.pages import EVIL, Reader, loads_nothing, pictures
from tests.report.studies import PREDICTED, TOOK, confirmation
from twinloop.explore.confirmation import Confirmation
from twinloop.report import confirmation_page
from twinloop.report.confirmation_figures import course, differences, ranks
from twinloop.trace import InputError


def written(of: Confirmation, folder: Path) -> tuple[str, Reader]:
    text = confirmation_page(of, folder / "real.html").read_text(encoding="utf-8")
    return text, Reader(text)


def mean(name: str) -> float:
    return sum(TOOK[name]) / 3


def test_the_page_says_first_which_hold(tmp_path: Path) -> None:
    text, page = written(confirmation(), tmp_path)
    loads_nothing(text, page)
    assert '<span class="status pass big">holds</span>' in text
    said = text.split('<div class="answer">')[1].split("</div>")[0].split("</p>")
    for line, name, verdict in zip(
        said, ("good", "bad", "even"), ("holds", "reversed", "tie"), strict=False
    ):
        assert line.startswith(f"<p>{name} ")
        assert line.endswith(f": {verdict}.")
    assert text.index('class="answer"') < text.index('class="picture"')
    assert list(pictures(page)) == ["differences", "ranks", "differences-0", "course"]
    assert "energy per task was not measured" in page.text


def test_differences_are_the_paired_ones_and_the_prediction_is_marked() -> None:
    figure = differences(confirmation())
    names = list(figure.layout.yaxis.ticktext)
    found, foretold = {}, {}
    for trace in figure.data:
        if trace.name.startswith("measured"):
            for x, y in zip(trace.x, trace.y, strict=True):
                found[names[y]] = (x, trace.name.removeprefix("measured: "))
        elif trace.name == "predicted":
            foretold = {names[y]: x for x, y in zip(trace.x, trace.y, strict=True)}
    verdicts = {"good": "holds", "bad": "reversed", "even": "tie"}
    for name, verdict in verdicts.items():
        assert found[name] == (pytest.approx(mean(name) - mean("base")), verdict)
        assert foretold[name] == pytest.approx(PREDICTED[name] - PREDICTED["base"])


def test_the_interval_is_drawn_to_its_ends() -> None:
    made = confirmation()
    pair = made.pairs.filter(metric="makespan_s", one="good", other="base").row(0, named=True)
    (bars,) = (trace for trace in differences(made).data if trace.name == "measured: holds")
    assert bars.x[0] - bars.error_x.arrayminus[0] == pytest.approx(pair["low"])
    assert bars.x[0] + bars.error_x.array[0] == pytest.approx(pair["high"])


def test_lines_of_ranks_go_from_the_predicted_to_the_real_place() -> None:
    drawn = {line.name: list(line.y) for line in ranks(confirmation()).data}
    assert drawn == {
        "good": [1.0, 1.0], "bad": [2.0, 4.0], "even": [3.0, 2.0], "base (baseline)": [4.0, 3.0],
    }  # fmt: skip


def test_the_runs_are_drawn_in_their_order() -> None:
    drawn = {trace.name: trace for trace in course(confirmation()).data}
    assert list(drawn["bad"].x) == [2, 6, 10]
    assert tuple(drawn["bad"].y) == TOOK["bad"]


def test_predicted_and_real_stand_side_by_side(tmp_path: Path) -> None:
    text, _ = written(confirmation(), tmp_path)
    row = text.split("<td>makespan (s)</td><td>good</td>")[1].split("</tr>")[0]
    assert ">8</td>" in row
    assert f">{mean('good'):.3g}</td>" in row


def test_what_was_not_measured_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="energy per task was not measured"):
        differences(confirmation(), "energy_per_task_j")


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    text, page = written(confirmation({"good": EVIL, "base": EVIL + "2"}, notes=[EVIL]), tmp_path)
    assert EVIL not in text
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    said = json.dumps(pictures(page))
    assert "<a" not in said
    assert "<script" not in said
