"""Lines that a command of the tests prints while it works."""

import sys


def say(text: object) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
