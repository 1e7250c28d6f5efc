"""The command `twinloop`, which is also `python -m twinloop`."""

import sys
from types import TracebackType


def show_error(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print an error that is not foreseen, with what it repeats of files escaped.

    >>> from contextlib import redirect_stderr
    >>> with redirect_stderr(sys.stdout):
    ...     show_error(ValueError, ValueError("a\\x1b]0;b\\x07"), None)
    ValueError: a\\x1b]0;b\\x07
    """
    import traceback

    from twinloop.description.safe_text import escape_controls

    print(
        escape_controls("".join(traceback.format_exception(kind, error, at))),
        end="",
        file=sys.stderr,
    )


def main() -> None:
    """Run the command line.

    >>> from contextlib import suppress
    >>> from unittest.mock import patch
    >>> with patch("sys.argv", ["twinloop", "--version"]), suppress(SystemExit):
    ...     main()
    twinloop ...
    """
    sys.excepthook = show_error  # before typer is loaded, which calls the one that it finds
    try:
        # Imported here, because it takes a moment in which the user may change their mind.
        from twinloop.cli import app
        from twinloop.cli.interrupt import DeferredInterrupt

        DeferredInterrupt().install()
        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
