"""Levels of detail and training sets of simulated workflows, on runs whose true values are known.

    python examples/workflow_levels.py FOLDER [--budget 500] [--seeds 3] [--quick]

J. McDonald, "A Systematic and Automated Methodology for Calibrating Simulators of Parallel and
Distributed Computing Systems" (dissertation, University of Hawai'i at Manoa, 2026), chapter 5 and
section 8.1, calibrates a simulator of Pegasus and HTCondor with 9,200 measured executions. Here the
truth is synthetic: runs simulated at the finest level of detail, with hidden values and noise. The
script writes runs, scenarios, parameters and levels into FOLDER, makes the tables and figures, and
writes `report.html`. The same command continues where it was interrupted.
"""

import argparse
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import twinloop as tl
from twinloop.calibration import Case, DetailStudy, History, Space, calibrate_levels
from twinloop.calibration.cases import make_cases
from twinloop.calibration.detail.text import describe_references, list_version_rows
from twinloop.calibration.losses import get_loss
from twinloop.calibration.lossmap import Lossmap, Sample, compute_lossmap, hold_out_large
from twinloop.calibration.parameters.defaults import make_space
from twinloop.calibration.search.minimisation import minimise
from twinloop.calibration.search.objective import TwinObjective
from twinloop.calibration.search.parameter_recovery import RecoveryRanking, rank_by_recovery
from twinloop.calibration.search.selection import make_synthetic_case
from twinloop.report.figures.detail_study import plot_detail_study
from twinloop.report.figures.lossmap import plot_lossmap
from twinloop.report.pages.fragments import render_list, render_note, render_paragraph, render_table
from twinloop.report.pages.page import Page
from twinloop.scenario import Scenario
from twinloop.scenario.model_values import set_model_values

#: The hidden values. Start-up, cycle, before and after are those of the study's own synthetic runs
#: (Table 5.3); the core speed there is 982.45 Mop/s, here 0.98245 of the declared speed. The
#: others are chosen here: a network with more bandwidth than the disks.
TRUTH: dict[str, Any] = {
    "platform.network.links[0].bandwidth": 2**33 / 8,  # B: of each worker (bytes/s)
    "platform.network.links[1].bandwidth": 2**33 / 8,  # B': shared
    "platform.stores[0].read": 2**32 / 8,  # B_r: of all disks
    "platform.stores[0].write": 2**31 / 8,  # B_w
    "platform.stores[0].streams": 20,  # N
    "speed_factor": 0.98245,  # s
    "startup_overhead": 3.046,  # o (s)
    "submission.cycle": 12.339,  # o_n
    "submission.before": 14.790,  # o_j1
    "submission.after": 14.079,  # o_j2
}
#: Standard deviation of the logarithm of the factors of a run: speed and start-up, and overheads.
NOISE, OVERHEAD_NOISE = 0.03, 0.10
REPETITIONS = 2

