"""The page of the replay with feedback: simulated and published figures.

`docs/replay-with-feedback.md` is the template. It has the text, and the figures of the last run
between marks such as `<!-- table 1 -->` and `<!-- end -->`; `fill_page` replaces these figures.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import polars as pl
from markdown_it import MarkdownIt
from replay_experiments import (
    EXPERIMENTS,
    PUBLISHED,
    PUBLISHED_ORDER,
    PUBLISHED_PERCENTILES,
    RECORDED,
    REPLAYS,
    ReplayRun,
    Row,
)
from replay_figures import Runs

from twinloop.description.files import write_atomically

FRAME = Path(__file__).parents[1] / "docs" / "replay-with-feedback.md"
BLOCK = re.compile(r"(<!-- (table [\w ]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
PLACE = re.compile(r"<!-- figure (\d+) -->")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def change(ours: float, published: float) -> str:
    """Return the relative difference from a published figure; none if that is zero."""
    if not published:
        return "-"
    # Adding zero makes a zero of minus zero.
    return f"{round((ours / published - 1) * 100, 1) + 0.0:+.1f} %"


def compare_cells(ours: float | None, published: float | None, form: str = ".2f") -> list[str]:
    if ours is None or published is None:
        return ["-", "-", "-"]
    return [f"{ours:{form}}", f"{published:{form}}", change(ours, published)]


def scheduling(runs: Runs, recorded: Row) -> str:
    """Table 1."""
    heads = ["", "", "makespan [d]", "published", "", "mean wait [d]", "published", ""]
    heads += ["longest wait [d]", "published", ""]
    rows = []
    for label, replay, ours, published in [
        ("Recorded log", "", recorded, RECORDED),
        *((*key, runs[key].row, PUBLISHED[key]) for key in PUBLISHED),
    ]:
        cells = compare_cells(ours.makespan, published.makespan)
        cells += compare_cells(ours.wait_mean, published.wait_mean)
        cells += compare_cells(ours.wait_max, published.wait_max)
        rows.append([label, replay, *cells])
    return table(heads, rows)


def lateness(runs: Runs) -> str:
    """Table 2."""
    heads = ["", "", "mean lateness [d]", "published", "", "relative", "published", ""]
    heads += ["additional [s]", "published", ""]
    rows = []
    for key, published in PUBLISHED.items():
        if published.lateness is not None:
            ours = runs[key].row
            cells = compare_cells(ours.lateness, published.lateness)
            cells += compare_cells(ours.relative, published.relative)
            cells += compare_cells(ours.additional, published.additional)
            rows.append([*key, *cells])
    return table(heads, rows)


def order(runs: Runs, replay: str) -> tuple[str, ...]:
    """The experiments from the earliest to the latest submissions."""
    return tuple(sorted(EXPERIMENTS, key=lambda name: runs[name, replay].row.lateness))


def ranking(runs: Runs) -> str:
    """Section 7.1."""
    rows = [["published", *PUBLISHED_ORDER]]
    rows += [[replay, *order(runs, replay)] for replay in ("a0", "a60")]
    return table(["", *map(str, range(1, len(EXPERIMENTS) + 1))], rows)


def percentiles(run: ReplayRun, least: int = 2) -> tuple[float, ...]:
    """Percentiles of the additional lateness over the users with a minimum number of jobs."""
    values = run.users.filter(pl.col("jobs") >= least)["additional"].to_numpy()
    return tuple(float(x) for x in np.percentile(values, (10, 50, 90)))


def users(runs: Runs) -> str:
    """Fig. 5(c)."""
    heads = ["", "10th [s]", "published", "50th [s]", "published", "90th [s]", "published"]
    rows = []
    for name, published in PUBLISHED_PERCENTILES.items():
        pairs = zip(percentiles(runs[name, "a60"]), published, strict=True)
        rows.append([name, *(f"{value:,.0f}" for pair in pairs for value in pair)])
    busier = percentiles(runs["perf/2", "a60"], least=3)
    cells = [cell for value in busier for cell in (f"{value:,.0f}", "")]
    return table(heads, [*rows, ["perf/2, users of 3 jobs or more", *cells]])


def windows(runs: Runs) -> str:
    """Fig. 9: the window of six months."""
    heads = ["", *(f"jobs/day, {replay}" for replay in REPLAYS)]
    heads += [f"nodes in use, {replay}" for replay in REPLAYS]
    rows = []
    for name, experiment in EXPERIMENTS.items():
        found = [runs[name, replay].window(6) for replay in REPLAYS]
        cells = [f"{throughput:.1f}" for throughput, _ in found]
        cells += [f"{busy:.1f} ({busy / experiment.nodes:.0%})" for _, busy in found]
        rows.append([name, *cells])
    return table(heads, rows)


def spread(found: Mapping[tuple[str, str], Sequence[Row]]) -> str:
    """Minimum and maximum over runs that differ by less than a second per job."""
    heads = ["", "", "makespan [d]", "published", "mean wait [d]", "published"]
    heads += ["longest wait [d]", "published", "mean lateness [d]", "published"]
    rows = []
    for key, several in found.items():
        cells = []
        for field in ("makespan", "wait_mean", "wait_max", "lateness"):
            values = [getattr(row, field) for row in several]
            published = getattr(PUBLISHED[key], field)
            if published is None:
                cells += ["-", "-"]
            else:
                cells += [f"{min(values):.2f} to {max(values):.2f}", f"{published:.2f}"]
        rows.append([*key, *cells])
    return table(heads, rows)


def variants(found: Mapping[tuple[str, str], Mapping[str, Row]]) -> str:
    """Compare EASY with its variant that has only the time condition."""
    kinds = list(next(iter(found.values())))
    heads = ["", "", *(f"makespan [d], {kind}" for kind in [*kinds, "published"])]
    heads += [f"mean wait [d], {kind}" for kind in [*kinds, "published"]]
    rows = []
    for key, by_kind in found.items():
        several = [*by_kind.values(), PUBLISHED[key]]
        cells = [f"{row.makespan:.2f}" for row in several]
        rows.append([*key, *cells, *(f"{row.wait_mean:.2f}" for row in several)])
    return table(heads, rows)


def blocks(text: str) -> dict[str, str]:
    """Return the figures of a page by their marks."""
    return {match[2]: match[3] for match in BLOCK.finditer(text)}


def fill_page(frame: str, tables: Mapping[str, str]) -> str:
    return BLOCK.sub(lambda match: f"{match[1]}\n{tables[match[2]]}\n{match[4]}", frame)


STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 0 auto; padding: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid #8886; text-align: right; }
th:first-child, td:first-child, td:nth-child(2) { text-align: left; }
figure { margin: 1rem 0; background: white; color: black; }
"""


def as_html(page: str, figures: Mapping[str, go.Figure]) -> str:
    """Build a self-contained file that needs no network."""
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(page)
    body = body.replace("<table>", '<div class="wide"><table>')
    body = body.replace("</table>", "</table></div>")
    scripts = iter([True])

    def drawn(match: re.Match[str]) -> str:
        picture = figures[match[1]].to_html(
            full_html=False, include_plotlyjs=next(scripts, False), div_id=f"figure-{match[1]}"
        )
        return f"<figure>{picture}</figure>"

    title = html.escape(page.partition("\n")[0].lstrip("# "))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style></head><body>{PLACE.sub(drawn, body)}</body></html>\n"
    )


def write(folder: Path, page: str, figures: Mapping[str, go.Figure]) -> None:
    pages = {".md": page, ".html": as_html(page, figures)}
    for suffix, text in pages.items():
        with write_atomically(folder / f"{FRAME.stem}{suffix}") as stream:
            stream.write(text.encode())
