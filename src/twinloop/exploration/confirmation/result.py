"""A Confirmation: what was predicted of configurations, held against what they really did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop import __version__
from twinloop.description.errors import InputError
from twinloop.description.file_names import join_below
from twinloop.description.files import write_atomically
from twinloop.description.json_values import to_json_values
from twinloop.description.plugins import load_component
from twinloop.description.safe_text import escape_name
from twinloop.exploration.confirmation.tables import (
    Columns,
    compute_mean,
    get_prediction,
    get_repetitions,
    make_metric_table,
    make_pair_table,
    make_rank_table,
    make_run_table,
    predict_difference,
)
from twinloop.exploration.confirmation.text import (
    confirmation_to_markdown,
    confirmation_to_text,
    describe_recommendation,
)
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.comparison import (
    DifferenceVerdict,
    PairedDifference,
    judge_difference,
)
from twinloop.exploration.ranking.objectives import Objective
from twinloop.scenario.stored_workload import read_scenario, store_workload
from twinloop.trace import Trace, read
from twinloop.trace.parquet import read_parquet

if TYPE_CHECKING:
    from twinloop.exploration.confirmation.diagnosis import Diagnosis

#: Files of the folder that a confirmation is kept in.
MANIFEST: Final = "confirmation.json"
TABLE: Final = "runs.parquet"


@dataclass(frozen=True)
class Recommendation:
    """A candidate in the place of the baseline: what was predicted, and what came of it.

    Differences are those of the candidate less the baseline, `low` and `high` the limits of 90 %.
    """

    candidate: str
    against: str
    metric: str
    predicted: float | None
    real: float | None
    low: float | None
    high: float | None
    verdict: DifferenceVerdict
    #: The probability that was foretold; None: nothing was.
    probability: float | None
    #: What it leans on that the data of the fit could not tell.
    unsupported: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, repr=False)
class Confirmation:
    """Which recommendations hold.

    `runs` has a row per run, `table` a row per metric and configuration with what was predicted
    and what was measured, `ranks` a row per metric on the whole order, `pairs` a row per metric and
    two configurations. In `ranks`, `agree` and `disagree` count the pairs that really differ, as
    far as the interval of their difference tells, and were ranked right or wrong; `ties` are the
    rest.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="1x1", workload="log.swf", policy="easy")
    >>> easy = Candidate("easy", scenario, {"makespan_s": 9.0})
    >>> fifo = Candidate("fifo", scenario.replace(policy="fifo"), {"makespan_s": 10.0})
    >>> ran = [("easy", 1, 9.3), ("fifo", 1, 10.1), ("fifo", 2, 10.3), ("easy", 2, 9.4)]
    >>> runs = [{"candidate": c, "repetition": r, "makespan_s": s} for c, r, s in ran]
    >>> found = Confirmation.of([easy], fifo, runs, ["makespan_s"])
    >>> found
    <Confirmation: easy against fifo: holds>
    >>> found.ranks["tau"].to_list()
    [1.0]
    """

    #: What was recommended, in the order of the ranking.
    candidates: tuple[Candidate, ...]
    baseline: Candidate
    #: The metrics and which way is better; the first is the one that was recommended by.
    objectives: tuple[Objective, ...]
    runs: pl.DataFrame = field(compare=False)
    table: pl.DataFrame = field(compare=False)
    ranks: pl.DataFrame = field(compare=False)
    pairs: pl.DataFrame = field(compare=False)
    recommendations: tuple[Recommendation, ...]
    seed: int = 0
    #: What whoever reads it should know: what failed, was left out, or cut.
    notes: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = field(default=None, compare=False)
    #: Where it is kept; None: nowhere.
    folder: Path | None = field(default=None, compare=False)
    #: The runs themselves by their order, as far as they are in memory.
    held: Mapping[int, Trace] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        candidates: Sequence[Candidate],
        baseline: Candidate,
        runs: Sequence[Mapping[str, Any]],
        objectives: Sequence[str | Objective],
        *,
        probabilities: Mapping[str, float | None] | None = None,
        seed: int = 0,
        notes: Sequence[str] = (),
        folder: Path | None = None,
        held: Mapping[int, Trace] | None = None,
        diagnosis: Diagnosis | None = None,
    ) -> Confirmation:
        """Judge what ran.

        Args:
            candidates: What was recommended, in the order of the ranking.
            baseline: What it is compared with.
            runs: A row per run: `candidate` (the name), `repetition`, and its metrics, which a run
                that failed does not have; also `order`, `trace`, `seconds` and `error`.
            objectives: The metrics; the first is the one that was recommended by.
            probabilities: How likely each candidate was said to be better, by its name.
            seed: Of the order of the runs.
            notes: What whoever reads it should know.
            folder: Where it is kept.
            held: The runs themselves by their order.
            diagnosis: Why a ranking was reversed.
        """
        wanted = tuple(Objective.of(each) for each in objectives)
        frame = make_run_table(runs, [each.kpi for each in wanted], baseline.name)
        measured = {each.kpi for each in wanted if frame[each.kpi].count()}
        absent = [each.kpi for each in wanted if each.kpi not in measured]
        notes = [*notes, *(f"{each} was not measured" for each in absent)]
        counted = tuple(each for each in wanted if each.kpi in measured)
        every = (*candidates, baseline)
        columns = {
            each.kpi: {one.name: get_repetitions(frame, one.name, each.kpi) for one in every}
            for each in wanted
        }
        foretold = probabilities or {}
        return cls(
            candidates=tuple(candidates),
            baseline=baseline,
            objectives=wanted[:1] + tuple(each for each in counted if each != wanted[0]),
            runs=frame.drop([each for each in absent if each != wanted[0].kpi]),
            table=make_metric_table(every, baseline, counted, columns),
            pairs=(pairs := make_pair_table(every, counted, columns)),
            ranks=make_rank_table(every, counted, columns, pairs),
            recommendations=tuple(
                _recommended(each, baseline, wanted[0], columns, foretold.get(each.name))
                for each in candidates
            ),
            seed=seed,
            notes=tuple(dict.fromkeys(notes)),
            diagnosis=diagnosis,
            folder=folder,
            held=held or {},
        )

    @property
    def by(self) -> str:
        """The metric that was recommended by."""
        return self.objectives[0].kpi

    @property
    def status(self) -> DifferenceVerdict:
        """The verdict on the first recommendation."""
        return self.recommendations[0].verdict

    @property
    def repetitions(self) -> int:
        """How many repetitions there are."""
        return int(self.runs["repetition"].n_unique())

    @property
    def reversed(self) -> bool:
        """Whether two configurations that really differ were ranked the wrong way round."""
        by = self.pairs.filter(metric=self.by)
        return bool((by["verdict"] == "reversed").any())

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The runs that were measured, read where they are not in memory."""
        found = []
        for order, path in self.runs.filter(pl.col("error").is_null())["order", "trace"].rows():
            if order in self.held:
                found.append(self.held[order])
            elif path is not None and self.folder is not None:
                found.append(read(join_below(self.folder, path, deep=True, field="trace")))
        return tuple(found)

    # --- keeping ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All of it but the runs, as plain data."""
        return {
            "twinloop": __version__,
            "by": self.by,
            "status": self.status,
            "seed": self.seed,
            "repetitions": self.repetitions,
            "metrics": [str(each) for each in self.objectives],
            "recommendations": [
                vars(each) | {"unsupported": list(each.unsupported)}
                for each in self.recommendations
            ],
            "table": self.table.to_dicts(),
            "ranks": self.ranks.to_dicts(),
            "pairs": self.pairs.to_dicts(),
            "notes": list(self.notes),
            "diagnosis": None if self.diagnosis is None else self.diagnosis.to_dict(),
            "candidates": [_kept(each) for each in self.candidates],
            "baseline": _kept(self.baseline),
        }

    @property
    def plot(self) -> Any:
        """Its pictures: `confirmation.plot.ranks()`; see `ConfirmationPlots`."""
        return load_component("confirmation-plots")(self)

    def save(self, folder: str | Path) -> Path:
        """Keep it in a folder: `confirmation.json`, the table of runs, and `report.md`."""
        folder = Path(folder)
        for each in (*self.candidates, self.baseline):
            store_workload(each.scenario, folder)
        with write_atomically(folder / TABLE) as stream:
            self.runs.write_parquet(stream)
        with write_atomically(folder / "report.md") as stream:
            stream.write(self.markdown().encode())
        with write_atomically(folder / MANIFEST) as stream:
            told = json.dumps(
                to_json_values(self.to_dict()), indent=2, allow_nan=False, default=str
            )
            stream.write(told.encode())
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Confirmation:
        """Read one back; the runs themselves are read when they are asked for."""
        from twinloop.exploration.confirmation.diagnosis import Diagnosis

        folder = Path(folder)
        path = folder / MANIFEST
        if not path.is_file():
            raise InputError("no confirmation is kept there", file=folder)
        try:
            kept = json.loads(path.read_bytes())
            told = kept["diagnosis"]
            return cls.of(
                [_candidate(each, folder) for each in kept["candidates"]],
                _candidate(kept["baseline"], folder),
                read_parquet(folder / TABLE).to_dicts(),
                kept["metrics"],
                probabilities={
                    each["candidate"]: each["probability"] for each in kept["recommendations"]
                },
                seed=kept["seed"],
                notes=kept["notes"],
                folder=folder,
                diagnosis=None if told is None else Diagnosis.from_dict(told),
            )
        except InputError as error:
            error.file = error.file or str(path)
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"cannot be read: {error}", file=path) from None
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"cannot be read: {error}", file=folder) from None

    # --- showing ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        return confirmation_to_text(self)

    def markdown(self) -> str:
        """The confirmation as a Markdown document."""
        return confirmation_to_markdown(self)

    def __repr__(self) -> str:
        first = self.recommendations[0]
        return escape_name(
            f"<Confirmation: {first.candidate} against {first.against}: {first.verdict}>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def _recommended(
    one: Candidate,
    baseline: Candidate,
    objective: Objective,
    columns: Columns,
    probability: float | None,
) -> Recommendation:
    metric = objective.kpi
    mine, theirs = columns[metric][one.name], columns[metric][baseline.name]
    predicted = predict_difference(one, baseline, metric)
    real = PairedDifference.of(mine, theirs, beside=columns[metric].values())
    verdict = judge_difference(predicted, real)
    # Of the repetitions that both have, as the differences are.
    base = compute_mean([t for m, t in zip(mine, theirs, strict=True) if not np.isnan(m)])
    return Recommendation(
        candidate=one.name,
        against=baseline.name,
        metric=metric,
        predicted=predicted,
        real=None if real is None else real.mean,
        low=None if real is None else real.low,
        high=None if real is None else real.high,
        verdict=verdict,
        probability=probability,
        unsupported=one.unsupported,
        sentence=describe_recommendation(
            one.name,
            baseline.name,
            objective,
            predicted=predicted,
            of_predicted=get_prediction(baseline, metric),
            real=real,
            of_real=base,
            verdict=verdict,
        ),
    )


def _kept(one: Candidate) -> dict[str, Any]:
    return {
        "name": one.name,
        "configuration": one.configuration,
        "predicted": dict(one.predicted),
        "spread": dict(one.spread),
        "levels": dict(one.levels),
        "unsupported": list(one.unsupported),
        "scenario": one.scenario.to_manifest(),
    }


def _candidate(kept: Mapping[str, Any], folder: Path) -> Candidate:
    return Candidate(
        name=kept["name"],
        scenario=read_scenario(kept["scenario"], folder),
        predicted={k: np.nan if v is None else v for k, v in kept["predicted"].items()},
        spread={k: np.nan if v is None else v for k, v in kept["spread"].items()},
        levels=kept["levels"],
        configuration=kept["configuration"],
        unsupported=tuple(kept["unsupported"]),
    )