LEVELS = """\
model.detail.network: [one-link, star, link+star]
model.detail.storage: [submit, all]
model.detail.submission: [direct, negotiator]
"""
#: Bandwidths of 2^20 to 2^40 bit/s; speeds of 2^20 to 2^40 op/s of a core declared with 2^30.
PARAMETERS = """\
parameters:
  platform.network.links[0].bandwidth: {exponential: [131072, 137438953472]}    # B
  platform.network.links[1].bandwidth: {exponential: [131072, 137438953472]}    # B'
  platform.stores[0].read: {exponential: [131072, 137438953472]}                # B_r
  platform.stores[0].write: {exponential: [131072, 137438953472]}               # B_w
  platform.stores[0].streams: {linear: [1, 100], integer: true}                 # N
  speed_factor: {exponential: [0.0009765625, 1024]}                             # s
  startup_overhead: {linear: [0, 20s]}                                          # o
  submission.cycle: {linear: [0, 20s]}                                          # o_n
  submission.before: {linear: [0, 20s]}                                         # o_j1
  submission.after: {linear: [0, 20s]}                                          # o_j2
"""
#: Which fifteen parameters the public code of the study moves is not in its text; five chosen here.
FIVE_MORE = """\
  platform.network.links[0].latency: {linear: [0, 10ms]}
  platform.network.links[1].latency: {linear: [0, 10ms]}
  submission.interval: {linear: [0, 20s]}
  dispatch_latency: {linear: [0, 20s]}
  release_latency: {linear: [0, 20s]}
"""
#: The start-up of a direct submission stands for all overheads, which are 44 s together.
WIDE_LEVELS = "model.detail.submission: [direct, negotiator]\n"
WIDE_PARAMETERS = PARAMETERS.replace(
    "startup_overhead: {linear: [0, 20s]} ", "startup_overhead: {linear: [0, 100s]}"
)
SPEC_SHEET = """\
platform.network.links[0].bandwidth: 10 Gb/s
platform.network.links[1].bandwidth: 10 Gb/s
platform.stores[0].read: 2 GB/s
platform.stores[0].write: 1 GB/s
platform.stores[0].streams: 100
speed_factor: 1
startup_overhead: 0s
submission.cycle: 0s
submission.before: 0s
submission.after: 0s
"""
SCENARIO = """\
platform:
  clusters:
  - {{name: workers, hosts: [{{count: {workers}, cores: 48, store: {{like: submit}}}}]}}
  stores:
  - {{name: submit, read: 2 GB/s, write: 1 GB/s, streams: 100}}
  network:
    switches: [core]
    links:
    - {{between: [workers, core], bandwidth: 10 Gb/s}}
    - {{between: [core, submit], bandwidth: 10 Gb/s, duplex: half}}
workload: {{generate: {{name: {generator}, parameters: {{{parameters}}}}}}}
policy: fcfs
seed: {seed}
model:
  submission: {{cycle: 0s, before: 0s, after: 0s}}
  detail: {{network: link+star, storage: all, submission: negotiator}}
"""
OVERHEADS = ("startup_overhead", "submission.cycle", "submission.before", "submission.after")
WORKERS = (1, 2, 4, 6)
APPLICATION, CHAIN, FORK_JOIN = "lanes", "chain", "fork-join"
LANE = ("filter", "convert", "map", "sort")
LOSSES, OPTIMISERS = ("L1", "L2", "L3", "L4", "L5", "L6"), ("random", "bayes-gp")
#: Values of the document: Table 5.3 and section 5.5 (errors in %).
TABLE_5_3 = {
    "random": (541.24, 111.43, 610.82, 883.40, 130.55, 883.40),
    "bayes-gp": (30.96, 935.10, 935.10, 89.76, 89.76, 89.76),
}
SYNTHETIC = (
    "The truth is synthetic: all runs called real here were simulated by Twinloop itself at the "
    "finest level of detail, with hidden values and noise. Nothing was measured on a cluster."
)


Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Design:
    """The benchmarks: sizes, work (s) and footprints (MB), after Table 5.1."""

    workers: tuple[int, ...] = WORKERS
    sizes: tuple[int, ...] = (43, 64, 86, 129, 215)
    work: tuple[float, ...] = (0.6, 7.22, 73.25)
    footprints: tuple[int, ...] = (0, 1500, 15000)
    simple_sizes: tuple[int, ...] = (10, 25, 50)
    simple_work: tuple[float, ...] = (0.84, 7.61, 70.76)
    simple_footprints: tuple[int, ...] = (0, 150, 1500)
    levels: str = LEVELS
    losses: tuple[str, ...] = LOSSES


QUICK = Design(
    workers=(1, 2),
    sizes=(43, 64),
    work=(7.22,),
    footprints=(150, 1500),
    simple_sizes=(10,),
    simple_work=(7.61,),
    simple_footprints=(150,),
    levels=LEVELS.replace(", star, link+star", "").replace("submit, all", "all"),
    losses=("L1",),
)


@dataclass(frozen=True)
class Benchmark:
    """A workflow on a number of workers."""

    kind: str
    workers: int
    tasks: int
    work: float
    footprint: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.workers}-{self.tasks}-{self.work:g}s-{self.footprint}MB"

    @property
    def seed(self) -> int:
        """The seed of the workflow, equal on any number of workers."""
        return zlib.crc32(replace(self, workers=0).name.encode())


