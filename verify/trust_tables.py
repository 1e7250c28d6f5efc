"""Tables of the verification of predictions, printed and written into its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from replay_page import blocks, fill_page, table
from trust_runs import BAGS, LEVELS, REPETITIONS, TRUTH, TrustKey

from twinloop.description.files import write_atomically
from twinloop.fidelity.verdict import Finding, Verdict
from twinloop.fidelity.verdict_text import format_figure

if TYPE_CHECKING:
    from trust import PredictedMakespan, TrustStudy

KINDS = ("cpu", "cache")


def runs(study: TrustStudy) -> str:
    """Makespans, their ranges, and the other load of the machine."""
    heads = ["bag", "per core", *(f"makespan {each} [s]" for each in REPETITIONS)]
    heads += ["spread", "other processes", "steal time"]
    rows = []
    for bag in BAGS:
        for level in LEVELS:
            found = study.makespans(bag, level)
            keys = [str(TrustKey(bag, level, each)) for each in REPETITIONS]
            noted = [study.notes[key] for key in keys if key in study.notes]
            rows.append(
                [
                    bag,
                    str(level),
                    *(f"{each:.2f}" for each in found),
                    _share(study.spread(bag, level)),
                ]
                + [
                    _share(max(note[what] for note in noted)) if noted else "-"
                    for what in ("foreign", "stolen")
                ]
            )
    return table(heads, rows)


def inflations(study: TrustStudy) -> str:
    """CPU time per declared second of work, by number of neighbours."""
    heads = ["bag", "kind", *(f"{level} per core" for level in LEVELS), "growth, 4 over 2"]
    rows = []
    for bag, kinds in BAGS.items():
        for kind in kinds:
            found = [study.inflation(bag, level, kind) for level in LEVELS]
            one, two, four = (float(np.mean(each)) for each in found)
            grows = f"{(four - one) / (two - one):.1f}" if two - one > 0.02 else "-"
            cells = [" ".join(f"{each:.3f}" for each in three) for three in found]
            rows.append([bag, kind, *cells, grows])
    return table(heads, rows)


def values(study: TrustStudy) -> str:
    """Fitted values, their acceptable ranges and identifiability."""
    fit = study.fit
    known = {} if fit.identifiability is None else _by_name(fit.identifiability.table.to_dicts())
    rows = []
    for name, value in fit.values.items():
        found = known.get(name, {})
        span = [found.get("low"), found.get("high")]
        between = "-" if None in span else " to ".join(f"{each:.4g}" for each in span)
        sure = {True: "yes", False: "no", None: "-"}[found.get("identifiable")]
        true = [] if study.notes else [f"{TRUTH[name]:.4g}"]
        rows.append([f"`{name}`", *true, f"{value:.4g}", between, sure])
    true = [] if study.notes else ["true"]
    return table(["value", *true, "fitted", "acceptable", "identifiable"], rows)


def products(study: TrustStudy) -> str:
    """Inflation by one neighbour: the identifiable products."""
    true = [] if study.notes else ["true"]
    heads = ["kind", "kind of the neighbour", *true, "work inflation", "90 % interval"]
    rows = []
    for own in KINDS:
        for other in KINDS:
            names = [f"contention.kinds.{own}.sensitivity", f"contention.kinds.{other}.pressure"]
            best = float(np.prod([study.fit.values[name] for name in names]))
            span = "-"
            if study.fit.draws is not None:
                drawn = study.fit.draws[names[0]] * study.fit.draws[names[1]]
                low, high = np.quantile(drawn.to_numpy(), [0.05, 0.95])
                span = f"{_share(low)} to {_share(high)}"
            known = [] if study.notes else [_share(float(np.prod([TRUTH[n] for n in names])))]
            rows.append([own, other, *known, _share(best), span])
    return table(heads, rows)


def criteria(verdicts: Mapping[TrustKey, Verdict]) -> str:
    """Every criterion on every held-out run: figure, noise floor, status."""
    first = next(iter(verdicts.values()))
    heads = ["criterion", "threshold", *(f"{key.bag}, {key.level} per core" for key in verdicts)]
    rows = []
    for place, one in enumerate(first.findings):
        each = [verdict.findings[place] for verdict in verdicts.values()]
        same = len({found.threshold for found in each}) == 1
        limits = ["" if same else f", <= {found.bound:.3g} {found.unit}" for found in each]
        cells = [_cell(found, limit) for found, limit in zip(each, limits, strict=True)]
        rows.append([f"{one.metric}: {one.name}", one.threshold if same else "by run", *cells])
    overall = [f"**{verdict.status}**" for verdict in verdicts.values()]
    return table(heads, [*rows, ["all", "", *overall]])


def predictions(study: TrustStudy) -> str:
    """The makespans of the held-out level, with contention and without."""
    heads = ["bag", "measured [s]", "predicted [s]", "90 % interval", "error"]
    heads += ["error, each run", "error without contention", "error, fitted to level one"]
    rows = []
    for bag in BAGS:
        found, *others = (
            study.predict_makespan(fit, bag) for fit in (study.fit, study.without, study.alone)
        )
        rows.append(
            [bag, " ".join(f"{each:.2f}" for each in found.real), f"{found.twin:.2f}"]
            + [_between(found), _signed(found.error), " ".join(map(_signed, found.errors))]
            + [_signed(other.error) for other in others]
        )
    return table(heads, rows)


TABLES: Mapping[str, Callable[[TrustStudy], str]] = {
    "table runs": runs,
    "table inflations": inflations,
    "table values": values,
    "table products": products,
    "table criteria": lambda study: criteria(study.verdicts),
    "table predictions": predictions,
    "table level four": lambda study: criteria(study.held_out_verdicts),
}


def report(study: TrustStudy, page: Path | None = None) -> int:
    """Print all tables; return 1 if a requirement is not met."""
    made = {name: draw(study) for name, draw in TABLES.items()}
    print(f"{next(iter(study.verdicts.values())).provenance}\n")
    for name, text in made.items():
        print(f"{name.removeprefix('table ')}\n\n{text}")
    print(study.fit)
    for key, verdict in (study.verdicts | study.held_out_verdicts).items():
        for found in verdict.findings:
            if found.status == "FAIL" or (found.note and found.metric == "cpu usage"):
                print(f"{key}: {found}")
    if page is not None:
        frame = page.read_text(encoding="utf-8")
        fresh = fill_page(frame, {name: made[name] for name in blocks(frame)})
        with write_atomically(page) as stream:
            stream.write(fresh.encode())
    failed = list(study.failures())
    unsteady = list(study.unsteady())
    rest = "all other requirements met" if unsteady else "all requirements met"
    print("\n" + "\n".join([*unsteady, *(["requirements NOT met", *failed] if failed else [rest])]))
    return 1 if failed else 0


def _cell(found: Finding, limit: str) -> str:
    if found.status == "not assessable":
        return found.status
    return f"{found.figure_text} ({format_figure(found.floor, found.unit)}){limit} {found.status}"


def _between(found: PredictedMakespan) -> str:
    return "-" if found.low is None else f"{found.low:.2f} to {found.high:.2f}"


def _by_name(rows: list[dict[str, object]]) -> dict[object, dict[str, object]]:
    return {row["parameter"]: row for row in rows}


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"
