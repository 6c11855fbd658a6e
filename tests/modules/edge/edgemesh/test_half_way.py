"""What the proxy for Services has left when a call fails half-way."""

import errno
import itertools
import os
import select
import socket
import threading
from contextlib import closing
from unittest.mock import Mock

import pytest

from beehive.clock import RealClock
from modules.edge.edgemesh.dns.server import _send_to
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.proxy.plane import ProxyPlane
from modules.edge.edgemesh.proxy.relay import Relay
from tests.end_to_end.processes import wait_until
from tests.modules.edge.edgemesh.objects import port_table
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


def _plane(clock: RealClock) -> ProxyPlane:
    return ProxyPlane(clock, HostAddresses(["/nowhere/program"]), ())


def test_a_proxy_that_cannot_begin_leaves_nothing_open() -> None:
    """The applier tries it again each minute."""
    clock = RealClock()

    def make(failing: Failing) -> Attempt:
        plane = _plane(clock)

        return Attempt(failing.in_kernel(plane.prepare), (plane,), undo=plane.close)

    assert fail_at_each_call(make) >= 2
    clock.close()


def test_a_proxy_without_a_thread_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, failing = RealClock(), Failing(0, RuntimeError("of this test"))
    plane = _plane(clock)
    before = census((plane,))
    monkeypatch.setattr(threading.Thread, "start", failing.call(threading.Thread.start))
    with pytest.raises(RuntimeError, match="of this test"):
        plane.prepare()
    failing.forget()
    assert not census((plane,)).more_than(before)
    clock.close()


def test_a_port_that_ends_while_it_rests_is_looked_at_no_more() -> None:
    """The look would fail each time, and no other port be looked at again."""
    clock = RealClock()
    plane, given = _plane(clock), port_table(("127.0.0.1", 9))
    with closing(select.epoll()) as plane._epoll:
        plane._most = 9
        plane._listen(given.key, given)
        listening = plane._listeners[given.key]
        assert isinstance(listening, socket.socket)
        for ends in (False, True):
            plane._next_look = 0.0
            plane._resting.append(listening)
            if ends:
                plane._end_listening(given.key)
            plane._expire()
            assert plane._resting == [], "nothing needs a look"
    clock.close()


def test_a_port_that_cannot_be_listened_on_leaves_no_socket() -> None:
    """It is tried again whenever the tables change."""
    clock = RealClock()

    def make(failing: Failing) -> Attempt:
        plane = _plane(clock)
        plane._epoll = failing.calls_of(select.epoll(), "register")
        plane._most = 9
        given = port_table(("127.0.0.1", 9))

        def run() -> None:
            with failing.kernel_calls():
                plane._listen(given.key, given)

        def undo() -> None:
            plane._end_listening(given.key)
            plane._epoll.close()

        return Attempt(run, (plane,), undo=undo)

    assert fail_at_each_call(make) >= 4
    clock.close()


def test_a_connection_that_fails_is_broken_off_and_forgotten() -> None:
    clock = RealClock()
    plane, relay = _plane(clock), Mock(is_open=False, event=Failing(0).call(print))
    plane._relays[relay] = "", ""
    with pytest.raises(PlannedError):
        plane._resume(relay)
    assert relay.break_off.called
    assert not plane._relays
    clock.close()


def test_a_connection_that_cannot_be_reset_is_closed() -> None:
    ours, theirs = socket.socketpair()
    relay = Relay(Failing(0).calls_of(ours, "setsockopt"), [], Mock(), Mock())
    relay.break_off()
    assert (relay.is_open, ours.fileno()) == (False, -1)
    theirs.close()


@pytest.mark.parametrize("number", [1, 2])
def test_a_connection_without_a_descriptor_for_its_pipes_leaves_none(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Each further one would have cost two more."""
    before, calls, pipe = census(), itertools.count(1), os.pipe2

    def limited(flags: int) -> tuple[int, int]:
        if next(calls) == number:
            raise OSError(errno.EMFILE, "Too many open files")
        return pipe(flags)

    monkeypatch.setattr(os, "pipe2", limited)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        client, far = socket.create_connection(address), listening.accept()[0]
        relay = Relay(client, [address], Mock(), Mock())
        relay.begin(0.0)
        wait_until(lambda: not relay.event(0.0) and not relay.is_open, "it is broken off")
        for each in (far, listening.accept()[0]):
            each.close()
    assert not census().more_than(before)


def test_an_answer_that_cannot_be_sent_ends_nothing() -> None:
    """The client may have gone, or the network."""
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        _send_to(Failing(0).calls_of(udp), ("127.0.0.1", 1), b"answer")


def test_a_connection_that_cannot_begin_is_closed() -> None:
    """Its client would wait for the proxy in place of another endpoint."""
    client = Mock()
    plane = Mock(_begin=Failing(0).call(print))
    with pytest.raises(PlannedError):
        ProxyPlane._accept(plane, "key", Mock(accept=lambda: (client, ("192.0.2.1", 9))))
    client.close.assert_called_once_with()
