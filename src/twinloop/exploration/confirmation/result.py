"""The result of a confirmation: predictions compared with measurements of real runs."""

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

#: Files of the folder of a confirmation.
MANIFEST: Final = "confirmation.json"
TABLE: Final = "runs.parquet"


@dataclass(frozen=True)
class Recommendation:
    """A recommended candidate with its predicted and measured difference from the baseline.

    Differences are candidate minus baseline; `low` and `high` are the limits of the 90 % confidence
    interval.
    """

    candidate: str
    against: str
    metric: str
    predicted: float | None
    real: float | None
    low: float | None
    high: float | None
    verdict: DifferenceVerdict
    #: The predicted probability that the candidate is better than the baseline; None: not known.
    probability: float | None
    #: Sentences on its extrapolations beyond the data of the fit.
    unsupported: tuple[str, ...]
    #: The verdict with its figures as a sentence.
    sentence: str


@dataclass(frozen=True, repr=False)
class Confirmation:
    """The verdicts on recommendations, from real runs.

    `runs` has a row per run; `table` a row per metric and configuration with the predicted and the
    measured value; `ranks` a row per metric on the whole order; `pairs` a row per metric and pair
    of configurations. In `ranks`, `agree` and `disagree` count the pairs with a significant
    difference (its interval excludes zero) that were ranked correctly and wrongly; `ties` counts
    the others.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="1x1", workload="log.swf", policy="easy")
    >>> easy = Candidate("easy", scenario, {"makespan_s": 9.0})
    >>> fifo = Candidate("fifo", scenario.replace(policy="fifo"), {"makespan_s": 10.0})
    >>> ran = [("easy", 1, 9.3), ("fifo", 1, 10.1), ("fifo", 2, 10.3), ("easy", 2, 9.4)]
    >>> runs = [{"candidate": c, "repetition": r, "makespan_s": s} for c, r, s in ran]
    >>> confirmation = Confirmation.of([easy], fifo, runs, ["makespan_s"])
    >>> confirmation
    <Confirmation: easy against fifo: holds>
    >>> confirmation.ranks["tau"].to_list()
    [1.0]
    """

    #: The recommended candidates in the order of the ranking.
    candidates: tuple[Candidate, ...]
    baseline: Candidate
    #: The metrics with their directions; the first is the metric of the recommendation.
    objectives: tuple[Objective, ...]
    runs: pl.DataFrame = field(compare=False)
    table: pl.DataFrame = field(compare=False)
    ranks: pl.DataFrame = field(compare=False)
    pairs: pl.DataFrame = field(compare=False)
    recommendations: tuple[Recommendation, ...]
    seed: int = 0
    #: Notes on failed, omitted and missing runs.
    notes: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = field(default=None, compare=False)
    #: The folder it is stored in; None: it is in memory only.
    folder: Path | None = field(default=None, compare=False)
    #: The traces of runs in memory, by the position of the run in the order.
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
        """Compute the verdicts from the metrics of runs.

        Args:
            candidates: The recommended candidates in the order of the ranking.
            baseline: The baseline.
            runs: A row per run: `candidate` (the name), `repetition`, and its metrics, which a
                failed run does not have; also `order`, `trace`, `seconds` and `error`.
            objectives: The metrics; the first is the metric of the recommendation.
            probabilities: The predicted probability that each candidate is better, by name.
            seed: The random seed of the order of the runs.
            notes: Notes for the reader.
            folder: The folder of the confirmation.
            held: The traces of the runs, by the position of the run in the order.
            diagnosis: The diagnosis of a reversed ranking.
        """
        requested = tuple(Objective.of(each) for each in objectives)
        frame = make_run_table(runs, [each.kpi for each in requested], baseline.name)
        measured = {each.kpi for each in requested if frame[each.kpi].count()}
        absent = [each.kpi for each in requested if each.kpi not in measured]
        notes = [*notes, *(f"{each} was not measured" for each in absent)]
        compared = tuple(each for each in requested if each.kpi in measured)
        configurations = (*candidates, baseline)
        columns = {
            each.kpi: {
                candidate.name: get_repetitions(frame, candidate.name, each.kpi)
                for candidate in configurations
            }
            for each in requested
        }
        probability_by_name = probabilities or {}
        return cls(
            candidates=tuple(candidates),
            baseline=baseline,
            objectives=requested[:1] + tuple(each for each in compared if each != requested[0]),
            runs=frame.drop([each for each in absent if each != requested[0].kpi]),
            table=make_metric_table(configurations, baseline, compared, columns),
            pairs=(pairs := make_pair_table(configurations, compared, columns)),
            ranks=make_rank_table(configurations, compared, columns, pairs),
            recommendations=tuple(
                _make_recommendation(
                    each, baseline, requested[0], columns, probability_by_name.get(each.name)
                )
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
        """The metric of the recommendation."""
        return self.objectives[0].kpi

    @property
    def status(self) -> DifferenceVerdict:
        """The verdict on the first recommendation."""
        return self.recommendations[0].verdict

    @property
    def repetitions(self) -> int:
        """The number of repetitions."""
        return int(self.runs["repetition"].n_unique())

    @property
    def reversed(self) -> bool:
        """Whether two significantly different configurations were ranked in the wrong order."""
        by = self.pairs.filter(metric=self.by)
        return bool((by["verdict"] == "reversed").any())

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces of successful runs, read from the folder if they are not in memory."""
        traces = []
        for order, path in self.runs.filter(pl.col("error").is_null())["order", "trace"].rows():
            if order in self.held:
                traces.append(self.held[order])
            elif path is not None and self.folder is not None:
                traces.append(read(join_below(self.folder, path, deep=True, field="trace")))
        return tuple(traces)

    # --- storage ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the confirmation without its runs as plain data."""
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
            "candidates": [_candidate_to_dict(each) for each in self.candidates],
            "baseline": _candidate_to_dict(self.baseline),
        }

    @property
    def plot(self) -> Any:
        """Plotly figures: `confirmation.plot.ranks()`; see `ConfirmationPlots`."""
        return load_component("confirmation-plots")(self)

    def save(self, folder: str | Path) -> Path:
        """Store it in a folder: `confirmation.json`, the table of runs, and `report.md`."""
        folder = Path(folder)
        for each in (*self.candidates, self.baseline):
            store_workload(each.scenario, folder)
        with write_atomically(folder / TABLE) as stream:
            self.runs.write_parquet(stream)
        with write_atomically(folder / "report.md") as stream:
            stream.write(self.markdown().encode())
        with write_atomically(folder / MANIFEST) as stream:
            text = json.dumps(
                to_json_values(self.to_dict()), indent=2, allow_nan=False, default=str
            )
            stream.write(text.encode())
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Confirmation:
        """Read a confirmation from its folder; the traces of its runs are read on demand."""
        from twinloop.exploration.confirmation.diagnosis import Diagnosis

        folder = Path(folder)
        path = folder / MANIFEST
        if not path.is_file():
            raise InputError(
                "contains no confirmation",
                kind="not-a-result",
                file=folder,
                remedy=f"the folder of a confirmation contains {MANIFEST}",
            )
        try:
            data = json.loads(path.read_bytes())
            diagnosis = data["diagnosis"]
            return cls.of(
                [_candidate_from_dict(each, folder) for each in data["candidates"]],
                _candidate_from_dict(data["baseline"], folder),
                read_parquet(folder / TABLE).to_dicts(),
                data["metrics"],
                probabilities={
                    each["candidate"]: each["probability"] for each in data["recommendations"]
                },
                seed=data["seed"],
                notes=data["notes"],
                folder=folder,
                diagnosis=None if diagnosis is None else Diagnosis.from_dict(diagnosis),
            )
        except InputError as error:
            error.file = error.file or str(path)
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"cannot be read: {error}", kind="damaged-file", file=path) from None
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"cannot be read: {error}", kind="damaged-file", file=folder) from None

    # --- output ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return confirmation_to_text(self)

    def markdown(self) -> str:
        """Format the confirmation as a Markdown document."""
        return confirmation_to_markdown(self)

    def __repr__(self) -> str:
        first = self.recommendations[0]
        return escape_name(
            f"<Confirmation: {first.candidate} against {first.against}: {first.verdict}>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def _make_recommendation(
    candidate: Candidate,
    baseline: Candidate,
    objective: Objective,
    columns: Columns,
    probability: float | None,
) -> Recommendation:
    metric = objective.kpi
    own, others = columns[metric][candidate.name], columns[metric][baseline.name]
    predicted = predict_difference(candidate, baseline, metric)
    real = PairedDifference.of(own, others, all_runs=columns[metric].values())
    verdict = judge_difference(predicted, real)
    # The mean over the repetitions that both have, like that of the differences.
    base = compute_mean([t for m, t in zip(own, others, strict=True) if not np.isnan(m)])
    return Recommendation(
        candidate=candidate.name,
        against=baseline.name,
        metric=metric,
        predicted=predicted,
        real=None if real is None else real.mean,
        low=None if real is None else real.low,
        high=None if real is None else real.high,
        verdict=verdict,
        probability=probability,
        unsupported=candidate.unsupported,
        sentence=describe_recommendation(
            candidate.name,
            baseline.name,
            objective,
            predicted=predicted,
            baseline_predicted=get_prediction(baseline, metric),
            real=real,
            baseline_real=base,
            verdict=verdict,
        ),
    )


def _candidate_to_dict(candidate: Candidate) -> dict[str, Any]:
    return {
        "name": candidate.name,
        "configuration": candidate.configuration,
        "predicted": dict(candidate.predicted),
        "spread": dict(candidate.spread),
        "levels": dict(candidate.levels),
        "unsupported": list(candidate.unsupported),
        "scenario": candidate.scenario.to_manifest(),
    }


def _candidate_from_dict(data: Mapping[str, Any], folder: Path) -> Candidate:
    return Candidate(
        name=data["name"],
        scenario=read_scenario(data["scenario"], folder),
        predicted={k: np.nan if v is None else v for k, v in data["predicted"].items()},
        spread={k: np.nan if v is None else v for k, v in data["spread"].items()},
        levels=data["levels"],
        configuration=data["configuration"],
        unsupported=tuple(data["unsupported"]),
    )
