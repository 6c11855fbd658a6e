"""The regular checks of connections, without cloudhub: what may happen between two turns."""

from collections.abc import Callable

import pytest

from beehive.testing import FakeContext
from modules.cloud.cloudhub import connection_checks
from modules.cloud.cloudhub.connection_checks import ConnectionChecks
from modules.cloud.cloudhub.node_connection import Connection
from tests.modules.cloud.cloudhub.test_module import ListLink

INTERVAL = 30.0


class Hub:
    """What the checks ask of cloudhub; later turns are the test's."""

    def __init__(self) -> None:
        self.context = FakeContext()
        self.clock = self.context.clock
        self.later: list[Callable[[], None]] = []
        self.ended: list[str] = []
        self.due: list[str] = []
        self.connections: dict[str, Connection] = {}
        self.checks = ConnectionChecks(self, self.connections, INTERVAL)

    def call_soon(self, function: Callable[[], None], /) -> None:
        """Keep it."""
        self.later.append(function)

    def end_silent(self, node: str) -> None:
        """Note it."""
        self.ended.append(node)

    def send_overdue(self, node: str) -> None:
        """Note it."""
        self.due.append(node)

    def connect(self, *nodes: str) -> None:
        """Let nodes connect now."""
        for node in nodes:
            now = self.clock.monotonic()
            self.connections[node] = Connection(ListLink(), now, f"{node}-{now}", now)

    def turns(self) -> None:
        """Take all turns until nothing is left."""
        while self.later:
            self.later.pop(0)()


@pytest.fixture
def hub() -> Hub:
    return Hub()


def test_a_node_that_goes_before_its_portion_is_checked_is_passed_over(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_checks, "_PORTION", 2)
    hub.connect("n1", "n2", "n3", "n4")
    hub.checks.begin()
    hub.checks.begin()
    assert sorted(hub.due) == ["n1", "n2"]
    del hub.connections["n3"]
    hub.turns()
    assert sorted(hub.due) == ["n1", "n2", "n4"]
    hub.checks.begin()
    hub.turns()
    assert sorted(hub.due) == ["n1", "n1", "n2", "n2", "n4", "n4"]


def test_a_silent_node_that_is_heard_of_before_its_end_stays(hub: Hub) -> None:
    """By a keepalive that was in the inbox already, or by another connection."""
    hub.connect("silent", "late", "again", "gone")
    hub.context.simulation.run_for(INTERVAL + 1)
    hub.checks.begin()
    assert (hub.ended, hub.due) == ([], [])
    hub.connections["late"].alive_at = hub.clock.monotonic()
    hub.connect("again")
    del hub.connections["gone"]
    hub.turns()
    assert hub.ended == ["silent"]


def test_a_node_whose_socket_is_not_read_is_not_silent_and_gets_what_is_due(hub: Hub) -> None:
    hub.connect("n1")
    hub.connections["n1"].link.is_held_back = True  # type: ignore[misc]
    hub.context.simulation.run_for(INTERVAL + 1)
    hub.checks.begin()
    hub.turns()
    assert (hub.ended, hub.due) == ([], ["n1"])
