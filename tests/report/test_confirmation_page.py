"""The page of a confirmation says which recommendations hold, and draws what was measured."""

import json
from pathlib import Path

import pytest

from tests.report.pages import EVIL, Reader, loads_nothing, pictures
from tests.report.studies import PREDICTED, TOOK, confirmation, scenario
from twinloop.description import InputError
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.report import write_confirmation_page
from twinloop.report.figures.confirmation import plot_course, plot_differences, plot_ranks
from twinloop.report.pages.confirmation import describe_recommendations

#: What two take, in s, as predicted.
WORSE = {"slow": 12.0, "base": 10.0}


def written(of: Confirmation, folder: Path) -> tuple[str, Reader]:
    text = write_confirmation_page(of, folder / "real.html").read_text(encoding="utf-8")
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
    figure = plot_differences(confirmation())
    names = list(figure.layout.yaxis.ticktext)
    found, foretold = {}, {}
    for trace in figure.data:
        if trace.name.startswith("measured"):
            for x, y in zip(trace.x, trace.y, strict=True):
                found[names[y]] = (x, trace.name.removeprefix("measured: "))
        elif trace.name == "predicted":
            foretold = {names[y]: x for x, y in zip(trace.x, trace.y, strict=True)}
    verdicts = {
        "good": "better, as predicted",
        "bad": "the other way round",
        "even": "not told apart",
    }
    for name, verdict in verdicts.items():
        assert found[name] == (pytest.approx(mean(name) - mean("base")), verdict)
        assert foretold[name] == pytest.approx(PREDICTED[name] - PREDICTED["base"])


def test_the_interval_is_drawn_to_its_ends() -> None:
    made = confirmation()
    pair = made.pairs.filter(metric="makespan_s", one="good", other="base").row(0, named=True)
    (bars,) = (trace for trace in plot_differences(made).data if "better" in trace.name)
    assert bars.x[0] - bars.error_x.arrayminus[0] == pytest.approx(pair["low"])
    assert bars.x[0] + bars.error_x.array[0] == pytest.approx(pair["high"])


def test_lines_of_ranks_go_from_the_predicted_to_the_real_place() -> None:
    drawn = {line.name: list(line.y) for line in plot_ranks(confirmation()).data}
    assert drawn == {
        "good": [1.0, 1.0], "bad": [2.0, 4.0], "even": [3.0, 2.0], "base (baseline)": [4.0, 3.0],
    }  # fmt: skip


def test_the_runs_are_drawn_in_their_order() -> None:
    drawn = {trace.name: trace for trace in plot_course(confirmation()).data}
    assert list(drawn["bad"].x) == [2, 6, 10]
    assert tuple(drawn["bad"].y) == TOOK["bad"]


def test_predicted_and_real_stand_side_by_side(tmp_path: Path) -> None:
    text, _ = written(confirmation(), tmp_path)
    row = text.split("<td>makespan (s)</td><td>good</td>")[1].split("</tr>")[0]
    assert ">8</td>" in row
    assert f">{mean('good'):.3g}</td>" in row


def test_what_was_not_measured_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="energy per task was not measured"):
        plot_differences(confirmation(), "energy_per_task_j")


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    text, page = written(confirmation({"good": EVIL, "base": EVIL + "2"}, notes=[EVIL]), tmp_path)
    assert EVIL not in text
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    said = json.dumps(pictures(page))
    assert "<a" not in said
    assert "<script" not in said


def test_what_is_worse_as_predicted_is_not_drawn_like_what_is_better() -> None:
    names = {"makespan_s": "better, as predicted", "throughput_per_s": "worse, as predicted"}
    made = {
        name: Candidate(name, scenario(), dict.fromkeys(names, value))
        for name, value in PREDICTED.items()
    }
    rows = [
        {"candidate": name, "repetition": at + 1, **dict.fromkeys(names, TOOK[name][at])}
        for at in range(3)
        for name in ("good", "base")
    ]
    found = Confirmation.of([made["good"]], made["base"], rows, list(names))
    marks = {}
    for metric, said in names.items():
        (mark,) = (t for t in plot_differences(found, metric).data if t.name == f"measured: {said}")
        marks[metric] = mark.marker.color
    assert len(set(marks.values())) == 2


def test_how_sure_the_twin_was_is_said() -> None:
    made = confirmation(probabilities={"good": 0.899})
    assert describe_recommendations(made)[0].endswith(": holds (the twin was 89.9 % sure).")


def test_of_what_was_foretold_to_be_worse_it_is_how_sure_that_was() -> None:
    slow, base = (Candidate(name, scenario(), {"makespan_s": s}) for name, s in WORSE.items())
    rows = [
        {"candidate": name, "repetition": at, "makespan_s": value + at / 100}
        for name, value in WORSE.items()
        for at in (1, 2, 3)
    ]
    found = Confirmation.of([slow], base, rows, ["makespan_s"], probabilities={"slow": 0.25})
    assert describe_recommendations(found)[0].endswith("(the twin was 75 % sure).")


def test_a_share_is_said_in_percent_everywhere(tmp_path: Path) -> None:
    made = Candidate("a", scenario(), {"utilisation": 0.5})
    base = Candidate("b", scenario(), {"utilisation": 0.25})
    rows = [
        {"candidate": name, "repetition": at, "utilisation": value + at / 1000}
        for name, value in (("a", 0.5), ("b", 0.25))
        for at in (1, 2, 3)
    ]
    found = Confirmation.of([made], base, rows, ["utilisation"])
    figure = plot_differences(found)
    assert [list(t.x) for t in figure.data if t.name == "predicted"] == [[25.0]]
    assert [t.x[0] for t in figure.data if t.name.startswith("measured")] == pytest.approx([25.0])
    assert "(%)" in figure.layout.xaxis.title.text
    assert plot_course(found).data[0].y[0] == pytest.approx(50.1)
    text, page = written(found, tmp_path)
    assert '<td>utilisation (%)</td><td>a</td><td class="number">50</td>' in text
    assert "overcommitted nodes" not in page.text
