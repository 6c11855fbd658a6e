"""Questions to the person at the terminal."""

import sys

_LONGEST = 16
"""Characters of an answer that are read."""


def is_confirmed(question: str) -> bool:
    """Ask on standard error, and return whether the answer is yes."""
    sys.stderr.write(f"edgecore: {question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline(_LONGEST).strip().lower() in ("y", "yes")
