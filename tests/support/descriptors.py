"""The descriptors that this process has open."""

import os
from contextlib import suppress


def open_descriptors() -> set[tuple[int, str]]:
    """Return each open descriptor's number and what it refers to.

    A test compares by `<=` with what was open before: gRPC's threads close connections of earlier tests at any time.
    """
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))  # noqa: PTH115
    return found
