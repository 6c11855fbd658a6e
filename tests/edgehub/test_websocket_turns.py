"""The turns of a link's thread, one by one: a connection that says what a test wants, and a clock that stands."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import Clock
from edgehub.errors import DeadPeerError, LinkLostError
from edgehub.ping_deadline import Flow
from edgehub.websocket import CHECK_DEADLINE, LINGER, WebsocketLink
from tests.edgehub.links import settings
from tests.support.clocks import StandingClock


class _Connection:
    """A connection (`Transport`). Waiting takes all the time that it may."""

    def __init__(self, clock: StandingClock) -> None:
        self._clock = clock
        self.stopping = False
        self.takes = 1 << 20
        """Bytes that one call of `send` takes."""
        self.said: list[bytes | None] = []
        """What `receive` returns; nothing further comes."""
        self.sent: list[bytes] = []
        self.done: list[str] = []

    def send(self, data: memoryview) -> int:
        if taken := bytes(data[: self.takes]):
            self.sent.append(taken)
        return len(taken)

    def receive(self, _: int) -> bytes | None:
        self.done.append("receive")
        return self.said.pop(0) if self.said else None

    def wait(self, *, write: bool, until: float) -> bool:
        assert len(self.done) < 99, "it goes on"
        self.done.append("wait to write" if write else "wait")
        self._clock.go(max(0.0, until - self._clock.monotonic()) / 2 + 0.01)
        return False

    def end_writing(self) -> None:
        self.done.append("end")

    def flow(self) -> Flow:
        return Flow()

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None


class _Link:
    """A link, its connection and its clock."""

    def __init__(self, **changes: object) -> None:
        self.clock = StandingClock()
        self.link = WebsocketLink(
            settings(1, **{"ping_interval": 100.0, "read_deadline": 10.0, **changes}), cast("Clock", self.clock)
        )
        self.connection = _Connection(self.clock)
        self.link._transport = cast("Any", self.connection)
        self.link._last_read = self.clock.monotonic()

    def deadline(self) -> float:
        """Seconds until the next ping or deadline."""
        return self.link._deadline() - self.clock.monotonic()


def test_a_silent_cloud_is_pinged_once_and_has_half_of_the_deadline_to_answer() -> None:
    """Also if this process stood still meanwhile; an interval of pings that is longer changes nothing."""
    made = _Link()
    assert made.deadline() == 5.0
    made.clock.go(20.0)
    assert made.deadline() == 5.0
    made.clock.go(4.0)
    assert made.deadline() == 1.0
    assert len(made.connection.sent) == 1
    made.clock.go(1.0)
    with pytest.raises(DeadPeerError, match="nothing received"):
        made.deadline()


def test_a_change_of_the_network_shortens_the_deadline_once() -> None:
    """Until something comes; another one sends no second ping."""
    made = _Link()
    for _ in range(2):
        made.link.check()
        assert made.deadline() == CHECK_DEADLINE
    assert len(made.connection.sent) == 1
    made.connection.said = [b"\x81"]
    made.link._read(cast("Any", None))
    assert made.deadline() > CHECK_DEADLINE


def test_a_change_of_the_network_puts_no_deadline_off() -> None:
    made = _Link(read_deadline=4.0)
    made.clock.go(2.5)
    made.link.check()
    assert made.deadline() == 2.0


def test_a_cloud_that_takes_bytes_is_alive() -> None:
    """A while longer, from the last that it took, or that it acknowledged of a ping."""
    made = _Link(write_deadline=10.0)
    made.link._unwritten = memoryview(b"x")
    made.clock.go(9.0)
    made.link._last_write = made.clock.monotonic()
    assert made.link._dead() - made.clock.monotonic() == 5.0
    made.link._last_read = made.clock.monotonic() + 100.0
    made.link._last_write -= 10.0
    with pytest.raises(DeadPeerError, match="accepted nothing"):
        made.deadline()
    made.link._ping_deadline.last_progress = made.clock.monotonic()
    assert made.deadline() == 10.0


@pytest.mark.parametrize("takes", [0, 1 << 20])
def test_a_link_that_is_closed_waits_for_the_last_bytes_to_be_read(takes: int) -> None:
    """A second at most; to a cloud that takes nothing it says no end."""
    made = _Link()
    made.link.send(b"last")
    made.connection.takes, made.connection.said = takes, [None, b"more", b""]
    made.link._finish()
    assert made.connection.done.count("end") == made.connection.done.count("wait") / 2 == (takes > 0)
    assert made.clock.monotonic() - made.link._last_read < LINGER + 0.1


def test_a_control_frame_that_is_taken_in_part_goes_on_before_all_others() -> None:
    made = _Link()
    made.connection.takes = 3
    made.link._write_control(b"ping and more")
    made.connection.takes = 1 << 20
    made.link._write()
    assert b"".join(made.connection.sent) == b"ping and more"


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), OSError(113, "No route to host")])
def test_a_connection_that_breaks_for_any_reason_is_lost(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    made = _Link()

    def dial() -> bytes:
        raise error

    monkeypatch.setattr(made.link, "_dial", dial)
    assert isinstance(made.link.run(cast("Any", None)), LinkLostError)


def test_what_came_with_the_answer_to_the_upgrade_is_handled_first() -> None:
    made, received = _Link(), list[bytes]()
    made.connection.said = [b"answer"]
    made.link._upgrade = cast("Any", SimpleNamespace(request=bytes, feed=lambda _: b"rest", compression=None))
    assert made.link._dial() == b"rest"
    made.connection.stopping = True
    made.link._serve(cast("Any", SimpleNamespace(received=received.append)), b"\x81\x05first")
    assert received == [b"first"]
