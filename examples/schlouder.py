"""Errors of simulated executions of the broker Schlouder: published values and values here.

The executions and their measured results are public, but not part of this repository. Sources of
the published values: J. Gossa et al., "Cloud simulation", draft of 2019, Figures 8 to 16, and the
results that its authors published with the simulator SimSchlouder.

python examples/schlouder.py EXECUTIONS MEASURED [-o FOLDER]
"""

import argparse
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl

import twinloop as tl
from twinloop.exploration import ExecutionStudy, explore_executions

Row = Sequence[str | float | None]

METRICS = ("uptime", "makespan", "usage")
SETS = ("best", "no-threads", "no-boot-times", "communications", "predictions")
CELLS = ("all", "icps / omssa", "icps / montage", "bonfire / omssa", "bonfire / montage")
#: The tables of the draft: executions, then mean, median and maximum of the error of each metric.
DRAFT = {
    ("best", "all"): (357, 0.023, 0.001, 0.995, 0.017, 0.000, 0.375, 0.019, 0.001, 0.500),
    ("best", "icps / omssa"): (205, 0.001, 0.000, 0.029, 0.001, 0.000, 0.079, 0.001, 0.001, 0.029),
    ("best", "icps / montage"): (21, 0.010, 0.000, 0.086, 0.033, 0.001, 0.221, 0.018, 0.002, 0.079),
    ("best", "bonfire / omssa"):
        (75, 0.002, 0.001, 0.044, 0.009, 0.004, 0.134, 0.005, 0.004, 0.045),
    ("best", "bonfire / montage"):
        (56, 0.138, 0.081, 0.995, 0.082, 0.048, 0.375, 0.104, 0.082, 0.500),
    ("no-threads", "all"): (366, 0.033, 0.001, 0.918, 0.038, 0.013, 0.607, 0.029, 0.002, 0.479),
    ("no-boot-times", "all"): (357, 0.026, 0.001, 0.918, 0.059, 0.008, 0.815, 0.028, 0.002, 1.711),
    # Without the two negative uptimes that the printed tables contain.
    ("communications", "all"): (366, 0.068, 0.001, 2.068, 0.078, 0.012, 1.109, 0.103, 0.026, 0.824),
    ("predictions", "all"): (366, 0.125, 0.003, 1.601, 0.213, 0.115, 1.772, 0.225, 0.149, 2.911),
}  # fmt: skip
#: Δ of the draft: mean, median and maximum of the differences per execution to `best`.
DRAFT_PAIRED = {
    "no-threads": (0.007, 0.000, 0.403, 0.020, 0.003, 0.554, 0.007, 0.000, 0.288),
    "no-boot-times": (0.003, 0.000, 0.412, 0.042, 0.004, 0.807, 0.009, 0.000, 1.528),
    "communications": (0.044, 0.000, 2.015, 0.047, 0.003, 0.642, 0.073, 0.010, 0.761),
    # Only the means are known: Figure 16 does not have them.
    "predictions": (0.102, None, None, 0.195, None, None, 0.206, None, None),
}
#: Of the 357 executions of `best`: weighted shares under 0.05 and under 0.10, count over 0.30.
DRAFT_FREQUENCIES = {
    "uptime": (0.824, 0.906, 6),
    "makespan": (0.813, 0.907, 3),
    "usage": (0.813, 0.902, 4),
}
#: Mean error of the makespan that SimSchlouder reaches on the executions here: number, cells.
SIMSCHLOUDER = {
    "best": (207, 0.015, 0.001, 0.021, 0.010, 0.093),
    "no-threads": (214, 0.034, 0.012, 0.025, 0.047, 0.137),
    "no-boot-times": (207, 0.063, 0.023, 0.042, 0.124, 0.198),
    "predictions": (214, 0.209, 0.116, 0.430, 0.288, 0.375),
}
DRAFT_ERRORS = (
    "Executions: Figure 8 has 274, the text 107 and 36 of icps; the tables of best are of 357.",
    "Section 5.5: best has 86 / 76 / 59 / 70 % under 0.05; its tables 82.4 / 81.3 / 81.3 / 63.3 %.",
    "Section 5.5: 92 / 90 / 91 / 72 % under 0.10; its tables have 90.6 / 90.7 / 90.2 / 65.8 %.",
    "Section 5.5: 2 / 0 / 2 / 59 executions over 0.30; its tables have 6 / 3 / 4 / 59.",
    "bonfire / montage: its δ is that of bonfire / omssa, not +.137 / +.081 / +.103 / +.548.",
    "Figure 16: its Δ is that of Figure 13, not +.102 / +.195 / +.206 / +.151.",
    "Figures 13 and 16: two negative uptimes, with errors of -1.000 and of -26,175 and -27,954.",
    "Section 5.4: the makespan counts from the first submission; formula and data: from t = 0.",
)


