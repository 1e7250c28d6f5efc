"""The entry point of the commands: the module, and interrupts while it is loaded."""

import subprocess
import sys

import pytest

IMPATIENT = """
import sys

class Impatient:
    def find_spec(self, name, *rest):
        if name == "{module}":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Impatient())
sys.argv = ["twinloop", "check", "log.swf"]
from twinloop.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["twinloop.cli", "typer", "twinloop.cli.check", "polars"])
def test_an_interrupt_during_loading_prints_no_traceback(module: str) -> None:
    code = IMPATIENT.format(module=module)
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


def test_the_module_is_the_command() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "twinloop", "--version"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert ended.stdout.startswith("twinloop ")


COLLECTIONS = """
import gc, sys
from contextlib import suppress
from twinloop.__main__ import main

before = gc.get_stats()[2]["collections"]
sys.argv = ["twinloop", "simulate", "--help"]
with suppress(SystemExit):
    main()
import twinloop.engine
imports = gc.get_stats()[2]["collections"] - before

class Cycle:
    def __init__(self):
        self.itself = self

count = 1_000_000
left = count
def decrease(_):
    global left
    left -= 1
Cycle.__del__ = decrease
for _ in range(count):
    Cycle()
print(imports, left < count // 2, file=sys.stderr)
"""


def test_imports_cause_no_full_garbage_collection_but_cycles_are_collected() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTIONS], capture_output=True, encoding="utf-8", check=True
    )
    assert ended.stderr == "0 True\n"
