"""The error for a command that does not exist, with advice."""

from collections.abc import Collection
from typing import Final

_OTHER_WORDS: Final = {
    "delete": ("remove", "delete"),
    "load": ("import",),
    "ls": ("list",),
    "ps": ("list",),
    "rm": ("remove", "delete"),
    "rmi": ("remove",),
    "save": ("export",),
    "validate": ("check",),
}
"""Words of docker, podman, crictl and ctr, and the likely command here."""


def unknown_command(word: str, names: Collection[str]) -> str:
    """Return the error for a command that does not exist, with the names that mean the same, or else are like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - a right command line does without it

    near = [name for name in _OTHER_WORDS.get(word, ()) if name in names] or get_close_matches(word, names, n=3)
    return f'unknown command "{word}"' + (f"; did you mean {' or '.join(near)}?" if near else "")