def unpack(source: Path, folder: Path) -> Path:
    """Return the folder of the executions; an archive is unpacked into `folder`."""
    if source.is_dir():
        return source
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    return folder


def find_negative_work(study: ExecutionStudy) -> list[str]:
    """Find the executions with a task whose management time is longer than its wall time.

    The published results with wall times and management times do not have them.
    """
    longer = pl.col("management_time") > pl.col("wall_time")
    return [
        each.name
        for each in study.executions
        if tl.read(each.path).task_times.select(longer.any()).item()
    ]


def format_table(header: Row, rows: Sequence[Row]) -> str:
    """Format rows: texts to the left, numbers with three digits to the right.

    >>> print(format_table(("set", "mean"), [("best", 0.0151), ("a", None)]))
      set    mean
      best  0.015
      a         -
    """
    texts = [
        ["-" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell)
         for cell in row]
        for row in (header, *rows)
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    left = [
        all(isinstance(cell, str) and cell[0] not in "+-" for cell in column)
        for column in zip(*rows, strict=True)
    ]
    return "\n".join(
        "  " + "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in texts
    )  # fmt: skip


def select(table: pl.DataFrame, columns: Sequence[str], **key: str) -> list[float | None]:
    """Select cells of the row with this key; None if there is no such row."""
    rows = table.filter(**key).select(columns).rows()
    return list(rows[0]) if rows else [None] * len(columns)


def list_errors(study: ExecutionStudy, name: str) -> list[Row]:
    """List the errors of a set, by cell and metric: here, in the draft, and between repetitions."""
    rows: list[Row] = []
    for cell in CELLS:
        count, *draft = DRAFT.get((name, cell), (None,) * 10)
        for at, metric in enumerate(METRICS):
            here = select(
                study.statistics, ("executions", "mean", "median", "max"),
                set=name, cell=cell, metric=metric,
            )  # fmt: skip
            there = draft[3 * at : 3 * at + 3]
            noise = select(study.repetitions, ("mean",), cell=cell, metric=metric)
            rows.append((cell, metric, *here, count, *there, subtract(here[1], there[0]), *noise))
    return rows


def subtract(first: float | None, second: float | None) -> str | None:
    """Format a difference, with its sign."""
    return None if first is None or second is None else f"{round(first - second, 3) + 0.0:+.3f}"


def list_frequencies(study: ExecutionStudy) -> list[Row]:
    """List the weighted frequencies of all cells together, here and in the draft."""
    columns = ("under_0.05", "under_0.10", "over_0.30_count")
    rows: list[Row] = []
    for name in SETS:
        for metric in METRICS:
            here = select(study.frequencies, columns, set=name, cell="all", metric=metric)
            draft = DRAFT_FREQUENCIES[metric] if name == "best" else (None,) * 3
            rows.append((name, metric, *here, *draft))
    return rows


def list_differences(study: ExecutionStudy) -> list[Row]:
    """List δ and Δ of the means of each set against `best`, here and in the draft."""
    rows: list[Row] = []
    for name in SETS[1:]:
        for index, metric in enumerate(METRICS):
            at = 1 + 3 * index
            delta, *paired = select(
                study.differences, ("delta_mean", "paired_mean", "paired_median", "paired_max"),
                set=name, cell="all", metric=metric,
            )  # fmt: skip
            draft = DRAFT[name, "all"][at] - DRAFT["best", "all"][at]
            rows.append((name, metric, delta, draft, *paired, *DRAFT_PAIRED[name][at - 1 : at + 2]))
    return rows


