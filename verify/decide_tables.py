"""Tables of the verification of rankings, printed and written into its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from decide import METRICS, TWINS, WITH, DecisionStudy
from decide_runs import (
    BAGS,
    BASELINE,
    CANDIDATES,
    DISTURBED,
    KINDS,
    LEVELS,
    TRIED,
    TRUTH,
    plan,
)
from replay_page import blocks, fill_page, table

from twinloop.description.files import write_atomically


def decisions(study: DecisionStudy) -> str:
    """Choice of each twin by makespan: predicted and measured."""
    heads = ["bag", "twin", "choice", f"predicted against `{BASELINE}`", "measured"]
    heads += ["90 % interval", "slower than the best", "Kendall's tau", "pairs ranked correctly"]
    rows = []
    for bag in BAGS:
        for twin in TWINS:
            found = study.confirmations[twin, bag]
            table_ = found.table.filter(metric=METRICS[0])
            predicted, measured = (
                dict(table_["candidate", what].iter_rows()) for what in ("predicted", "real")
            )
            choice = min(predicted, key=predicted.__getitem__)
            cells = ["-", "-", "-"]
            for each in found.recommendations:
                if each.candidate == choice:
                    parts = (each.real, each.low, each.high)
                    real, low, high = (_signed(part / measured[BASELINE]) for part in parts)
                    expected = _signed(each.predicted / predicted[BASELINE])
                    cells = [expected, real, f"{low} to {high}"]
            differ = study.pairs(twin, bag)
            right = f"{differ.filter(verdict='holds').height} of {differ.height}"
            regret = _share(measured[choice] / min(measured.values()) - 1)
            tau = found.ranks.filter(metric=METRICS[0])["tau"].item()
            rows.append([bag, twin, f"`{choice}`", *cells, regret, f"{tau:+.2f}", right])
    return table(heads, rows)


def inflations(study: DecisionStudy) -> str:
    """CPU time per declared second of work in the probes, by number of neighbours."""
    heads = ["kind", "neighbours", *(f"{level} per core" for level in LEVELS)]
    rows = []
    for kind in KINDS:
        for apart in (True, False):
            found = [study.inflation(level, kind, apart=apart) for level in LEVELS]
            cells = [" ".join(f"{each:.2f}" for each in three) for three in found]
            rows.append([kind, "same kind" if apart else "all kinds", *cells])
    return table(heads, rows)


def values(study: DecisionStudy) -> str:
    """The fitted values of all twins."""
    fitted = [study.fits[twin].values for twin in TWINS]
    rows = [
        [f"`{name}`", *(f"{each[name]:.3f}" if name in each else "-" for each in fitted)]
        for name in study.fits[WITH].values
    ]
    return table(["value", *TWINS], rows)


def products(study: DecisionStudy) -> str:
    """Inflation by one neighbour on the core: products of pressures and sensitivities."""
    fit = study.fits[WITH]
    true = [] if study.notes else ["true"]
    heads = ["kind", "kind of the neighbour", *true, "work inflation", "90 % interval"]
    rows = []
    for own in KINDS:
        for other in KINDS:
            names = [f"contention.kinds.{own}.sensitivity", f"contention.kinds.{other}.pressure"]
            best = float(np.prod([fit.values[name] for name in names]))
            between = "-"
            if fit.draws is not None:
                drawn = fit.draws[names[0]] * fit.draws[names[1]]
                between = " to ".join(map(_share, np.quantile(drawn.to_numpy(), [0.05, 0.95])))
            known = [] if study.notes else [_share(TRUTH[own][2] * TRUTH[other][1])]
            rows.append([own, other, *known, _share(best), between])
    return table(heads, rows)


def makespans(study: DecisionStudy) -> str:
    """Measured and predicted figures of each candidate, with ranks."""
    heads = ["bag", "candidate", "nodes", "measured, each run [s]", "measured [s]"]
    rows = []
    for bag in BAGS:
        columns = [_format_ranks(study, twin, bag, "predicted") for twin in TWINS]
        real = _format_ranks(study, WITH, bag, "real")
        for name in TRIED[bag]:
            each = " ".join(f"{value:.2f}" for value in study.makespans(bag, name))
            cells = [column[name] for column in columns]
            rows.append([bag, name, CANDIDATES[name][0], each, real[name], *cells])
    return table([*heads, *(f"{twin} [s]" for twin in TWINS)], rows)


def _format_ranks(study: DecisionStudy, twin: str, bag: str, what: str) -> dict[str, str]:
    found = study.confirmations[twin, bag].table.filter(metric=METRICS[0])
    return {
        row["candidate"]: f"{row[what]:.2f} ({row[f'{what}_rank']:g})" for row in found.to_dicts()
    }


def rankings(study: DecisionStudy) -> str:
    """Agreement of each twin with the real ranking."""
    heads = ["bag", "metric", "twin", "Kendall's tau", "significant pairs", "ranked correctly"]
    heads += ["ranked wrongly", "ties"]
    rows = []
    for bag in BAGS:
        for metric in METRICS:
            for twin in TWINS:
                found = study.confirmations[twin, bag].ranks.filter(metric=metric).to_dicts()[0]
                differ = study.pairs(twin, bag, metric)
                right = differ.filter(verdict="holds").height
                tau = "-" if found["tau"] is None else f"{found['tau']:+.2f}"
                counts = [differ.height, right, differ.height - right]
                counts += [found["pairs"] - differ.height]
                rows.append([bag, metric, twin, tau, *map(str, counts)])
    return table(heads, rows)


def pairs(study: DecisionStudy) -> str:
    """Measured and predicted differences of makespans of every pair."""
    heads = ["bag", "pair", "measured difference [s]", "90 % interval"]
    heads += [f"{twin} [s]" for twin in TWINS]
    rows = []
    for bag in BAGS:
        # In the order of the candidates, not of the rankings.
        order = {name: place for place, name in enumerate(CANDIDATES)}
        found = [_group_by_pair(study, twin, bag, order) for twin in TWINS]
        for (one, other), pair in sorted(
            found[0].items(), key=lambda item: [order[name] for name in item[0]]
        ):
            between = f"{pair['low']:+.2f} to {pair['high']:+.2f}"
            predicted = [
                f"{each[one, other]['predicted']:+.2f} {each[one, other]['verdict']}"
                for each in found
            ]
            rows.append([bag, f"{other} - {one}", f"{pair['real']:+.2f}", between, *predicted])
    return table(heads, rows)


def _group_by_pair(
    study: DecisionStudy, twin: str, bag: str, order: Mapping[str, int]
) -> dict[tuple[str, str], dict[str, float | str]]:
    """Differences by pair of names, the simpler candidate first."""
    found = {}
    for row in study.confirmations[twin, bag].pairs.filter(metric=METRICS[0]).to_dicts():
        one, other = row["one"], row["other"]
        if order[one] > order[other]:
            found[other, one] = row
        else:
            turned = {name: -row[name] + 0.0 for name in ("predicted", "real")}
            found[one, other] = row | turned | {"low": -row["high"], "high": -row["low"]}
    return found


def diagnosis(study: DecisionStudy) -> str:
    """Model options, and the correct rankings with each changed."""
    found = study.diagnosis
    return "No significant pair was ranked wrongly.\n" if found is None else found.markdown()


def machine(study: DecisionStudy) -> str:
    """Other load of the machine during the runs."""
    heads = ["runs", "number", "other processes, median", "maximum"]
    heads += ["steal time, median", "maximum", "repeated", f"over {_share(DISTURBED)}"]
    rows = []
    for bag in ("probe", *BAGS):
        noted = [study.notes[str(key)] for key in plan() if key.bag == bag and study.notes]
        if not noted:
            continue
        cells = []
        for what in ("foreign", "stolen"):
            shares = [note[what] for note in noted]
            cells += [_share(float(np.median(shares))), _share(max(shares))]
        again = sum(note["tries"] > 1 for note in noted)
        over = sum(note["foreign"] + note["stolen"] > DISTURBED for note in noted)
        rows.append([bag, str(len(noted)), *cells, str(again), str(over)])
    return table(heads, rows)


TABLES: Mapping[str, Callable[[DecisionStudy], str]] = {
    "table decisions": decisions,
    "table machine": machine,
    "table inflations": inflations,
    "table values": values,
    "table products": products,
    "table makespans": makespans,
    "table rankings": rankings,
    "table pairs": pairs,
    "table diagnosis": diagnosis,
}


def report(study: DecisionStudy, page: Path | None = None) -> int:
    """Print all tables; return 1 if a requirement is not met."""
    made = {name: draw(study) for name, draw in TABLES.items()}
    for name, text in made.items():
        print(f"{name.removeprefix('table ')}\n\n{text}")
    if page is not None:
        frame = page.read_text(encoding="utf-8")
        fresh = fill_page(frame, {name: made[name] for name in blocks(frame)})
        with write_atomically(page) as stream:
            stream.write(fresh.encode())
    failed = list(study.failures())
    print("\n".join(["requirements NOT met", *failed]) if failed else "all requirements met")
    return 1 if failed else 0


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"
