"""Number of threads of the linear algebra library of NumPy."""

from __future__ import annotations

import os
from typing import Final

#: The variables from which OpenBLAS takes the number of its threads.
VARIABLES: Final = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")


def import_numpy_with_one_thread() -> None:
    """Import NumPy with one thread for linear algebra, unless the user sets a number.

    OpenBLAS starts a thread per core when it is loaded, and each one spins for a while in the
    expectation of work. The environment is restored, because processes started later inherit it.
    """
    if any(name in os.environ for name in VARIABLES):
        return
    os.environ[VARIABLES[0]] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[VARIABLES[0]]
