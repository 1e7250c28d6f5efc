"""NumPy is imported with one thread of linear algebra, and the environment stays as it is."""

import json
import os
import subprocess
import sys

import pytest

from twinloop.cli.blas_threads import VARIABLES

IMPORT = """
import json, os, sys
before = dict(os.environ)
from twinloop.cli.blas_threads import import_numpy_with_one_thread
import_numpy_with_one_thread()
is_imported = "numpy" in sys.modules
is_unchanged = os.environ == before
import threadpoolctl
import numpy
threads = [
    pool["num_threads"]
    for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "openblas"
]
print(json.dumps([is_unchanged, is_imported, threads]))
"""


def import_with(**variables: str) -> list[object]:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env=environment | variables,
    )
    result: list[object] = json.loads(done.stdout)
    return result


def test_linear_algebra_has_one_thread_by_default() -> None:
    is_unchanged, is_imported, threads = import_with()
    assert (is_unchanged, is_imported) == (True, True)
    assert threads in ([1], [])  # none on a platform whose NumPy has another library


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_number_that_the_user_sets_is_left_to_numpy(variable: str) -> None:
    is_unchanged, is_imported, _ = import_with(**{variable: "2"})
    assert (is_unchanged, is_imported) == (True, False)
