"""What a container said when it ended: the file at its terminationMessagePath (kubelet's getTerminationMessage)."""

import os
from pathlib import Path

LONGEST = 4096
"""Bytes that are read, as a kubelet's MaxContainerTerminationMessageLength."""


def read_last_words(path: Path) -> str:
    """The file's beginning as text; empty when it is not there. No link is followed: the container may write here."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LONGEST).decode("utf-8", "replace")
