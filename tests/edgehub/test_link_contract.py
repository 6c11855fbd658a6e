"""The contract of a link, held by the real one and by the one in memory."""

import contextlib
import queue
from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest

from beehive import RealClock, Threads
from edgehub.errors import ClosedHereError, DialError
from edgehub.link import Link
from edgehub.websocket import WebsocketLink
from modules.lab.doubles.memory_cloud import MemoryCloud
from tests.edgehub.clouds import LibraryCloud
from tests.edgehub.links import RunningLink, settings
from tests.support.patience import PATIENCE

LIMIT = 100_000


class Bed(ABC):
    """A kind of link and the cloud it leads to."""

    @abstractmethod
    def link(self) -> Link:
        """A link to the cloud."""

    @abstractmethod
    def link_to_nowhere(self) -> Link:
        """A link that cannot come up."""

    @abstractmethod
    def deliver(self, frame: bytes) -> None:
        """The cloud sends."""

    @abstractmethod
    def frame(self) -> bytes:
        """What the cloud gets next."""

    @abstractmethod
    def cut(self) -> None:
        """The cloud ends the link."""


class MemoryBed(Bed):
    """In memory, on threads."""

    def __init__(self) -> None:
        self._frames: queue.Queue[bytes] = queue.Queue()
        self._cloud = MemoryCloud(Threads(), LIMIT, self._frames.put)

    def link(self) -> Link:
        return self._cloud.make_link()

    def link_to_nowhere(self) -> Link:
        self._cloud.refusing = True
        return self._cloud.make_link()

    def deliver(self, frame: bytes) -> None:
        self._cloud.send(frame)

    def frame(self) -> bytes:
        return self._frames.get(timeout=PATIENCE)

    def cut(self) -> None:
        self._cloud.cut()


class WebsocketBed(Bed):
    """Over websocket, with the `websockets` package at the other end."""

    def __init__(self, cloud: LibraryCloud) -> None:
        self._cloud = cloud

    def link(self) -> Link:
        return WebsocketLink(settings(self._cloud.port, max_frame_bytes=LIMIT), RealClock())

    def link_to_nowhere(self) -> Link:
        return WebsocketLink(settings(1), RealClock())

    def deliver(self, frame: bytes) -> None:
        connection = self._cloud.current or self._cloud.accept()
        connection.send(frame.decode())

    def frame(self) -> bytes:
        frame = self._cloud.frame()
        return frame.encode() if isinstance(frame, str) else frame

    def cut(self) -> None:
        connection = self._cloud.current or self._cloud.accept()
        connection.close_socket()


@pytest.fixture(params=["memory", "websocket"])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """Each kind of link."""
    with contextlib.ExitStack() as stack:
        yield MemoryBed() if request.param == "memory" else WebsocketBed(stack.enter_context(LibraryCloud()))


def test_opened_comes_once_and_first(bed: Bed) -> None:
    """Before the first message."""
    with RunningLink(bed.link()) as running:
        running.wait_open()
        bed.deliver(b'{"a":1}')
        assert running.frame() == b'{"a":1}'
        bed.deliver(b'{"a":2}')
        assert running.frame() == b'{"a":2}'
    assert running.events[0] == "opened"
    assert running.events.count("opened") == 1


def test_frames_leave_in_order_and_are_all_confirmed(bed: Bed) -> None:
    """The sender learns that they were read."""
    frames = [f'{{"n":{number}}}'.encode() for number in range(500)]
    with RunningLink(bed.link()) as running:
        running.wait_open()
        for frame in frames:
            running.link.send(frame)
        assert [bed.frame() for _ in frames] == frames
        running.wait_confirmed(len(frames))
    assert running.arrived == len(frames)


def test_frames_come_in_order(bed: Bed) -> None:
    """As the cloud sent them."""
    frames = [f'{{"n":{number}}}'.encode() for number in range(500)]
    with RunningLink(bed.link()) as running:
        running.wait_open()
        for frame in frames:
            bed.deliver(frame)
        assert [running.frame() for _ in frames] == frames


def test_a_message_over_the_limit_is_skipped_and_the_link_stays(bed: Bed) -> None:
    """The error has its beginning and size; the next message comes."""
    large = b'{"header":{"msg_id":"m"}' + b" " * LIMIT + b"}"
    with RunningLink(bed.link()) as running:
        running.wait_open()
        bed.deliver(large)
        bed.deliver(b"{}")
        assert running.frame() == b"{}"
        head, size = running.skips.get(timeout=PATIENCE)
    assert size == len(large)
    assert large.startswith(head)
    assert head.startswith(b'{"header":{"msg_id":"m"}')


def test_an_end_by_the_cloud_is_not_an_end_by_us(bed: Bed) -> None:
    """`run` returns and says so."""
    with RunningLink(bed.link()) as running:
        running.wait_open()
        bed.cut()
        end = running.wait_end()
    assert not isinstance(end, ClosedHereError)
    assert end.retryable


def test_closing_ends_it_after_the_sent_messages(bed: Bed) -> None:
    """What was sent before still leaves; closing again changes nothing."""
    with RunningLink(bed.link()) as running:
        running.wait_open()
        frames = [str(number).encode() * 1000 for number in range(20)]
        for frame in frames:
            running.link.send(frame)
        running.link.close()
        running.link.close()
        assert isinstance(running.wait_end(), ClosedHereError)
        assert [bed.frame() for _ in frames] == frames


def test_a_link_that_has_ended_takes_no_harm(bed: Bed) -> None:
    """Sending and closing come from another thread and may be late."""
    with RunningLink(bed.link()) as running:
        running.wait_open()
        bed.cut()
        running.wait_end()
        running.link.send(b"{}")
        running.link.close()
    assert running.arrived == 0


def test_a_cloud_that_is_not_there_is_a_dial_error(bed: Bed) -> None:
    """And nothing was ever open."""
    with RunningLink(bed.link_to_nowhere()) as running:
        assert isinstance(running.wait_end(), DialError)
    assert running.events == []


def test_a_link_closed_before_it_runs_does_not_come_up(bed: Bed) -> None:
    """The module may stop between making and running it."""
    link = bed.link()
    link.close()
    with RunningLink(link) as running:
        assert isinstance(running.wait_end(), ClosedHereError)
    assert running.events in ([], ["opened"])
