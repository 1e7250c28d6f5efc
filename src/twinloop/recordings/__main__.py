"""Command that lists, extracts and packs sets of recorded runs.

python -m twinloop.recordings                           # the sets that are part of the package
python -m twinloop.recordings extract trust runs/trust  # write the runs of a set into a folder
python -m twinloop.recordings pack FOLDER ARCHIVE       # write the runs of a folder as an archive
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from twinloop.description.errors import TwinloopError, input_error_from_os_error
from twinloop.description.safe_text import escape_name
from twinloop.recordings import SETS, archive_path, extract_archive, pack_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 2 if its input cannot be used.

    >>> main([])
    demo   ...
    trust  ...
    0
    """
    parser = argparse.ArgumentParser(
        prog="python -m twinloop.recordings",
        description="List, extract and pack sets of recorded runs. The default is to list them.",
    )
    commands = parser.add_subparsers(dest="command")
    extract = commands.add_parser("extract", help="write the runs of a set into a folder")
    extract.add_argument("name", help=f"the set: {', '.join(SETS)}")
    extract.add_argument(
        "folder", type=Path, help="the folder to write, which must be new or empty"
    )
    pack = commands.add_parser("pack", help="write the runs of a folder as an archive")
    pack.add_argument("folder", type=Path, help="the folder of runs")
    pack.add_argument("archive", type=Path, help="the file to write: NAME.tar.zst")
    options = parser.parse_args(arguments)
    try:
        if options.command is None:
            width = max(map(len, SETS))
            for name, description in SETS.items():
                print(f"{name:<{width}}  {description}")
        elif options.command == "extract":
            print(
                escape_name(f"wrote {extract_archive(archive_path(options.name), options.folder)}")
            )
        else:
            print(escape_name(f"wrote {pack_folder(options.folder, options.archive)}"))
    except (TwinloopError, OSError) as error:
        problem = input_error_from_os_error(error) if isinstance(error, OSError) else error
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
