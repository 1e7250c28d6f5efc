"""From nothing to a log, a verdict on it, its sessions, and a form that other simulators read.

Every step is what a user would type: it is printed, and then run.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import twinloop as tl


def step(*words: str, folder: Path) -> None:
    """Show a command, and run it."""
    print(f"\n$ twinloop {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "twinloop", *words], cwd=folder, check=True)


def sessions(log: Path, picture: Path) -> None:
    """Find the sessions of the users, and draw the graph of the one with most branches."""
    graphs = tl.SessionGraphs.of(tl.read(log), by="arrival", threshold=600)
    branchy = max(graphs.users, key=lambda user: graphs[user].arity())
    picture.write_text(graphs[branchy].to_svg(), encoding="utf-8")
    print(f"\n{graphs}")
    print(graphs[branchy], f"is drawn in {picture}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where to leave what is made")
    parser.add_argument("--picture", type=Path, help="where to draw the sessions")
    wanted = parser.parse_args()
    folder = wanted.folder or Path(tempfile.mkdtemp(prefix="twinloop-"))
    folder.mkdir(parents=True, exist_ok=True)

    step("generate", "sessions", "log.swf", "--tasks", "3000", "--users", "25", "--seed", "1",
         "--overwrite", folder=folder)  # fmt: skip
    step("inspect", "log.swf", "--picture", "load.html", "--overwrite", folder=folder)
    step("check", "log.swf", folder=folder)
    step("convert", "log.swf", "day.opendc", "--end", "86400", "--overwrite", folder=folder)
    sessions(folder / "log.swf", wanted.picture or folder / "sessions.svg")
    print(f"\nall of it is in {folder}; `. .venv/bin/activate` puts `twinloop` on the path")


if __name__ == "__main__":
    main()