def list_benchmarks(design: Design) -> Iterator[Benchmark]:
    """List all benchmarks; a chain runs on one worker."""
    sizes, work, footprints = design.sizes, design.work, design.footprints
    simple = (design.simple_sizes, design.simple_work, design.simple_footprints)
    for values in product((APPLICATION,), design.workers, sizes, work, footprints):
        yield Benchmark(*values)
    for values in product((FORK_JOIN,), design.workers, *simple):
        yield Benchmark(*values)
    for values in product((CHAIN,), (1,), *simple):
        yield Benchmark(*values)


def make_instance(work: float, size: float, lanes: int = 4) -> tl.Trace:
    """Make a workflow of parallel lanes of four steps, between a split, a merge and an index.

    It resembles Epigenomics. The generator `recipe` makes workflows of other sizes from it.
    """
    parents: dict[str, list[str]] = {"split": []}
    uses = [("split", "input", "read")]
    for lane in range(lanes):
        before = "split"
        for step in LANE:
            name = f"{step}_{lane}"
            parents[name] = [before]
            uses += [(before, f"for_{name}", "write"), (name, f"for_{name}", "read")]
            before = name
        uses += [(before, f"sorted_{lane}", "write"), ("merge", f"sorted_{lane}", "read")]
    parents |= {"merge": [f"{LANE[-1]}_{lane}" for lane in range(lanes)], "index": ["merge"]}
    uses += [("merge", "merged", "write"), ("index", "merged", "read"), ("index", "out", "write")]
    rng = np.random.default_rng(1)
    return tl.Trace(
        tasks=pl.DataFrame(
            {
                "id": list(parents),
                "name": [name.partition("_")[0] for name in parents],
                "parents": list(parents.values()),
                "run_time": work * rng.uniform(0.8, 1.2, len(parents)),
            }
        ).with_columns(submit=0.0, requested_cores=1.0),
        files=pl.DataFrame(
            {"file": list(dict.fromkeys(file for _, file, _ in uses)), "size": size}
        ),
        task_files=pl.DataFrame(uses, schema=["task", "file", "access"], orient="row"),
    )


def write_scenario(each: Benchmark, folder: Path) -> Path:
    """Write the scenario of a benchmark: hardware of the specification sheet, no overheads."""
    path = folder / "scenarios" / f"{each.name}.yaml"
    if path.is_file():
        return path
    if each.kind == APPLICATION:
        instance = folder / "instances" / f"{each.tasks}-{each.work:g}s-{each.footprint}MB"
        if not instance.exists():
            made = tl.generate("recipe", seed=0, instance=make_instance(each.work, 0.0),
                               tasks=each.tasks, values="copied")  # fmt: skip
            make_instance(each.work, each.footprint * 1e6 / made.files.height).save(instance)
        parameters = f"instance: ../instances/{instance.name}, tasks: {each.tasks}, values: copied"
        generator = "recipe"
    else:
        parameters = f"tasks: {each.tasks}, work: {each.work}, footprint: {each.footprint} MB"
        generator = each.kind
    path.parent.mkdir(parents=True, exist_ok=True)
    text = SCENARIO.format(
        workers=each.workers, generator=generator, parameters=parameters, seed=each.seed
    )
    path.write_text(text)
    return path


