"""Page of a run: it is complete, loads nothing, and escapes all names."""

import json
import re
from html import unescape
from pathlib import Path

import polars as pl
import pytest

from tests.report.page_reader import EVIL, PageReader, check_loads_nothing, decompress, read_figures
from tests.report.sample_runs import draw_tasks, run_fcfs, sum_core_seconds
from twinloop.description import Cleaning, InputError, SourceFile
from twinloop.platform import Platform
from twinloop.report import write_run_page
from twinloop.trace import Manifest, Trace, TraceOrigin


def write_page(trace: Trace, folder: Path, **options: str) -> tuple[str, PageReader]:
    text = write_run_page(trace, folder / "run.html", **options).read_text(encoding="utf-8")
    return text, PageReader(text)


def add_power(trace: Trace) -> Trace:
    return trace.replace(power=pl.DataFrame({"t": [60.0, 120.0], "dt": 60.0, "watts": 90.0}))


def test_the_page_has_all_charts_and_key_figures(tmp_path: Path) -> None:
    trace = add_power(run_fcfs(draw_tasks(100)))
    _, page = write_page(trace, tmp_path)
    assert list(read_figures(page)) == ["gantt", "queue", "utilisation", "heat", "power", "waits"]
    drawn = {attrs["id"] for _, attrs in page.tags if attrs.get("class") == "picture"}
    assert drawn == set(read_figures(page))
    ends, submits = trace.placements["end"], trace.tasks["submit"]
    share = sum_core_seconds(trace) / (8 * (ends.max() - submits.min()))  # type: ignore[operator]
    assert f"{100 * share:.3g} %" in page.text
    for name in ("makespan", "wait, mean", "wait, 95th percentile", "bounded slowdown, mean"):
        assert name in page.text


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    text, page = write_page(add_power(run_fcfs(draw_tasks(20))), tmp_path)
    check_loads_nothing(text, page)


def test_plotly_is_included_once_and_completely(tmp_path: Path) -> None:
    from plotly.offline import get_plotlyjs

    _, page = write_page(run_fcfs(draw_tasks(20)), tmp_path)
    assert [attrs.get("id") for tag, attrs in page.tags if tag == "script"] == [
        "plotly", "pictures", None,
    ]  # fmt: skip
    assert decompress(page, "plotly") == get_plotlyjs()


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    trace = add_power(run_fcfs(draw_tasks(30)))
    evil = pl.lit(EVIL)
    trace = trace.replace(
        tasks=trace.tasks.with_columns(id=pl.lit(EVIL) + pl.col("id"), user=evil, queue=evil),
        placements=trace.placements.with_columns(
            task=pl.lit(EVIL) + pl.col("task"), machine=evil, reason=evil
        ),
        nodes=trace.nodes.with_columns(node=pl.lit(EVIL) + pl.col("node")),
        manifest=Manifest(
            source=TraceOrigin(
                format=EVIL, files=(SourceFile(name=EVIL, size=1, sha256="0" * 64),)
            ),
            cleaned=(Cleaning(kind="skipped", what=EVIL, count=1, examples=(EVIL,)),),
            facts={"run": {"policy": EVIL}},
        ),
    )  # fmt: skip
    text, page = write_page(trace, tmp_path)
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    assert all(attrs.get("class") == "term" for tag, attrs in page.tags if tag == "a")
    assert EVIL not in text
    # Plotly supports some HTML in its texts, such as links.
    figures = json.dumps(read_figures(page))
    assert "<a" not in figures
    assert "<script" not in figures
    assert page.text.count("<script>alert") >= 3


def test_data_cleaning_is_on_the_page(tmp_path: Path) -> None:
    notes = (
        Cleaning(kind="skipped", what="lines with too few fields", count=1234, examples=("a:7",)),
        Cleaning(kind="invented", what="ends of tasks", count=2),
    )
    _, page = write_page(run_fcfs([(0.0, 5.0, 1)], manifest=Manifest(cleaned=notes)), tmp_path)
    for text in ("skipped", "1,234", "lines with too few fields", "a:7", "invented"):
        assert text in page.text


def test_records_that_could_not_be_run_are_counted_on_the_page(tmp_path: Path) -> None:
    manifest = Manifest(kind="simulated", facts={"run": {"skipped": 1555}})
    _, page = write_page(run_fcfs([(0.0, 5.0, 1)], manifest=manifest), tmp_path)
    assert "1,555 records skipped because they cannot be run" in page.text


def test_omitted_figures_of_a_trace_are_listed(tmp_path: Path) -> None:
    _, page = write_page(Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]})), tmp_path)
    assert read_figures(page) == {}
    _, rest = page.text.split("Omitted figures")
    for text in ("no execution has a start", "no queue", "no power", "no waits"):
        assert text in rest


