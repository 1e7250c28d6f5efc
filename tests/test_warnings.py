"""Warnings are errors in every test, also in threads and in code without a caller."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import gc, threading, warnings

def test_a_warning():
    warnings.warn("old", DeprecationWarning)

def test_an_exception_in_a_thread():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()

def test_an_exception_in_a_finaliser():
    class Broken:
        def __del__(self):
            raise ValueError("here")
    Broken()
    gc.collect()

def test_a_file_that_is_not_closed():
    open(__file__)
    gc.collect()

def test_nothing():
    pass
"""


def test_each_kind_of_warning_fails_a_test(tmp_path: Path) -> None:
    file = tmp_path / "test_warnings.py"
    file.write_text(TESTS, encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", ROOT / "pyproject.toml"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 failed, 1 passed" in found.stdout, found.stdout