def record(scenario: Scenario, name: str) -> tl.Trace:
    """Simulate a run with the hidden values and noise; its manifest has the scenario without."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    noise = dict.fromkeys(("speed_factor", "startup_overhead"), NOISE)
    noise |= dict.fromkeys((name for name in TRUTH if "submission" in name), OVERHEAD_NOISE)
    factors = {name: float(rng.lognormal(0, spread)) for name, spread in noise.items()}
    values = {name: value * factors.get(name, 1) for name, value in TRUTH.items()}
    run = tl.simulate(set_model_values(scenario, values))
    stored = run.manifest.model_copy(update={"scenario": scenario.to_manifest()})
    return run.replace(manifest=stored)


@dataclass(frozen=True)
class RecordedBenchmark:
    """A run, its benchmark, and its name."""

    benchmark: Benchmark
    name: str
    sample: Sample


def record_runs(design: Design, folder: Path) -> list[RecordedBenchmark]:
    """Record all runs, or read those that are in the folder."""
    runs = []
    for each in list_benchmarks(design):
        scenario: Scenario | None = None
        # The simple benchmarks are used for training only.
        for repetition in range(REPETITIONS if each.kind == APPLICATION else 1):
            name = f"{each.name}-{repetition + 1}"
            path = folder / "runs" / name
            if path.exists():
                run = tl.read(path)
            else:
                scenario = scenario or Scenario.load(write_scenario(each, folder))
                run = record(scenario, name)
                run.save(path)
            runs.append(RecordedBenchmark(each, name, Sample.of(run, workers_used=each.workers)))
    return runs


# --- section 8.1: levels of detail ----------------------------------------------------------------


def select_training(samples: Sequence[Sample]) -> list[Sample]:
    """Select the runs with the second largest numbers of workers and of tasks."""
    workers, tasks = (
        sorted({getattr(each, name) for each in samples})[-2] for name in ("workers", "tasks")
    )
    return [each for each in samples if (each.workers, each.tasks) == (workers, tasks)]


@dataclass(frozen=True)
class LevelStudies:
    """Studies of the level of detail: calibration on medium runs, comparison on large ones."""

    runs: Sequence[RecordedBenchmark]
    folder: Path
    budget: int
    seeds: int
    analysis: int | None

    def calibrate(self, levels: str, parameters: str, output: str) -> DetailStudy:
        """Calibrate all versions of a file of levels."""
        names = {
            id(each.sample): each.name for each in self.runs if each.benchmark.kind == APPLICATION
        }
        samples = [each.sample for each in self.runs if id(each.sample) in names]
        held_out = hold_out_large(samples)[1]
        training = select_training(samples)
        return calibrate_levels(
            [each.run for each in training],
            self.folder / levels,
            parameters=self.folder / parameters,
            spec_sheet=self.folder / "spec-sheet.yaml",
            validation=[each.run for each in held_out],
            loss="makespan",
            budget=self.budget,
            seeds=self.seeds,
            analysis=self.analysis,
            names=[names[id(each)] for each in (*training, *held_out)],
            folder=self.folder / output,
        )


def sum_overheads(study: DetailStudy) -> pl.DataFrame:
    """Sum the fitted overheads of each search: what a task waits on an idle platform."""
    return (
        study.values.filter(pl.col("parameter").is_in(OVERHEADS), values="fitted")
        .group_by("version", "seed", maintain_order=True)
        .agg(pl.col("number").sum())
        .group_by("version", maintain_order=True)
        .agg(
            pl.col("number").mean().alias("mean"),
            pl.col("number").min().alias("min"),
            pl.col("number").max().alias("max"),
        )
    )


def list_overhead_rows(study: DetailStudy) -> Rows:
    """List the sums of the fitted overheads, below the hidden sum."""
    hidden = f"{sum(TRUTH[name] for name in OVERHEADS):.1f}"
    rows: Rows = [("hidden values", hidden, hidden, hidden)]
    for each in sum_overheads(study).iter_rows(named=True):
        name = study.get_version(each["version"]).name
        rows.append((name, *(f"{each[column]:.1f}" for column in ("mean", "min", "max"))))
    return rows


# --- section 5.4: training sets -------------------------------------------------------------------


class StoredFits:
    """Fits of the finest version to single runs of benchmarks; their losses are kept in a file.

    It does what `TrainingSetFit` does, but each scenario is compiled once for all training sets.
    """

    def __init__(self, path: Path, runs: Sequence[RecordedBenchmark], budget: int) -> None:
        self.path, self.runs, self.budget = path, runs, budget
        self.names = {id(each.sample): each.name for each in runs}
        self.known: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}

    @cached_property
    def space(self) -> Space:
        """The ten parameters."""
        parameters = self.path.parent / "parameters.yaml"
        return make_space(parameters, make_cases([self.runs[0].sample.run]))

    @cached_property
    def cases(self) -> dict[int, Case]:
        """The compiled scenario of each run, with the run."""
        cases = make_cases([each.sample.run for each in self.runs], fitted=self.space.names)
        return dict(zip(self.names, cases, strict=True))

    def __call__(self, samples: Sequence[Sample]) -> Callable[[Sequence[Sample]], float]:
        """Return the loss of a fit to these runs on others; the fit is made when it is needed."""
        fits: list[History] = []

        def compute(others: Sequence[Sample]) -> float:
            key = f"{self._name(samples)} on {self._name(others)}"
            if key not in self.known:
                if not fits:
                    fits.append(minimise(self._make_objective(samples), budget=self.budget))
                self.known[key] = self._make_objective(others).at(fits[0].best_values)
                self.path.write_text(json.dumps(self.known, indent=1))
            return self.known[key]

        return compute

    def _make_objective(self, samples: Sequence[Sample]) -> TwinObjective:
        cases = [self.cases[id(each)] for each in samples]
        return TwinObjective(self.space, cases, get_loss("makespan"))

    def _name(self, samples: Sequence[Sample]) -> str:
        text = f"{','.join(self.names[id(each)] for each in samples)} {self.budget}"
        return f"{len(samples)} runs {zlib.crc32(text.encode()):08x}"


@dataclass(frozen=True)
class NarrowSet:
    """A training set with less diversity, and its loss on the held-out runs."""

    name: str
    runs: int
    cost: float
    loss: float


def study_training_sets(
    runs: Sequence[RecordedBenchmark], folder: Path, budget: int
) -> tuple[Lossmap, list[NarrowSet]]:
    """Fit the finest version to each training set, and compute its loss on the large runs."""
    runs = [each for each in runs if each.name.endswith("-1")]
    fit = StoredFits(folder / "training-sets.json", runs, budget)
    of_application = [each for each in runs if each.benchmark.kind == APPLICATION]
    samples = [each.sample for each in of_application]
    train, held_out = hold_out_large(samples)
    found = compute_lossmap(train, fit, validation=held_out)
    whole = select_training(samples)
    groups: dict[str, list[Sample]] = {"all works and footprints": whole}
    for each in of_application:
        if any(each.sample is sample for sample in whole):
            groups[f"only {each.benchmark.work:g} s, {each.benchmark.footprint:,} MB"] = [
                each.sample
            ]
    for kinds in ((CHAIN,), (FORK_JOIN,), (CHAIN, FORK_JOIN)):
        groups[f"{' and '.join(kinds)} only"] = [
            each.sample for each in runs if each.benchmark.kind in kinds
        ]
    narrow = [
        NarrowSet(name, len(some), sum(each.cost for each in some), fit(some)(held_out))
        for name, some in groups.items()
    ]
    return found, narrow


# --- Table 5.3: recovery of the hidden values -----------------------------------------------------


def rank_losses(
    runs: Sequence[RecordedBenchmark], folder: Path, losses: Sequence[str], budget: int
) -> RecoveryRanking:
    """Search for the hidden values with each loss and each optimiser, on runs without noise."""
    path = folder / "table-5.3.parquet"
    if path.is_file():
        return RecoveryRanking(dict(TRUTH), pl.read_parquet(path), budget)
    samples = [each.sample for each in runs if each.benchmark.kind == APPLICATION]
    real = [each.run for each in select_training(samples)]
    parameters = folder / "parameters.yaml"
    space = make_space(parameters, make_cases(real))
    cases = [make_synthetic_case(case, TRUTH) for case in make_cases(real, fitted=space.names)]
    ranking = rank_by_recovery(
        lambda name: TwinObjective(space, cases, get_loss(name)),
        TRUTH, losses=losses, optimisers=OPTIMISERS, budget=budget,
    )  # fmt: skip
    ranking.table.write_parquet(path)
    return ranking


# --- output ---------------------------------------------------------------------------------------


def list_narrow_rows(narrow: Sequence[NarrowSet]) -> Rows:
    """List the training sets with less diversity, each beside the whole one."""
    whole = narrow[0].loss
    return [
        (each.name, f"{each.runs}", f"{each.cost:,.0f}", f"{each.loss:.1%}",
         f"{each.loss / whole:.2f}")
        for each in narrow
    ]  # fmt: skip


def list_recovery_rows(ranking: RecoveryRanking) -> Rows:
    """List the distance to the hidden values and the loss, by optimiser and loss."""
    rows = []
    for name in OPTIMISERS:
        for column, digits in (("distance", 2), ("best_loss", 3)):
            found = dict(ranking.table.filter(optimiser=name).select("loss", column).rows())
            cells = ["-" if loss not in found else f"{found[loss]:.{digits}f}" for loss in LOSSES]
            title = "here" if column == "distance" else "the loss reached"
            rows.append((f"{name}, {title}", *cells))
        rows.append((f"{name}, document", *(f"{each:.2f}" for each in TABLE_5_3[name])))
    return rows


def format_table(header: Sequence[str], rows: Rows) -> str:
    """Format a table: the first column to the left, the others to the right.

    >>> print(format_table(("set", "loss"), [("all", "5.0%")]))
      set  loss
      all  5.0%
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  " + "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    )  # fmt: skip


