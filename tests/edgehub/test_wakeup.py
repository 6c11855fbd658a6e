"""The wakeup of a link: set once until it is cleared, and never in vain."""

import os
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import closing

import pytest

from beehive import RealClock
from edgehub.transport import Transport
from edgehub.upgrade import Target

LONG = 60.0
"""Longer than any woken waiter waits, in seconds."""

_clock = RealClock()


@pytest.fixture
def transport() -> Iterator[Transport]:
    """Connected to somebody who says nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(Transport(Target.parse(f"ws://127.0.0.1:{server.getsockname()[1]}/"), _clock)) as connected,
    ):
        connected.connect(_clock.monotonic() + LONG)
        yield connected


def is_woken(transport: Transport) -> bool:
    """Waits; whether that ended before its time, without anything to read."""
    return not transport.wait(write=False, until=_clock.monotonic() + LONG)


def test_the_eventfd_is_written_once_until_it_is_read(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write = os.eventfd_write

    def counted(descriptor: int, value: int) -> None:
        written.append(value)
        write(descriptor, value)

    monkeypatch.setattr(os, "eventfd_write", counted)
    for _ in range(2):
        for _ in range(3):
            transport.wake()
        assert is_woken(transport)
    assert len(written) == 2


def test_nothing_that_was_there_before_a_ring_stays_unseen(transport: Transport) -> None:
    number, things, seen = 20_000, deque[int](), 0

    def produce() -> None:
        for each in range(number):
            things.append(each)
            transport.wake()

    producer = threading.Thread(target=produce)
    producer.start()
    while seen < number:
        assert is_woken(transport)
        while things:
            assert things.popleft() == seen
            seen += 1
    producer.join()


def test_after_the_end_nothing_is_rung(transport: Transport) -> None:
    transport.wake()
    transport.close()
    transport.wake()
