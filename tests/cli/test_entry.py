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
