"""Messages to systemd, and its watchdog's signs of life."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import Hive
from beehive.simulation import VirtualClock
from beehive.slot import Readiness, State
from edged.server.snapshots import Snapshots
from modules.processes.common.service_manager import IDLE_PERIOD, ServiceManager, Watch
from modules.processes.edgecore.liveness import NodeLiveness
from tests.support.directories import mark
from tests.support.failing import census
from tests.support.notify_socket import NotifySocket

WATCHDOG = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}


class FakeClock(VirtualClock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        super().__init__(1)

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire the timers."""
        until = self.monotonic() + seconds
        while self.fire_next(until):
            pass


@pytest.fixture
def notify(tmp_path: Path) -> Iterator[NotifySocket]:
    made = NotifySocket(tmp_path / "notify")
    yield made
    made.close()


def test_the_life_of_a_service(notify: NotifySocket) -> None:
    """Ready, fed three times in the watchdog's time while it is alive, and its stop is announced."""
    clock, alive = FakeClock(), [True]
    environment = {"NOTIFY_SOCKET": str(notify.path), **WATCHDOG, "PATH": "/bin"}
    watch = Watch(ServiceManager(environment), clock, lambda: ("two\npods", alive[0]))
    assert environment == {"PATH": "/bin"}
    watch.begin()
    assert notify.received() == ["READY=1", "STATUS=two\\npods", "WATCHDOG=1"]
    notify.lines.clear()
    clock.advance(10.0)
    assert notify.received() == ["STATUS=two\\npods", "WATCHDOG=1"]
    notify.lines.clear()
    alive[0] = False
    clock.advance(20.0)
    assert set(notify.received()) == {"STATUS=two\\npods"}
    notify.lines.clear()
    alive[0] = True
    watch.close()
    clock.advance(100.0)
    assert notify.received() == ["STOPPING=1", "STATUS=stopping"]


def test_a_stop_is_the_last_thing_that_is_reported(notify: NotifySocket) -> None:
    """Also if it comes while the clock's thread looks how the service does."""

    def look() -> tuple[str, bool]:
        watch.close()
        return "well", True

    clock = FakeClock()
    watch = Watch(ServiceManager({"NOTIFY_SOCKET": str(notify.path), **WATCHDOG}), clock, look)
    clock.advance(10.0)
    assert notify.received() == ["STOPPING=1", "STATUS=stopping"]


def test_without_a_watchdog_there_is_a_status(notify: NotifySocket) -> None:
    """A watchdog that is set for another process is ignored."""
    clock = FakeClock()
    environment = {"NOTIFY_SOCKET": str(notify.path), "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
    Watch(ServiceManager(environment), clock, lambda: ("well", True))
    clock.advance(IDLE_PERIOD)
    assert notify.received() == ["STATUS=well"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "vsock:2:1"}])
def test_nobody_listens(environment: dict[str, str]) -> None:
    """Nothing is done, and no timer runs."""
    clock = FakeClock()
    watch = Watch(ServiceManager(environment), clock, lambda: pytest.fail("nobody asks"))
    watch.close()
    clock.advance(1000.0)


def test_an_abstract_socket() -> None:
    """Its name begins with a zero byte, written as `@`."""
    name = f"edgecore-test-{mark()}-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as far:
        far.bind("\0" + name)
        ServiceManager({"NOTIFY_SOCKET": "@" + name}).ready()
        assert far.recv(100) == b"READY=1"


def test_a_manager_that_has_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The service goes on, and holds nothing open."""
    before = census()
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    assert not census().more_than(before)
    assert "cannot notify the service manager" in caplog.text


class Modules(dict[str, Readiness]):
    """Readiness of modules, as a hive reports it."""

    def __init__(self, **states: Readiness) -> None:
        super().__init__(states)
        self.clock = FakeClock()

    def readiness(self) -> dict[str, Readiness]:
        """Return the states."""
        return self


def liveness(modules: Modules, snapshots: Snapshots, sync_period: float = 60.0) -> NodeLiveness:
    """Return the liveness of a node with these modules."""
    return NodeLiveness(cast("Hive", modules), snapshots, "n1", sync_period)


def test_a_node_without_its_cloud_is_alive() -> None:
    """A restart would not bring the cloud back; the status says what is missing."""
    modules = Modules(edged=Readiness(State.READY), websocket=Readiness(State.NOT_READY, "no link"))
    snapshots = Snapshots()
    snapshots.pods = cast("Any", tuple(SimpleNamespace(status=SimpleNamespace(phase=p)) for p in ("Running", "Failed")))
    assert liveness(modules, snapshots).check() == ("node n1: 1 of 2 pods running; not ready: websocket no link", True)


@pytest.mark.parametrize("state", [State.FAILED, State.STARTING])
def test_a_module_that_failed(state: State) -> None:
    """It is restarted by its supervisor; if it stays down, systemd restarts the process."""
    status, alive = liveness(Modules(edged=Readiness(state, "OSError: x")), Snapshots()).check()
    assert not alive
    assert f"module edged is {state} OSError: x" in status


@pytest.mark.parametrize("relisted", [True, False])
def test_a_sync_loop_that_is_stuck(relisted: bool) -> None:
    """Five minutes without a look at the runtime, since the last or since the start."""
    modules, snapshots = Modules(edged=Readiness(State.READY)), Snapshots()
    if relisted:
        snapshots.relisted_at = modules.clock.monotonic()
    node = liveness(modules, snapshots)
    modules.clock.advance(299.0)
    assert node.check()[1]
    modules.clock.advance(2.0)
    assert node.check() == ("node n1 is not alive: sync loop: the last look at the runtime ended 301 s ago", False)
    assert liveness(modules, snapshots, sync_period=0.0).check()[1]
