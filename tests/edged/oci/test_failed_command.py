"""A command that cannot be begun leaves nothing behind."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from edged.oci.streams import _pipes

if TYPE_CHECKING:
    from edged.oci.driver.commands import Command


class _Refused:
    """A command whose program cannot be started, as at the machine's limit of processes."""

    def start(self, *_: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")


def test_a_command_that_cannot_be_started_leaves_no_file_open() -> None:
    """Its input too is closed: each try of `kubectl exec -i` would cost edgecore a file."""
    before = _open_files()
    with pytest.raises(BlockingIOError), contextlib.ExitStack() as stack:
        _pipes(cast("Command", _Refused()), stdin=True, stack=stack)
    assert _open_files() == before


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
