"""Compare the outcomes of the engine with the stored ones, and list all differences.

Where nothing is shared, times are identical. Shared times, and all amounts of energy and CPU time,
are sums whose order is not part of the behaviour: they agree within a relative tolerance.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tests.cluster.frozen.outcomes import (
    MACHINE_COLUMNS,
    SCENARIO_COLUMNS,
    TASK_COLUMNS,
    collect_outcomes,
    read_outcomes,
)
from tests.cluster.frozen.scenarios import make_case

RELATIVE: Final = 1e-9
#: In units of the largest value of a column in a scenario. A value may be the difference of running
#: totals of the scenario, whose rounding errors are relative to the totals and not to the value.
ABSOLUTE: Final = 1e-12
TIMES: Final = frozenset({"makespan", "start", "last_start", "end", "executions"})


class Difference(NamedTuple):
    """A value that is not the stored one."""

    seed: int
    column: str
    #: Index of the task or machine; 0 for a column of the scenario.
    row: int
    frozen: Any
    found: Any

    def __str__(self) -> str:
        kind = (
            f" t{self.row}"
            if self.column in TASK_COLUMNS
            else f" m{self.row}"
            if self.column in MACHINE_COLUMNS
            else ""
        )
        return f"seed {self.seed}{kind}: {self.column} is {self.found}, was {self.frozen}"


def compare(found: pl.DataFrame, frozen: pl.DataFrame) -> list[Difference]:
    """List all values of the outcomes that differ from the stored ones, by seed."""
    if found["seed"].to_list() != frozen["seed"].to_list():
        raise ValueError("the tables have different scenarios")
    differences: list[Difference] = []
    for names in (SCENARIO_COLUMNS, TASK_COLUMNS, MACHINE_COLUMNS):
        for name in names:
            differences += _compare_column(name, found, frozen)
    order = [*TASK_COLUMNS, *SCENARIO_COLUMNS, *MACHINE_COLUMNS]
    return sorted(differences, key=lambda each: (each.seed, order.index(each.column), each.row))


def _compare_column(name: str, found: pl.DataFrame, frozen: pl.DataFrame) -> list[Difference]:
    # A stored null is not compared.
    is_stored = frozen[name].is_not_null()
    pairs = frozen.select("seed", "shared", frozen=name).with_columns(found=found[name])
    pairs = pairs.filter(is_stored)
    sizes = np.ones(pairs.height, dtype=np.int64)
    if name not in SCENARIO_COLUMNS:
        sizes = pairs["frozen"].list.len().to_numpy().astype(np.int64)
        if (pairs["found"].list.len().to_numpy() != sizes).any():
            raise ValueError(f"column {name} has other lengths than the stored one")
        pairs = pairs.explode("frozen", "found")
    old, new = pairs["frozen"].to_numpy(), pairs["found"].to_numpy()
    offsets = np.cumsum(sizes) - sizes
    is_equal = _find_equal(name, old, new, pairs["shared"].to_numpy(), sizes, offsets)
    rows = np.arange(len(old)) - np.repeat(offsets, sizes)
    seeds = pairs["seed"].to_numpy()
    return [
        Difference(int(seeds[i]), name, int(rows[i]), old[i].item(), new[i].item())
        for i in np.flatnonzero(~is_equal)
    ]


def _find_equal(
    name: str,
    old: NDArray[Any],
    new: NDArray[Any],
    is_shared: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> NDArray[np.bool_]:
    if old.dtype.kind != "f":
        return np.asarray(old == new)
    is_identical = (old == new) | (np.isnan(old) & np.isnan(new))
    scale = np.maximum.reduceat(np.nan_to_num(np.abs(old)), offsets)
    tolerance = RELATIVE * np.abs(old) + ABSOLUTE * np.repeat(scale, sizes)
    is_close = np.abs(new - old) <= tolerance
    if name in TIMES:
        is_close &= is_shared
    return np.asarray(is_identical | is_close)


def main(arguments: list[str] | None = None) -> int:
    """Print all differences; with a seed, also its scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="compare this scenario only")
    seeds = parser.parse_args(arguments).seed
    frozen = read_outcomes()
    if seeds:
        frozen = frozen.filter(pl.col("seed").is_in(seeds))
        for seed in frozen["seed"]:
            print(f"seed {seed}: {make_case(seed)}")
    found = collect_outcomes(dict(frozen.select("seed", "shared").iter_rows()))
    differences = compare(found, frozen)
    for each in differences:
        print(each)
    affected = len({each.seed for each in differences})
    print(f"{len(differences)} differences in {affected} of {frozen.height} scenarios")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