def test_every_note_has_a_heading_and_a_complete_page_lists_nothing_as_missing(
    tmp_path: Path,
) -> None:
    text, _ = write_page(run_fcfs([(0.0, 5.0, 1)]), tmp_path)
    body = text[text.index("</noscript>") : text.index("<!-- plotly.js")]
    outside = re.sub(r"<section>.*?</section>", "", body, flags=re.DOTALL)
    assert re.findall(r"<p class=\"note\"[^>]*>[^<]+", outside) == []
    assert "no power" in text
    assert "Omitted figures" not in write_page(add_power(run_fcfs([(0.0, 5.0, 1)])), tmp_path)[0]


@pytest.mark.parametrize("name", ["n", "C01-H01-00", "<b>" * 30], ids=["short", "usual", "long"])
@pytest.mark.parametrize("tasks", [50, 5001])
def test_figures_have_the_same_left_margin_and_names_fit_it(
    tmp_path: Path, name: str, tasks: int
) -> None:
    trace = run_fcfs(draw_tasks(tasks))
    called = {node: name + node for node in trace.nodes["node"]}
    trace = trace.replace(
        nodes=trace.nodes.with_columns(pl.col("node").replace(called)),
        placements=trace.placements.with_columns(pl.col("machine").replace(called)),
    )
    found = read_figures(write_page(trace, tmp_path)[1])
    (left,) = {picture["layout"]["margin"]["l"] for picture in found.values()}
    bars, axis = found["gantt"]["data"][0], found["gantt"]["layout"]["yaxis"]
    names = [unescape(each) for each in axis.get("ticktext") or bars["y"]]
    assert len(names) == 2
    # A letter of 13 pixels is about 7 wide; a name of 90 letters would leave no space.
    assert 7 * max(map(len, names)) < left < 250


def test_the_cost_is_on_the_page(tmp_path: Path) -> None:
    prices = {"core_hour": 3.6, "kwh": 0.0, "currency": "CHF"}
    manifest = Manifest(kind="simulated", scenario={"prices": prices})
    # Two cores for 500 s at a thousandth of a franc a second.
    _, page = write_page(run_fcfs([(0.0, 500.0, 2)], manifest=manifest), tmp_path)
    assert "1 CHF" in page.text
    _, page = write_page(run_fcfs([(0.0, 500.0, 2)]), tmp_path)
    assert "cost" not in page.text


def test_figures_over_time_have_the_same_time_axis(tmp_path: Path) -> None:
    _, page = write_page(add_power(run_fcfs(draw_tasks(100))), tmp_path)
    over_time = [p for name, p in read_figures(page).items() if name != "waits"]
    assert len({tuple(p["layout"]["xaxis"]["range"]) for p in over_time}) == 1
    assert len({p["layout"]["xaxis"]["title"]["text"] for p in over_time}) == 1


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = run_fcfs(draw_tasks(50))
    one, two = (write_run_page(trace, tmp_path / f"{name}.html").read_bytes() for name in "ab")
    assert one == two


def test_the_title_is_given_or_describes_the_run(tmp_path: Path) -> None:
    trace = run_fcfs(
        [(0.0, 5.0, 1)], manifest=Manifest(kind="simulated", facts={"run": {"policy": "easy"}})
    )
    assert "<h1>Simulated run · easy</h1>" in write_page(trace, tmp_path)[0]
    scenario = {
        "name": "hot summer",
        "workload": {"path": "logs/kth.swf"},
        "platform": Platform.parse("100x1").to_dict(complete=True),
    }
    run = {"run": {"policy": "easy"}}
    named = Manifest(kind="simulated", scenario=scenario, facts=run)
    title = "<h1>Simulated run · hot summer · kth.swf · easy on 100x1</h1>"
    assert title in write_page(run_fcfs([(0.0, 5.0, 1)], manifest=named), tmp_path)[0]
    hosts = [{"cores": 8, "count": 3}, {"cores": 4}]
    made = {
        "workload": {"path": None, "generate": {"name": "lublin"}},
        "platform": Platform(clusters=[{"hosts": hosts}]).to_dict(complete=True),
    }
    named = Manifest(kind="simulated", scenario=made, facts=run)
    title = "<h1>Simulated run · lublin · easy on 4 nodes with 28 cores</h1>"
    assert title in write_page(run_fcfs([(0.0, 5.0, 1)], manifest=named), tmp_path)[0]
    foreign = Manifest(kind="simulated", scenario={"workload": 3, "platform": 4})
    title = "<h1>Simulated run</h1>"
    assert title in write_page(run_fcfs([(0.0, 5.0, 1)], manifest=foreign), tmp_path)[0]
    assert "<h1>Mine &amp; yours</h1>" in write_page(trace, tmp_path, title="Mine & yours")[0]


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.html").mkdir()
    with pytest.raises(InputError, match="is a folder, so it is not replaced"):
        write_run_page(run_fcfs([(0.0, 5.0, 1)]), tmp_path / "run.html")
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"]


@pytest.mark.long
@pytest.mark.realdata
def test_two_hundred_thousand_jobs_make_a_page_below_three_megabytes(
    real_data: Path, tmp_path: Path
) -> None:
    import twinloop as tl

    trace = tl.read(real_data / "swf" / "HPC2N-2002-2.2-cln.swf.gz")
    assert write_run_page(trace, tmp_path / "run.html").stat().st_size < 3_000_000
