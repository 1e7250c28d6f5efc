"""The command `twinloop`, which is also `python -m twinloop`."""

import atexit
import gc
import sys
from types import TracebackType


def show_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an unexpected error with its traceback, control characters escaped.

    The message may repeat names from files, whose control characters a terminal would execute.

    >>> from contextlib import redirect_stderr
    >>> with redirect_stderr(sys.stdout):
    ...     show_error(ValueError, ValueError("a\\x1b]0;b\\x07"), None)
    ValueError: a\\x1b]0;b\\x07
    """
    import traceback

    from twinloop.description.safe_text import escape_controls

    print(
        escape_controls("".join(traceback.format_exception(kind, error, trace))),
        end="",
        file=sys.stderr,
    )


def reduce_garbage_collection() -> None:
    """Search for cycles of unused objects less often, and not when the process ends.

    The imports create about 100,000 objects that are all in use until the end: by default the
    collector searches them again and again, and once more before the memory is released anyway.
    """
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)


def main() -> None:
    """Run the command line.

    >>> from contextlib import suppress
    >>> from unittest.mock import patch
    >>> with patch("sys.argv", ["twinloop", "--version"]), suppress(SystemExit):
    ...     main()
    twinloop ...
    """
    reduce_garbage_collection()
    sys.excepthook = show_error  # before the import of Typer, which stores the hook that it finds
    try:
        # Imported here, because the import takes time, in which Ctrl-C must not print a traceback.
        from twinloop.cli import app
        from twinloop.cli.interrupt import DeferredInterrupt

        DeferredInterrupt().install()
        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
