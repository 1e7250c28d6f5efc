"""Assessment of the distribution of the waits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import polars as pl

from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.criteria import Criteria, format_bound
from twinloop.fidelity.verdict import Finding, judge_figure
from twinloop.metrics.measurement_window import to_float
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import format_count

_KS_METHOD = (
    "two-sample Kolmogorov-Smirnov test on the waits (start - submission) of the completed tasks"
)
_QUANTILE_METHOD = "|twin - real| / real of this percentile of the waits"
_COLUMNS = ("wait", "real", "twin", "residual")
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def build_wait_distributions(real: ComparedRun, twin: ComparedRun) -> pl.DataFrame:
    """Build the empirical distribution functions of the waits of both runs.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> build_wait_distributions(*sides).columns
    ['wait', 'real', 'twin', 'residual']
    """
    if not (real.waits.size and twin.waits.size):
        return pl.DataFrame(schema=dict.fromkeys(_COLUMNS, pl.Float64))
    waits = np.union1d(real.waits, twin.waits)
    a, b = (np.searchsorted(s.waits, waits, side="right") / s.waits.size for s in (real, twin))
    return pl.DataFrame({"wait": waits, "real": a, "twin": b, "residual": b - a})


def assess_waits(real: ComparedRun, twin: ComparedRun, criteria: Criteria) -> Iterator[Finding]:
    """Assess the waits.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> [found.status for found in assess_waits(*sides, Criteria())]
    ['not assessable', 'not assessable', 'not assessable', 'not assessable']
    """
    series = build_wait_distributions(real, twin)
    fewest = min(real.waits.size, twin.waits.size)
    min_tasks = criteria.waits.least_tasks
    if fewest < min_tasks:
        tasks = format_count(fewest, "completed task")
        note = f"{tasks} with a known wait; needs {min_tasks} on each side"
        required = [("KS p", format_bound(True, criteria.waits.ks_p, ""), "")]
        for name in _QUANTILES:
            required.append(
                (name, format_bound(False, getattr(criteria.waits, name), "share"), "share")
            )
        for name, threshold, unit in required:
            method = _KS_METHOD if name == "KS p" else _QUANTILE_METHOD
            yield Finding(
                "wait times", name, None, threshold, "not assessable", method, note, None, unit,
                series=series,
            )  # fmt: skip
        return
    yield _assess_distribution(real.waits, twin.waits, criteria, series)
    latency = _find_latency(real)
    for name, level in _QUANTILES.items():
        yield _assess_quantile(name, level, real.waits, twin.waits, criteria, latency, series)


def smallest_detectable_distance(n: int, m: int, alpha: float) -> float:
    """Compute the critical value of D of the two-sample test: c(alpha) sqrt((n + m) / (n m)).

    With c(alpha) = sqrt(-ln(alpha / 2) / 2), which is 1.358 for alpha = 0.05.

    >>> round(smallest_detectable_distance(50, 50, 0.05), 4)
    0.2716
    """
    return math.sqrt(-math.log(alpha / 2) / 2) * math.sqrt((n + m) / (n * m))


def _assess_distribution(
    real: Floats, twin: Floats, criteria: Criteria, series: pl.DataFrame
) -> Finding:
    # Imported here because SciPy is slow to import.
    from scipy.stats import ks_2samp, wasserstein_distance

    rules = criteria.waits
    n, m = real.size, twin.size
    with warnings.catch_warnings():
        # SciPy warns if it uses the asymptotic p instead of the exact one.
        warnings.simplefilter("ignore", RuntimeWarning)
        test = ks_2samp(real, twin)
    d, p = float(test.statistic), float(test.pvalue)
    mean = float(np.abs(real).mean())
    wasserstein = float(wasserstein_distance(real, twin))
    figures = {
        "p": p,
        "D": d,
        "n_real": float(n),
        "n_twin": float(m),
        "wasserstein_s": wasserstein,
        **({"wasserstein_over_mean": wasserstein / mean} if mean else {}),
    }
    fewest = min(n, m)
    by_d = fewest > rules.ks_d_above
    notes = [f"weak: {format_count(fewest, 'task')}"] if fewest < rules.ks_weak_below else []
    notes.append(f"D {d:.3g}, n {n:,} and {m:,}")
    if rules.ks_p > 0:
        figures["smallest_detectable_D"] = smallest_detectable_distance(n, m, rules.ks_p)
        notes.append(f"smallest D detectable {figures['smallest_detectable_D']:.3g}")
    if mean:
        notes.append(f"Wasserstein / mean {wasserstein / mean:.3g}")
    if by_d:
        notes.append(f"p {p:.3g}: D decides above {rules.ks_d_above:,} tasks")
        name, figure, limit = "KS D", d, rules.ks_d
    else:
        name, figure, limit = "KS p", p, rules.ks_p
    return Finding(
        "wait times", name, figure, format_bound(not by_d, limit, ""),
        judge_figure(figure, limit, is_lower=not by_d), _KS_METHOD, "; ".join(notes), limit,
        figures=figures, series=series,
    )  # fmt: skip


def _assess_quantile(
    name: str,
    level: float,
    real: Floats,
    twin: Floats,
    criteria: Criteria,
    latency: tuple[float, str],
    series: pl.DataFrame,
) -> Finding:
    limit = float(getattr(criteria.waits, name))
    a, b = (float(np.quantile(waits, level)) for waits in (real, twin))
    error = abs(b - a)
    allowed = max(criteria.waits.latencies * latency[0], criteria.waits.absolute)
    relative = 0.0 if error == 0 else error / abs(a) if a else None
    notes = []
    status = "FAIL" if relative is None else judge_figure(relative, limit)
    if status == "FAIL":
        status = judge_figure(error, allowed)
        within = "within" if status == "PASS" else "beyond"
        notes.append(f"{error:.3g} s off, {within} {allowed:.3g} s")
        if allowed > criteria.waits.absolute:
            notes[-1] += f", {criteria.waits.latencies:g} x {latency[1]}"
    fewest = min(real.size, twin.size)
    if fewest < round(1 / (1 - level)):
        notes.append(f"weak: {format_count(fewest, 'task')}, so close to the longest wait")
    figures = {"real_s": a, "twin_s": b, "error_s": b - a, "allowed_s": allowed}
    return Finding(
        "wait times", name, relative, format_bound(False, limit, "share"), status,
        f"{_QUANTILE_METHOD}; or no more than {allowed:.3g} s off", "; ".join(notes), limit,
        "share", figures=figures, series=series,
    )  # fmt: skip


def _find_latency(real: ComparedRun) -> tuple[float, str]:
    """Return the dispatch latency (s) and its origin: the real run, or else its scenario."""
    try:
        measured = to_float(real.trace.manifest.facts["latency"]["start"]["mean_s"])
    except (KeyError, TypeError):
        measured = None
    if measured is not None:
        return measured, "the measured dispatch latency"
    try:
        modelled = to_float((real.trace.manifest.scenario or {})["model"]["dispatch_latency"])
    except (KeyError, TypeError):
        modelled = None
    # Never the latency of the twin: a twin must not relax its own criterion.
    return (0.0, "") if modelled is None else (modelled, "the dispatch latency of the real run")
