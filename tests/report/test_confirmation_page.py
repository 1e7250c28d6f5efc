"""Page of a confirmation: verdicts on the recommendations, figures of the measurements."""

import json
from pathlib import Path

import pytest

from tests.report.page_reader import EVIL, PageReader, check_loads_nothing, read_figures
from tests.report.sample_results import PREDICTED, TOOK, make_confirmation, make_scenario
from twinloop.description import InputError
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.report import write_confirmation_page
from twinloop.report.figures.confirmation import plot_course, plot_differences, plot_ranks
from twinloop.report.pages.confirmation import describe_recommendations

#: Predicted times of two configurations (s).
WORSE = {"slow": 12.0, "base": 10.0}


def write_page(of: Confirmation, folder: Path) -> tuple[str, PageReader]:
    text = write_confirmation_page(of, folder / "real.html").read_text(encoding="utf-8")
    return text, PageReader(text)


def compute_mean(name: str) -> float:
    return sum(TOOK[name]) / 3


def test_the_verdicts_on_the_recommendations_come_first(tmp_path: Path) -> None:
    text, page = write_page(make_confirmation(), tmp_path)
    check_loads_nothing(text, page)
    assert '<span class="status pass big">holds</span>' in text
    lines = text.split('<div class="answer">')[1].split("</div>")[0].split("</p>")
    for line, name, verdict in zip(
        lines, ("good", "bad", "even"), ("holds", "reversed", "tie"), strict=False
    ):
        assert line.startswith(f"<p>{name} ")
        assert line.endswith(f": {verdict}.")
    assert text.index('class="answer"') < text.index('class="picture"')
    assert list(read_figures(page)) == ["differences", "ranks", "differences-0", "course"]
    assert "energy per task was not measured" in page.text


def test_differences_are_paired_and_the_prediction_is_marked() -> None:
    figure = plot_differences(make_confirmation())
    names = list(figure.layout.yaxis.ticktext)
    found, predicted = {}, {}
    for trace in figure.data:
        if trace.name.startswith("measured"):
            for x, y in zip(trace.x, trace.y, strict=True):
                found[names[y]] = (x, trace.name.removeprefix("measured: "))
        elif trace.name == "predicted":
            predicted = {names[y]: x for x, y in zip(trace.x, trace.y, strict=True)}
    verdicts = {
        "good": "better, as predicted",
        "bad": "opposite to the prediction",
        "even": "no significant difference",
    }
    for name, verdict in verdicts.items():
        assert found[name] == (pytest.approx(compute_mean(name) - compute_mean("base")), verdict)
        assert predicted[name] == pytest.approx(PREDICTED[name] - PREDICTED["base"])


def test_the_interval_is_drawn_to_its_ends() -> None:
    made = make_confirmation()
    pair = made.pairs.filter(metric="makespan_s", one="good", other="base").row(0, named=True)
    (bars,) = (trace for trace in plot_differences(made).data if "better" in trace.name)
    assert bars.x[0] - bars.error_x.arrayminus[0] == pytest.approx(pair["low"])
    assert bars.x[0] + bars.error_x.array[0] == pytest.approx(pair["high"])


def test_lines_of_ranks_go_from_the_predicted_to_the_measured_rank() -> None:
    drawn = {line.name: list(line.y) for line in plot_ranks(make_confirmation()).data}
    assert drawn == {
        "good": [1.0, 1.0], "bad": [2.0, 4.0], "even": [3.0, 2.0], "base (baseline)": [4.0, 3.0],
    }  # fmt: skip


def test_the_runs_are_drawn_in_their_order() -> None:
    drawn = {trace.name: trace for trace in plot_course(make_confirmation()).data}
    assert list(drawn["bad"].x) == [2, 6, 10]
    assert tuple(drawn["bad"].y) == TOOK["bad"]


def test_predicted_and_measured_results_are_in_one_table(tmp_path: Path) -> None:
    text, _ = write_page(make_confirmation(), tmp_path)
    row = text.split("<td>makespan (s)</td><td>good</td>")[1].split("</tr>")[0]
    assert ">8</td>" in row
    assert f">{compute_mean('good'):.3g}</td>" in row


def test_a_metric_without_measurements_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="energy per task was not measured"):
        plot_differences(make_confirmation(), "energy_per_task_j")


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    text, page = write_page(
        make_confirmation({"good": EVIL, "base": EVIL + "2"}, notes=[EVIL]), tmp_path
    )
    assert EVIL not in text
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    figures = json.dumps(read_figures(page))
    assert "<a" not in figures
    assert "<script" not in figures


def test_predicted_improvements_and_deteriorations_have_different_colours() -> None:
    names = {"makespan_s": "better, as predicted", "throughput_per_s": "worse, as predicted"}
    made = {
        name: Candidate(name, make_scenario(), dict.fromkeys(names, value))
        for name, value in PREDICTED.items()
    }
    rows = [
        {"candidate": name, "repetition": at + 1, **dict.fromkeys(names, TOOK[name][at])}
        for at in range(3)
        for name in ("good", "base")
    ]
    found = Confirmation.of([made["good"]], made["base"], rows, list(names))
    marks = {}
    for metric, label in names.items():
        (mark,) = (
            t for t in plot_differences(found, metric).data if t.name == f"measured: {label}"
        )
        marks[metric] = mark.marker.color
    assert len(set(marks.values())) == 2


def test_the_predicted_probability_is_reported() -> None:
    made = make_confirmation(probabilities={"good": 0.899})
    assert describe_recommendations(made)[0].endswith(": holds (predicted probability 89.9 %).")


def test_a_predicted_deterioration_has_its_own_probability() -> None:
    slow, base = (Candidate(name, make_scenario(), {"makespan_s": s}) for name, s in WORSE.items())
    rows = [
        {"candidate": name, "repetition": at, "makespan_s": value + at / 100}
        for name, value in WORSE.items()
        for at in (1, 2, 3)
    ]
    found = Confirmation.of([slow], base, rows, ["makespan_s"], probabilities={"slow": 0.25})
    assert describe_recommendations(found)[0].endswith("(predicted probability 75 %).")


def test_a_share_is_in_percent_everywhere(tmp_path: Path) -> None:
    made = Candidate("a", make_scenario(), {"utilisation": 0.5})
    base = Candidate("b", make_scenario(), {"utilisation": 0.25})
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
    text, page = write_page(found, tmp_path)
    assert '<td>utilisation (%)</td><td>a</td><td class="number">50</td>' in text
    assert "overcommitted nodes" not in page.text