OVERHEAD_HEADER = ("version", "mean of the searches", "min", "max")
NARROW_HEADER = ("training set", "runs", "worker-seconds", "held-out loss", "ratio")
RECOVERY_HEADER = ("D(C, T)", *LOSSES)
DOCUMENT = (
    "Errors of the document, on its measured executions: 23 % calibrated, 14 % ideal simulator, "
    "73 % specification sheet (58 to 106 %), 91 % worst version."
)


def render_versions(study: DetailStudy) -> Iterator[str]:
    """Render the versions with their losses, the references, and the sums of their overheads."""
    head, *rows = list_version_rows(study)
    yield render_table(head, rows, numbers=head[1:])
    yield from map(render_note, describe_references(study))
    yield render_table(OVERHEAD_HEADER, list_overhead_rows(study), numbers=OVERHEAD_HEADER[1:])
    yield render_note("sum of the fitted overheads of a task, in seconds")


def write_page(
    path: Path, study: DetailStudy, wide: DetailStudy, found: Lossmap,
    narrow: Sequence[NarrowSet], ranking: RecoveryRanking,
) -> None:  # fmt: skip
    """Write all tables and figures as one page, which says first what is synthetic."""
    page = Page("Workflows: levels of detail and training sets", above="synthetic truth; predict")
    page.add(
        render_paragraph(SYNTHETIC),
        render_paragraph(
            "Predict: no simulation gets anything measured in a run. Losses are relative errors of "
            "the makespan of runs that were held out, beside the noise floor, a crude baseline and "
            "the values of a specification sheet."
        ),
        render_note(DOCUMENT),
    )
    figures = plot_detail_study(study)
    versions, searches = figures["versions"], figures["searches"]
    page.add_figure(
        "versions", versions, int(versions.layout.height), guide="Figure 8.1, Table 8.1."
    )
    page.add_section("Versions", *render_versions(study), render_list(study.verdict))
    page.add_figure("searches", searches, 420, guide="Figure 5.1, for all versions.")
    page.add_section(
        "A start-up of up to 100 s",
        render_paragraph(
            "In a direct submission only the start-up can stand for the overheads of the workflow "
            "manager, and its range ends at 20 s. Here it ends at 100 s."
        ),
        *render_versions(wide),
        render_list(wide.verdict),
    )
    guides = {"single": "Figure 5.2, left.", "rectangular": "Figure 5.2, right.",
              "cost": "Figure 5.3."}  # fmt: skip
    for name, figure in plot_lossmap(found).items():
        page.add_figure(name, figure, 380, guide=guides[name])
    page.add_section(
        "Training sets with less diversity",
        render_table(NARROW_HEADER, list_narrow_rows(narrow), numbers=NARROW_HEADER[1:]),
        render_note("ratio: to the loss of training with all works and footprints"),
    )
    page.add_section(
        "Recovery of the hidden values",
        render_paragraph(f"Table 5.3, with {ranking.evaluations:,} evaluations of each search."),
        render_table(RECOVERY_HEADER, list_recovery_rows(ranking), numbers=RECOVERY_HEADER[1:]),
        render_note("the document gave each search 24 hours on 48 cores and other runs; its digits "
                    "are not comparable"),
    )  # fmt: skip
    page.write(path)


