"""What the proxy for Services has left when a call fails half-way."""

import select

from beehive.clock import RealClock
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.proxy.plane import ProxyPlane
from tests.modules.edge.edgemesh.objects import port_table
from tests.support.failing import Attempt, Failing, fail_at_each_call


def _plane(clock: RealClock) -> ProxyPlane:
    return ProxyPlane(clock, HostAddresses(["/nowhere/program"]), ())


def test_a_proxy_that_cannot_begin_leaves_nothing_open() -> None:
    """The applier tries it again each minute."""
    clock = RealClock()

    def make(failing: Failing) -> Attempt:
        plane = _plane(clock)

        def run() -> None:
            with failing.kernel_calls():
                plane.prepare()

        return Attempt(run, (plane,), undo=plane.close)

    assert fail_at_each_call(make) >= 2
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
