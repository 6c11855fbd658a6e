"""Sockets for notifications that fail half-way."""

import socket

import pytest

from beehive.sockets.netlink import NetlinkListener
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


def test_a_socket_for_notifications_is_closed_if_it_cannot_listen() -> None:
    made: list[NetlinkListener] = []

    def make(failing: Failing) -> Attempt:
        def run() -> None:
            with failing.kernel_calls():
                made.append(NetlinkListener(socket.NETLINK_ROUTE, 1, 4096))

        def undo() -> None:
            made[-1].close()
            made[-1].listen(lambda: None)

        return Attempt(run, undo=undo)

    assert fail_at_each_call(make) >= 3


def test_a_socket_for_notifications_is_closed_if_its_reader_fails() -> None:
    before = census()
    listener, failing = NetlinkListener(socket.NETLINK_ROUTE, 1), Failing(0)
    listener._wakeup.wake()  # as a notification does
    with pytest.raises(PlannedError):
        listener.listen(failing.step)
    failing.forget()
    assert not census().more_than(before)
    listener.close()
