"""Every page in a real browser: its content agrees with Python, in any theme and width."""

from __future__ import annotations

import csv
import io
import math
import re
import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser import sample_results
from tests.browser.browser_window import BrowserWindow, read_figures
from twinloop.metrics.trace_figures import figures
from twinloop.report.key_figures import list_key_figures
from twinloop.report.pages.loop import CHAPTERS

At = Callable[[str], BrowserWindow]
Looks = Callable[..., BrowserWindow]
PageOf = Callable[[str], Path]

KINDS = [name for name in sample_results.PAGES if name != "large"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_from_disk_with_its_heading_first(at: At, kind: str) -> None:
    shown = at(kind)
    assert shown.page.locator("h1").count() == 1
    assert shown.pictures
    # Every figure has a size and a label.
    sizes = shown.evaluate(
        "[...document.querySelectorAll('.picture')].map((p) => "
        "[p.clientWidth, p.clientHeight, p.getAttribute('aria-label')])"
    )
    assert all(width > 300 and height > 100 and label for width, height, label in sizes)
    shown.take_screenshot(kind)


def test_the_key_figures_of_a_run_are_those_of_python(at: At) -> None:
    shown = at("run").cards()
    expected = dict(list_key_figures(figures(sample_results.make_run())))
    assert {name: shown.get(name) for name in expected} == expected
    assert shown["tasks"] == "120"


def test_the_verdict_comes_first_and_the_criteria_are_those_of_python(at: At) -> None:
    verdict = sample_results.make_verdict()
    shown = at("assessment")
    big = shown.page.locator(".big").first
    assert big.inner_text() == verdict.status
    assert big.bounding_box()["y"] < shown.page.locator(".picture").first.bounding_box()["y"]
    text = shown.text
    assert verdict.provenance in text
    for found in verdict.findings:
        row = shown.page.locator("tr", has=shown.page.get_by_text(found.name, exact=True)).first
        cells = row.locator("td").all_inner_texts()
        assert {found.metric, found.status, found.threshold, found.figure_text} <= set(cells)


def test_the_fitted_values_are_those_of_python(at: At) -> None:
    shown = at("calibration")
    for name, value in sample_results.make_fit().values.items():
        row = shown.page.locator("tr", has=shown.page.get_by_text(name, exact=True)).first
        after = row.locator("td").all_inner_texts()[2]
        assert float(after) == pytest.approx(value, rel=0.01)


def test_a_bar_of_the_gantt_names_its_task(at: At) -> None:
    shown = at("run")
    number, point = shown.evaluate(
        """() => {
          // The longest bar of all is easy to hit.
          let best = [0, 0, 0];
          document.getElementById("gantt")._fullData.forEach((trace, number) => {
            if (trace.base !== undefined) [...trace.x].forEach((length, point) => {
              if (length > best[2]) best = [number, point, length];
            });
          });
          return best.slice(0, 2);
        }"""
    )
    label = shown.hover("gantt", number, point)
    (task,) = set(re.findall(r"t\d{5}", label))
    row = sample_results.make_run().tasks.filter(id=task).row(0, named=True)
    assert row["user"] in label


def test_the_recommendation_of_a_study_comes_first(at: At) -> None:
    shown, study = at("study"), sample_results.make_study()
    best = study.top(1)[0]
    first = shown.text[: shown.text.index(shown.page.locator("h2").first.inner_text())]
    assert best.name in first
    assert shown.cards()["configurations"] == str(study.configurations.height)
    rows = shown.page.locator("table").first.locator("tbody tr")
    names = [rows.nth(row).inner_text() for row in range(3)]
    for row, place in zip(names, study.top(3), strict=True):
        assert place.name in row


def test_a_point_of_the_pareto_scatter_names_its_configuration(at: At) -> None:
    shown, study = at("study"), sample_results.make_study()
    trace, point, makespan = shown.evaluate(
        """() => {
          // The point that is furthest from all others cannot be mistaken for one of them.
          const { _fullData, _fullLayout: { xaxis, yaxis } } = document.getElementById("pareto");
          const points = _fullData.flatMap((trace, at) => !(trace.mode || "").includes("markers")
            ? [] : Array.from(trace.x, (x, n) => [at, n, x, xaxis.d2p(x), yaxis.d2p(trace.y[n])]));
          const apart = (p) => Math.min(...points.map((q) => {
            const far = Math.hypot(p[3] - q[3], p[4] - q[4]);
            return far === 0 ? Infinity : far;
          }));
          return points.sort((p, q) => apart(q) - apart(p))[0].slice(0, 3);
        }"""
    )
    label = shown.hover("pareto", trace, point)
    shown.take_screenshot("study-hover", full=False)
    table = study.configurations
    meant = table.filter((table["makespan_s"] - makespan).abs() < 1e-6 * makespan)["name"]
    assert any(name in label for name in meant)


def test_the_verdict_of_a_confirmation_comes_first(at: At) -> None:
    shown, found = at("confirmation"), sample_results.make_confirmation()
    big = shown.page.locator(".big").first
    assert big.inner_text() == found.status
    for each in found.recommendations:
        assert each.sentence.removesuffix(".") in shown.text


def test_the_recommendation_of_a_loop_comes_first(at: At) -> None:
    shown, loop = at("loop"), sample_results.SampleLoop()
    text = shown.text
    places = [text.index(line) for line in loop.lines]
    assert places == sorted(places)
    assert places[-1] < text.index(CHAPTERS["measured"])
    for said in (*loop.notes, loop.before.status, loop.after.status):
        assert said in text
    # The links of the contents lead to their chapters.
    for link in shown.page.locator("nav a").all():
        target = link.get_attribute("href") or ""
        assert shown.page.locator(target).inner_text() == link.inner_text()


@pytest.mark.parametrize("kind", KINDS)
def test_dark_is_dark_and_the_pictures_with_it(at: At, kind: str) -> None:
    shown = at(kind)

    def ink_and_paper() -> tuple[float, float]:
        letters, back = shown.evaluate(
            "[getComputedStyle(document.querySelector('.picture .xtick text, .picture text')).fill,"
            " getComputedStyle(document.body).backgroundColor]"
        )
        return compute_brightness(letters), compute_brightness(back)

    ink, paper = ink_and_paper()
    assert ink < 0.4 < 0.9 < paper
    shown.page.emulate_media(color_scheme="dark")
    shown.wait_until(
        "getComputedStyle(document.querySelector('.picture text')).fill.match(/\\d+/)[0] > 150"
    )
    ink, paper = ink_and_paper()
    assert paper < 0.2 < 0.6 < ink
    shown.take_screenshot(f"{kind}-dark")
    shown.page.emulate_media(color_scheme="light")
    shown.wait_until(
        "getComputedStyle(document.querySelector('.picture text')).fill.match(/\\d+/)[0] < 100"
    )


def compute_brightness(colour: str) -> float:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_wider_than_a_phone(look: Looks, page_of: PageOf, kind: str) -> None:
    shown = look(page_of(kind), width=390, height=844)
    shown.take_screenshot(f"{kind}-phone")
    wide, window = shown.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window == 390
    # A table may be wider than the screen, in a box of its own.
    outside = shown.evaluate(
        "[...document.querySelectorAll('main *')].filter((e) => !e.closest('.wide, pre, .picture')"
        " && e.getBoundingClientRect().right > window.innerWidth + 1).map((e) => e.outerHTML)"
    )
    assert outside == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_prints(at: At, kind: str) -> None:
    shown = at(kind)
    shown.page.emulate_media(color_scheme="dark")
    printed = shown.page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 1
    shown.page.emulate_media(media="print")
    back = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert compute_brightness(back) > 0.9  # ink is dear, whatever the screen
    assert all(
        shown.page.locator(f"#{name} .main-svg").first.is_visible() for name in shown.pictures
    )
    assert not shown.page.locator("[data-save]").first.is_visible()
    shown.page.emulate_media(media="screen")


@pytest.mark.parametrize("kind", KINDS)
def test_every_picture_is_saved_as_png_svg_and_csv(at: At, kind: str) -> None:
    shown = at(kind)
    for picture in shown.pictures:
        name, table = shown.save_figure(picture, "csv")
        assert name.endswith(".csv")
        header, *rows = csv.reader(io.StringIO(table.decode()))
        assert len(set(header)) == len(header) >= 2
        assert rows
        assert all(len(row) == len(header) for row in rows)
    picture = shown.pictures[0]
    name, png = shown.save_figure(picture, "png")
    assert name.endswith(".png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 600
    assert height >= 200
    name, svg = shown.save_figure(picture, "svg")
    assert name.endswith(".svg")
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_saved_table_has_the_numbers_of_the_picture(at: At, page_of: PageOf) -> None:
    shown = at("run")
    _, table = shown.save_figure("queue", "csv")
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    numbers = sorted(float(v) for row in rows for v in row.values() if v and is_number(v))
    drawn = shown.evaluate(
        "document.getElementById('queue')._fullData.flatMap((t) => [...t.x, ...t.y].map(Number))"
    )
    assert numbers == pytest.approx(sorted(v for v in drawn if math.isfinite(v)))
    assert set(read_figures(page_of("run"))) == set(shown.pictures)


def test_the_saved_tables_of_a_cloud_have_its_core_seconds_energy_and_bytes(at: At) -> None:
    shown, trace = at("cloud"), sample_results.make_cloud_run()
    expected = figures(trace)
    assert expected.rentals is not None

    def read(picture: str) -> list[dict[str, str]]:
        _, table = shown.save_figure(picture, "csv")
        return list(csv.DictReader(io.StringIO(table.decode())))

    def find_step(times: list[float]) -> float:
        return (max(times) - min(times)) / (len(set(times)) - 1)

    minute = 60.0
    lanes = read("instances")
    assert {row["series"] for row in lanes} == {"initial-transfer", "startup", "running"}
    assert {row["host"] for row in lanes} == set(trace.nodes["node"])
    step = minute * find_step([float(row["minutes since the start"]) for row in lanes])
    core_seconds = step * sum(float(row["cores, mean"]) for row in lanes)
    assert core_seconds == pytest.approx(expected.rentals.core_seconds, rel=1e-4)

    parts = read("power_states")
    energy = 0.0
    for name in {row["series"] for row in parts}:
        x, y = zip(*(
            (float(row["minutes since the start"]), float(row["power (W)"]))
            for row in parts if row["series"] == name
        ), strict=True)  # fmt: skip
        energy += sum(minute * (b - a) * watts for a, b, watts in zip(x, x[1:], y, strict=False))
    assert energy == pytest.approx(expected.energy, rel=1e-6)

    rates = [row for row in read("transfers") if row["port or link"] == "out of images (1 GB/s)"]
    step = minute * find_step([float(row["minutes since the start"]) for row in rates])
    moved = step * sum(float(row["mean rate (bytes/s)"]) for row in rates)
    assert moved == pytest.approx(trace.transfers["bytes"].sum(), rel=1e-4)


def is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", text))


def test_five_thousand_tasks_stay_smooth(at: At) -> None:
    shown = at("large")
    shown.take_screenshot("large", full=False)
    before = shown.evaluate("document.getElementById('gantt')._fullLayout.xaxis.range.map(Number)")
    shown.page.locator("#gantt").scroll_into_view_if_needed()
    box: Any = shown.page.locator("#gantt .nsewdrag").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    shown.page.mouse.move(box["x"] + 0.25 * box["width"], middle)
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + 0.5 * box["width"], middle, steps=4)
    shown.page.mouse.up()
    shown.wait_until(
        "(was) => document.getElementById('gantt')._fullLayout.xaxis.range[1] < was", before[1]
    )
    after = shown.evaluate("document.getElementById('gantt')._fullLayout.xaxis.range.map(Number)")
    length = before[1] - before[0]
    assert after[0] == pytest.approx(before[0] + 0.25 * length, abs=0.02 * length)
    assert after[1] == pytest.approx(before[0] + 0.5 * length, abs=0.02 * length)
    # The other pictures over time follow.
    shown.wait_until(
        "(to) => Math.abs(document.getElementById('queue')._fullLayout.xaxis.range[1] - to) < 1e-6",
        after[1],
    )
    shown.take_screenshot("large-zoomed", full=False)


def test_the_window_reports_errors_and_requests(look: Looks, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<img src='http://127.0.0.1:9/x.png'>"
        "<script>console.error('one'); throw Error('two')</script>"
    )
    shown = look(page)
    for each in ("asked for http://127.0.0.1:9/x.png", "console error: one", "two", "Failed to"):
        assert shown.has_error(each)
    shown.errors.clear()


def test_details_open_with_the_keyboard(at: At) -> None:
    shown = at("assessment")
    details = shown.page.locator("details").first
    summary = details.locator("summary")
    assert details.get_attribute("open") is None
    summary.focus()
    shown.page.keyboard.press("Enter")
    assert details.get_attribute("open") is not None
    inside = details.locator("li, pre, table").first
    assert inside.is_visible()
    shown.page.keyboard.press("Enter")
    assert details.get_attribute("open") is None


def test_the_keyboard_reaches_the_buttons_that_save(at: At) -> None:
    shown = at("run")
    button = shown.page.locator('[data-save="csv"]').first
    button.focus()
    assert button.evaluate("(b) => b === document.activeElement")
    with shown.page.expect_download() as coming:
        shown.page.keyboard.press("Enter")
    assert coming.value.suggested_filename.endswith(".csv")
