"""A command that cannot be begun leaves nothing behind."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

import pytest

from modules.runtimes.oci.streams import _pipes
from tests.support.descriptors import open_descriptors

if TYPE_CHECKING:
    from modules.runtimes.oci.crun.commands import Command


class _Refused:
    """A command whose program cannot be started, as at the machine's limit of processes."""

    def start(self, *_: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")


def test_a_command_that_cannot_be_started_leaves_no_file_open() -> None:
    """Its input too is closed: each try of `kubectl exec -i` would cost edgecore a file."""
    before = open_descriptors()
    with pytest.raises(BlockingIOError), contextlib.ExitStack() as stack:
        _pipes(cast("Command", _Refused()), "execute it", stdin=True, stack=stack)
    assert open_descriptors() <= before
