"""Write the lock files: exact versions with the hashes of their files, for every target of make.

One resolution covers all groups, so that two groups never disagree about a version; each group
then gets its own file, and `make demo` does not wait for the linters. The files hold for all
supported versions of Python and all platforms. Run it with `make lock`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent / "pyproject.toml"

#: Tools that only the Makefile calls.
TOOLS = {
    "lock": ["uv>=0.9"],
    "release": ["build>=1.2", "cibuildwheel==4.*"],
}


def read_groups() -> dict[str, list[str]]:
    """The requirements of each group as pyproject.toml states them."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    groups = {
        "build": [*project["build-system"]["requires"], "cmake>=3.21", "ninja"],
        "run": project["project"]["dependencies"],
    }
    for name, wanted in extras.items():
        if not any(each.startswith("twinloop[") for each in wanted):
            groups[name] = wanted
    return groups | TOOLS


def compile_lock(wanted: list[str], output: Path, *options: str) -> None:
    """Resolve requirements with the public index alone, whatever this machine is set up to use."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))
    }
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-config",
        "--universal", "--python-version", "3.11", "--generate-hashes",
        "--no-emit-index-url",
        "--no-emit-find-links", "--no-header", "--no-annotate",
        "--output-file", str(output), *options,
    ]  # fmt: skip
    text = "\n".join(wanted) + "\n"
    subprocess.run(command, input=text, text=True, check=True, cwd=HERE, env=environment)


def main(arguments: list[str]) -> None:
    """Compile all groups together, then each group under these versions.

    `--print GROUP` writes the requirements of a group as they are; `--upgrade` takes newer ones.
    """
    groups = read_groups()
    if arguments[:1] == ["--print"]:
        print(*groups[arguments[1]], sep="\n")
        return
    everything = HERE / ".all.txt"
    if "--upgrade" not in arguments:
        # What is locked stays, as far as pyproject.toml allows it.
        kept = [(HERE / f"{name}.txt") for name in groups]
        everything.write_text(
            "\n".join(path.read_text(encoding="utf-8") for path in kept if path.exists()),
            encoding="utf-8",
        )
    try:
        compile_lock([each for wanted in groups.values() for each in wanted], everything)
        for name, wanted in groups.items():
            path = HERE / f"{name}.txt"
            path.unlink(missing_ok=True)
            compile_lock(wanted, path, "--constraints", everything.name)
            text = path.read_text(encoding="utf-8")
            path.write_text("# Written by `make lock`.\n" + text, encoding="utf-8")
    finally:
        everything.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
