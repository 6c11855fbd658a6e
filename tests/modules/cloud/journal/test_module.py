"""The journal alone on a hive, with a real database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.names import Operation
from beehive.testing import Harness
from modules.cloud.journal.module import Journal
from modules.cloud.journal.store import LinkStore
from modules.cloud.messages import JOURNAL, JOURNAL_RESOURCE, LINKS, ConnectEvent, LinkQuery, LinkSession
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.turns import Turns


class Cloud:
    """The journal, and what a test does to it."""

    def __init__(self, bee: Harness, path: Path) -> None:
        self.bee = bee
        self.failures = 0
        self.is_short = False
        self._path = path
        bee.add(Journal, self._make, lambda: self.is_short)
        bee.start()

    def happens(self, operation: Operation, node: str, connection: str, at: int, reason: str = "") -> None:
        """Report what cloudhub reports."""
        event = ConnectEvent(operation.value, at, node, connection, reason, "192.0.2.7", 5.0)
        self.bee.send(JOURNAL, self.bee.message(f"node/{node}", operation, event, source="cloudhub"))

    def links(self) -> list[LinkSession]:
        """Return what the journal has."""
        answer = self.bee.ask(JOURNAL, self.bee.message(JOURNAL_RESOURCE, LINKS, LinkQuery()))
        assert answer.route.operation != Operation.ERROR, answer.content_as(str)
        found: list[LinkSession] = answer.content_as(list[LinkSession])
        return found

    def _make(self) -> LinkStore:
        if self.failures:
            self.failures -= 1
            raise DatabaseError("open the database", "x", "it is away")
        return LinkStore(str(self._path), "a", Turns())


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Start the journal."""
    with Harness() as bee:
        yield Cloud(bee, tmp_path / "cloud.db")


def test_a_connection_and_its_end_are_kept(cloud: Cloud) -> None:
    cloud.happens(Operation.CONNECTED, "n1", "c1", 100)
    cloud.happens(Operation.DISCONNECTED, "n1", "c1", 160, "no keepalive\x1b[2J for 30 s")
    assert cloud.links() == [
        LinkSession("n1", "c1", "a", 100.0, 160.0, "no keepalive\\x1b[2J for 30 s", "192.0.2.7", 5.0)
    ]


def test_events_of_a_moment_share_a_transaction_and_wait_for_a_database_that_is_away(cloud: Cloud) -> None:
    cloud.bee.run_for(1.0)
    cloud.failures = 3
    cloud.happens(Operation.CONNECTED, "n1", "c1", 100)
    cloud.bee.run_for(60.0)
    (link,) = cloud.links()
    assert (link.connection, link.ended) == ("c1", 0.0)


def test_a_full_disk_is_left_to_what_nodes_need(cloud: Cloud) -> None:
    cloud.is_short = True
    cloud.happens(Operation.CONNECTED, "n1", "c1", 100)
    assert cloud.links() == []
    cloud.is_short = False
    cloud.bee.run_for(60.0)
    assert [each.connection for each in cloud.links()] == ["c1"]


def test_a_name_that_no_node_can_have_costs_the_others_nothing(cloud: Cloud) -> None:
    cloud.happens(Operation.CONNECTED, "n" * 254, "c1", 100)
    cloud.happens(Operation.CONNECTED, "n2", "c2", 100)
    assert [each.node for each in cloud.links()] == ["n2"]
