"""The relay between a client's connection and a stream of a node."""

import os
import socket
import threading
from contextlib import closing

import pytest

from beehive import RealClock
from modules.cloud.cloudstream import relay as module
from modules.cloud.cloudstream.relay import relay


class SilentStream:
    """A stream of a command that neither reads nor prints."""

    failure = ""
    is_over = False
    room = 0

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Return a descriptor that is never readable."""
        return self._event

    def take(self, _now: float) -> bytes:
        """Return nothing."""
        return b""

    def send(self, data: bytes) -> None:
        """Refuse: there is no room."""
        raise AssertionError(data)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._event)


def test_a_client_that_goes_is_noticed_while_its_command_reads_nothing() -> None:
    """Such a connection is polled for nothing, and reports its end without end: a thread would turn for ever."""
    ours, theirs = socket.socketpair()
    with ours, closing(SilentStream()) as stream:
        threading.Timer(0.1, theirs.close).start()
        with pytest.raises(ConnectionResetError):
            relay(ours, stream, b"", RealClock())


def test_a_relay_ends_when_both_sides_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs, closing(SilentStream()) as stream:
        relay(ours, stream, b"", RealClock())