def write_inputs(design: Design, folder: Path) -> None:
    """Write levels, parameters and specification sheet."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "levels.yaml").write_text(design.levels)
    (folder / "parameters.yaml").write_text(PARAMETERS)
    (folder / "parameters-15.yaml").write_text(PARAMETERS + FIVE_MORE)
    (folder / "levels-wide.yaml").write_text(WIDE_LEVELS)
    (folder / "parameters-wide.yaml").write_text(WIDE_PARAMETERS)
    (folder / "spec-sheet.yaml").write_text(SPEC_SHEET)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make runs, studies, tables and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=int, help="evaluations of each search of the 12 versions")
    parser.add_argument("--seeds", type=int, help="searches of each version")
    parser.add_argument("--training-budget", type=int, help="evaluations for each training set")
    parser.add_argument("--table-budget", type=int, help="evaluations of each search of Table 5.3")
    parser.add_argument("--quick", action="store_true", help="few versions, runs and evaluations")
    options = parser.parse_args(arguments)
    design, default = (QUICK, (20, 1, 10, 10)) if options.quick else (Design(), (500, 3, 200, 100))
    given = (options.budget, options.seeds, options.training_budget, options.table_budget)
    budget, seeds, training_budget, table_budget = (
        other if value is None else value for value, other in zip(given, default, strict=True)
    )
    # The runs name their instances: a study can then be continued from another folder.
    folder: Path = options.folder.resolve()
    write_inputs(design, folder)
    runs = record_runs(design, folder)
    show = partial(print, flush=True)
    show(SYNTHETIC)
    show(f"{len(runs)} runs of {len({each.benchmark for each in runs})} benchmarks")
    studies = LevelStudies(runs, folder, budget, seeds, 0 if options.quick else None)
    show("\nVersions (Table 8.1, Figure 8.1)")
    study = studies.calibrate("levels.yaml", "parameters.yaml", "levels")
    show(study)
    show(DOCUMENT)
    finest = study.versions[-1]
    show(f"\nIdentifiability of {finest.name}")
    show("\n".join(f"  {line}" for line in study.sentences.get(finest.number, ())))
    show("\nSum of the overheads of a task (s)")
    show(format_table(OVERHEAD_HEADER, list_overhead_rows(study)))
    show("\nThe same with a start-up of up to 100 s, at the finest network and storage")
    wide = studies.calibrate("levels-wide.yaml", "parameters-wide.yaml", "levels-wide")
    show(wide)
    show(format_table(OVERHEAD_HEADER, list_overhead_rows(wide)))
    found, narrow = study_training_sets(runs, folder, training_budget)
    show(f"\nTraining sets (Figures 5.2 and 5.3): {found.frame.height}")
    show(found)
    show("by cost, the best so far (worker-seconds)")
    for row in found.front.iter_rows(named=True):
        show(f"  {row['scheme']:11} {row['workers']} workers, {row['tasks']:3} tasks: "
             f"{row['validation_loss']:6.1%} for {row['cost']:8,.0f}")  # fmt: skip
    show(format_table(NARROW_HEADER, list_narrow_rows(narrow)))
    ranking = rank_losses(runs, folder, design.losses, table_budget)
    show(f"\nRecovery of the hidden values (Table 5.3), {table_budget} evaluations")
    show(format_table(RECOVERY_HEADER, list_recovery_rows(ranking)))
    write_page(folder / "report.html", study, wide, found, narrow, ranking)
    show(f"\nwrote {options.folder / 'report.html'}")


if __name__ == "__main__":
    main()
