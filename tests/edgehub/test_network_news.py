"""edgehub's reaction to network changes: it pings a live link, and dials the cloud without one."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from edgehub.errors import ClosedHereError, DeadPeerError
from edgehub.network.guard import LONGEST_INTERVAL
from edgehub.ping_deadline import Flow
from edgehub.transport import Transport
from edgehub.websocket import CHECK_DEADLINE, WebsocketLink
from modules.lab.doubles.memory_cloud import MemoryLink
from tests.edgehub.beds import Bed, Fragile
from tests.edgehub.clouds import ScriptedCloud
from tests.edgehub.links import dial
from tests.edgehub.messages import message
from tests.end_to_end.processes import wait_until
from tests.support.clocks import Ahead
from tests.support.patience import PATIENCE


class Network:
    """A watch that tells what the test says."""

    def __init__(self) -> None:
        self.changed: Callable[[str], None] | None = None
        self.open = self.made = 0

    def make(self) -> "Network":
        self.open, self.made = self.open + 1, self.made + 1
        return self

    def run(self, changed: Callable[[str], None]) -> None:
        self.changed = changed

    def close(self) -> None:
        self.open -= 1

    def change(self, bed: Bed, what: str = "the default route has come") -> None:
        assert self.changed is not None
        self.changed(what)
        bed.bee.settle()


@contextmanager
def hanging() -> Iterator[tuple[Bed, Network]]:
    """A node whose first dial hangs."""
    network = Network()
    bed = Bed(watch_network=network.make)
    bed.cloud.hanging = True
    with bed.bee:
        bed.bee.start()
        yield bed, network


def test_a_change_has_a_live_link_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not end it."""
    checked: list[object] = []
    monkeypatch.setattr(MemoryLink, "check", lambda link: checked.append(link.__class__), raising=False)
    network = Network()
    bed = Bed(watch_network=network.make)
    with bed.bee:
        bed.bee.start()
        network.change(bed)
        assert checked == [MemoryLink]
        assert bed.counters.connected
        assert len(bed.cloud.dialled) == 1
    assert not network.open


def test_a_change_has_the_cloud_dialled_immediately_but_not_in_a_storm() -> None:
    """A node that has waited its way up to 30 s is back as soon as its network is."""
    network = Network()
    bed = Bed(refusing=True, watch_network=network.make)
    with bed.bee:
        bed.bee.start()
        bed.bee.run_for(120)
        tries = len(bed.cloud.dialled)
        bed.cloud.refusing = False
        network.change(bed)
        assert len(bed.cloud.dialled) == tries + 1
        assert bed.counters.connected
        bed.cloud.refusing = True
        bed.cut()
        tries = len(bed.cloud.dialled)
        for _ in range(100):
            network.change(bed)
        assert len(bed.cloud.dialled) - tries <= 2


def test_a_module_that_has_failed_closes_its_watch() -> None:
    network = Network()
    bed = Bed(hub=Fragile, watch_network=network.make)
    bed.bee.expect_failures()
    with bed.bee:
        bed.bee.start()
        bed.hub(message("default/poison/p", "insert"))
        bed.bee.run_for(60)
        assert (network.open, network.made) == (1, 2)


def test_a_watch_that_fails_is_given_up() -> None:
    """The link stays."""

    class Failing(Network):
        def run(self, changed: Callable[[str], None]) -> None:
            raise OSError("gone")

    bed = Bed(watch_network=Failing().make)
    with bed.bee:
        bed.bee.start()
        assert bed.counters.connected
        assert bed.bee.hive.restarts()["websocket"] == 0


def test_a_checked_peer_that_answers_stays_and_one_that_does_not_is_dead_soon() -> None:
    """Within three seconds instead of ten."""
    clock = Ahead()
    with ScriptedCloud() as cloud, dial(cloud.port, clock, ping_interval=60, read_deadline=120) as running:
        connection = cloud.accept()
        running.wait_open()
        assert isinstance(running.link, WebsocketLink)
        running.link.check()
        opcode, payload = connection.frame()
        assert opcode.name == "PING"
        connection.send(opcode.PONG, payload)
        running.link.check()
        assert connection.frame()[0].name == "PING"
        clock.seconds += CHECK_DEADLINE
        running.link._transport.wake()
        assert isinstance(running.wait_end(), DeadPeerError)
        assert CHECK_DEADLINE < 10


def test_a_checked_peer_gets_no_more_time_by_changes_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that comes and goes every second must not keep a dead link alive."""
    monkeypatch.setattr(Transport, "flow", lambda _transport: Flow())
    clock = Ahead()
    with ScriptedCloud() as cloud, dial(cloud.port, clock, ping_interval=60, read_deadline=120) as running:
        cloud.accept()
        running.wait_open()
        assert isinstance(running.link, WebsocketLink)
        link = running.link
        for _ in range(10):
            link.check()
            wait_until(
                lambda: not link._check_requested or running.end is not None, "it has heard of the change", PATIENCE
            )
            clock.seconds += 1.0
        assert isinstance(running.end, DeadPeerError)


def test_a_dial_that_hangs_in_the_old_network_is_restarted() -> None:
    """It may wait half a minute for an answer that cannot come."""
    with hanging() as (bed, network):
        bed.bee.run_for(5)
        assert bed.counters.connections == 0
        bed.cloud.hanging = False
        network.change(bed)
        bed.bee.run_for(0.1)
        assert len(bed.cloud.dialled) == 2
        assert bed.counters.connections == 1
        assert bed.counters.ends == {ClosedHereError.reason: 1}


def test_a_dial_comes_to_its_end_however_often_the_network_changes() -> None:
    """Each dial gets twice the time of the one before, until one has come through."""
    with hanging() as (bed, network):
        for _ in range(400):
            network.change(bed, "an address has come")
            bed.bee.run_for(0.5)
        gaps = [round(later - one) for one, later in itertools.pairwise(bed.cloud.dialled)]
        assert gaps == [0, 3, 6, 12, 24, 48, 60]
        bed.cloud.hanging = False
        bed.bee.run_for(LONGEST_INTERVAL)
        assert bed.counters.connected
        bed.cloud.hanging = True
        bed.cut(wait=60)
        tries = len(bed.cloud.dialled)
        for _ in range(10):
            network.change(bed, "an address has come")
            bed.bee.run_for(0.5)
        assert len(bed.cloud.dialled) >= tries + 2, "the next storm begins with the short time"
