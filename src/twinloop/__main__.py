"""The command `twinloop`, which is also `python -m twinloop`."""

import sys


def main() -> None:
    """Run the command line.

    >>> from contextlib import suppress
    >>> from unittest.mock import patch
    >>> with patch("sys.argv", ["twinloop", "--version"]), suppress(SystemExit):
    ...     main()
    twinloop ...
    """
    try:
        # Imported here, because it takes a moment in which the user may change their mind.
        from twinloop.cli import app

        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
