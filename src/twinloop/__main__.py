"""`python -m twinloop` is the command `twinloop`."""

from twinloop.cli import app

if __name__ == "__main__":
    app()