def compare_makespans(study: ExecutionStudy, without: Sequence[str]) -> list[Row]:
    """List the mean errors of the makespan on the executions of SimSchlouder, and its own."""
    errors = study.execution_errors.filter(metric="makespan")
    rows: list[Row] = []
    for name, (_, *published) in SIMSCHLOUDER.items():
        own = errors.filter(set=name)
        if name in ("best", "no-boot-times"):
            own = own.filter(~pl.col("execution").is_in(without))
        for cell, there in zip(CELLS, published, strict=True):
            part = own if cell == "all" else own.filter(cell=cell)
            here = part.select(pl.col("error").mean()).item()
            rows.append((name, cell, part.height, here, there, subtract(here, there)))
    return rows


def list_largest(study: ExecutionStudy, name: str, count: int = 12) -> list[Row]:
    """List the executions with the largest errors of the makespan with a set."""
    rows = study.list_largest_errors(study.planned).filter(set=name).head(count)
    whole = [
        pl.col(column).round().cast(pl.Int64)
        for column in ("makespan_s", "measured_makespan_s", "instances", "measured_instances")
    ]
    return rows.select("execution", "makespan_error", *whole).rows()


def print_tables(study: ExecutionStudy) -> None:
    """Print all tables."""
    print(f"{len(study.executions)} executions, {len(study.unmeasured)} without measured results")
    for note in (*study.errors, *study.notes):
        print(f"  {note}")
    here = ("executions", "mean", "median", "max")
    for each in study.sets:
        print(f"\n{each.name} ({each.description})")
        print("  errors here and in the draft; noise: mean error of the mean of other repetitions")
        header = ("cell", "metric", *here, "draft", *here[1:], "difference", "noise")
        print(format_table(header, list_errors(study, each.name)))
    print("\nWeighted frequencies of the errors, here and in the draft")
    limits = ("under 0.05", "under 0.10", "over 0.30")
    print(format_table(("set", "metric", *limits, *limits), list_frequencies(study)))
    print("\nδ of the means and Δ (mean, median, maximum) against best, here and in the draft")
    paired = ("Δ mean", "median", "max")
    header = ("set", "metric", "δ", "draft", *paired, *paired)
    print(format_table(header, list_differences(study)))
    without = find_negative_work(study)
    print("\nMean error of the makespan on the executions of SimSchlouder, here and there")
    header = ("set", "cell", "executions", "here", "SimSchlouder", "difference")
    print(format_table(header, compare_makespans(study, without)))
    if without:
        print("  best and no-boot-times without, management time > wall time:")
        print("\n".join(f"    {name}" for name in without))
    for name in ("best", "no-boot-times", "communications"):
        print(f"\nLargest errors of the makespan, {name}: times (s) and instances, here and real")
        header = ("execution", "error", "here", "real", "instances", "real")
        rows = list_largest(study, name)
        print(format_table(header, rows) if rows else "  none")
    print("\nErrors of the draft (values of uptime, makespan, usage and schederror)")
    print("\n".join(f"  {text}" for text in DRAFT_ERRORS))


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate all executions with all sets, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("executions", type=Path, help="folder with .tasks and .xml, or .tar.gz")
    parser.add_argument("measured", type=Path, help="table of measured results")
    parser.add_argument("-o", "--output", type=Path, help="folder for the study and its tables")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        executions = unpack(options.executions, folder / "executions")
        design = {"run": [str(executions)], "inject": list(SETS)}
        measured = {"measured": str(options.measured)}
        try:
            study = explore_executions({**design, **measured}, folder=folder / "study")
        except KeyboardInterrupt:
            again = "; the same command resumes" if options.output else ""
            raise SystemExit(f"interrupted{again}") from None
        print_tables(study)


if __name__ == "__main__":
    main()
