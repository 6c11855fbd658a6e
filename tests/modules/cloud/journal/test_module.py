"""The journal alone on a hive, with a real database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive.names import ModuleName, Operation
from beehive.testing import Harness
from beehive.turns import Turns
from modules.cloud.device_values import REPORTED, VALUES, VALUES_RESOURCE, DeviceValue, ValueList, ValueQuery
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.links import LinkStore
from modules.cloud.journal.module import Journal
from modules.cloud.journal.writes import WriteStore
from modules.cloud.messages import JOURNAL_RESOURCE, LINKS, ConnectEvent, LinkQuery, LinkSession
from modules.cloud.object_writes import (
    CHANGED,
    JOURNAL,
    NOTED,
    REVOKED,
    WRITES,
    WRITES_RESOURCE,
    WRITTEN,
    ObjectWrite,
    WriteList,
    WriteQuery,
    access_entry,
    node_user,
)
from modules.cloud.storage.database.errors import DatabaseError


class Cloud:
    """The journal, and what a test does to it."""

    def __init__(self, bee: Harness, path: Path, failures: int = 0, **settings: Any) -> None:
        self.bee = bee
        self.failures = failures
        self.is_short = False
        self._path = path
        bee.add(Journal, self._make, "a", lambda: self.is_short, **settings)
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

    def written(self, *versions: int, user: str = "jan") -> None:
        """Report writes as the API server does."""
        found = [
            ObjectWrite(self.bee.clock.now(), user, "kubectl", CHANGED, "ConfigMap", "shop", "conf", "u1", each)
            for each in versions
        ]
        self.bee.send(JOURNAL, self.bee.message(WRITES_RESOURCE, WRITTEN, found, source="apiserver"))

    def writes(self) -> WriteList:
        """Return what the journal has."""
        answer = self.bee.ask(JOURNAL, self.bee.message(WRITES_RESOURCE, WRITES, WriteQuery(limit=500)))
        found: WriteList = answer.content_as(WriteList)
        return found

    def reported(self, *values: str, source: str = ModuleName.DEVICECONTROLLER) -> None:
        """Report values as devicecontroller does, one a second."""
        now = self.bee.clock.now()
        found = [DeviceValue("default", "hall", "t", "n1", now + at, value) for at, value in enumerate(values)]
        self.bee.send(JOURNAL, self.bee.message(VALUES_RESOURCE, REPORTED, found, source=source))

    def values(self) -> ValueList:
        """Return the device history that the journal has."""
        answer = self.bee.ask(JOURNAL, self.bee.message(VALUES_RESOURCE, VALUES, ValueQuery("default", "hall")))
        found: ValueList = answer.content_as(ValueList)
        return found

    def _make(self) -> JournalDatabase:
        if self.failures:
            self.failures -= 1
            raise DatabaseError("open the database", "x", "it is away")
        return JournalDatabase(str(self._path), Turns())


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


def test_only_cloudhub_ends_a_connection(cloud: Cloud) -> None:
    cloud.happens(Operation.CONNECTED, "n1", "c1", 100)
    event = ConnectEvent(Operation.DISCONNECTED.value, 160, "n1", "c1", "", "192.0.2.7", 5.0)
    cloud.bee.send(JOURNAL, cloud.bee.message("node/n1", Operation.DISCONNECTED, event, source="router"))
    assert [each.ended for each in cloud.links()] == [0.0]


def test_a_journal_that_stops_writes_what_waits(tmp_path: Path) -> None:
    with Harness() as bee:
        cloud = Cloud(bee, tmp_path / "cloud.db")
        cloud.happens(Operation.CONNECTED, "n1", "c1", 100)
        bee.run_for(0.1)
    database = JournalDatabase(str(tmp_path / "cloud.db"), Turns())
    assert [each.connection for each in LinkStore(database, "b").read(LinkQuery())] == ["c1"]
    database.close()


def test_a_database_that_is_away_is_asked_each_five_seconds_whatever_happens(tmp_path: Path) -> None:
    with Harness() as bee:
        cloud = Cloud(bee, tmp_path / "cloud.db", failures=1000)
        for number in range(40):
            cloud.happens(Operation.CONNECTED, f"n{number}", f"c{number}", 100)
            bee.run_for(0.5)
        assert 3 < 1000 - cloud.failures < 10
        cloud.failures = 0
        bee.run_for(6.0)
        assert [(each.connection, each.ended) for each in cloud.links()] == sorted(
            (f"c{each}", 0.0) for each in range(40)
        )


def test_many_writes_are_kept_although_nothing_more_happens(cloud: Cloud, tmp_path: Path) -> None:
    cloud.written(*range(1, 1202))
    cloud.bee.run_for(10.0)
    database = JournalDatabase(str(tmp_path / "cloud.db"), Turns())
    assert WriteStore(database).read(WriteQuery()).writes[0].write.version == 1201
    database.close()


def test_a_full_disk_is_left_to_what_nodes_need(cloud: Cloud) -> None:
    cloud.is_short = True
    cloud.happens(Operation.CONNECTED, "n1", "c1", 100)
    assert cloud.links() == []
    cloud.is_short = False
    cloud.bee.run_for(60.0)
    assert [each.connection for each in cloud.links()] == ["c1"]
    (before,) = cloud.links()
    cloud.is_short = True
    cloud.bee.run_for(60.0)
    assert cloud.links() == [before], "nor is a sign of life written"


def test_of_too_many_connections_that_wait_the_newest_are_kept(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.cloud.journal.module._MOST_WAITING", 10)
    cloud.is_short = True
    for number in range(30):
        cloud.happens(Operation.CONNECTED, f"n{number}", f"c{number}", 100 + number)
    cloud.bee.run_for(60.0)
    cloud.is_short = False
    assert {each.node for each in cloud.links()} == {f"n{number}" for number in range(20, 30)}


def test_a_name_that_no_node_can_have_costs_the_others_nothing(cloud: Cloud) -> None:
    cloud.happens(Operation.CONNECTED, "n" * 254, "c1", 100)
    cloud.happens(Operation.CONNECTED, "n2", "c2", 100)
    assert [each.node for each in cloud.links()] == ["n2"]


def test_writes_are_kept_in_parts_and_wait_for_room_on_the_disk(cloud: Cloud) -> None:
    cloud.is_short = True
    cloud.written(*range(1, 1202))
    assert cloud.writes().writes == []
    cloud.is_short = False
    cloud.bee.run_for(60.0)
    cloud.written(1202)
    found = cloud.writes()  # MOST_OF_OBJECT of one object
    assert (len(found.writes), found.more, found.is_kept) == (200, 0, True)
    assert found.writes[0].write.version == 1202


def test_of_too_many_writes_that_wait_the_user_with_most_loses_its_own(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modules.cloud.journal.module._MOST_WAITING", 10)
    cloud.is_short = True
    cloud.written(1, 2)
    for version in range(3, 40):
        cloud.written(version, user=node_user("n1"))
    cloud.is_short = False
    cloud.bee.run_for(60.0)
    found = [each.write.version for each in cloud.writes().writes]
    assert (found[0], found[-2:]) == (39, [2, 1])
    assert 6 <= len(found) <= 10


def test_of_too_many_users_with_one_write_each_some_lose_it(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.cloud.journal.module._MOST_WAITING", 10)
    cloud.is_short = True
    for version in range(1, 13):
        cloud.written(version, user=f"user-{version}")
    cloud.is_short = False
    assert len(cloud.writes().writes) == 10


def test_in_front_of_a_cluster_there_is_no_journal_of_writes(tmp_path: Path) -> None:
    with Harness() as bee:
        cloud = Cloud(bee, tmp_path / "cloud.db", keeps_writes=False)
        cloud.written(1)
        assert cloud.writes() == WriteList([], is_kept=False)


def test_values_of_devices_wait_for_room_on_the_disk_and_go_with_the_writes_after_a_week(cloud: Cloud) -> None:
    cloud.is_short = True
    cloud.reported("20", "21")
    assert cloud.values().values == []
    cloud.is_short = False
    cloud.reported("5", source="router")
    cloud.bee.run_for(60.0)
    found = cloud.values()
    assert ([each.value for each in found.values], found.node, found.most) == (["20", "21"], "n1", 2000)
    cloud.written(1)
    assert len(cloud.writes().writes) == 1
    cloud.bee.clock.jump_wall(8 * 86_400.0)
    assert cloud.values().values == [], "not shown, though it is still there"
    cloud.bee.run_for(60.0)
    assert cloud.writes().writes == []
    cloud.bee.clock.jump_wall(-8 * 86_400.0)
    assert cloud.values().values == [], "deleted"


def test_no_value_is_kept_without_a_device_history(tmp_path: Path) -> None:
    with Harness() as bee:
        cloud = Cloud(bee, tmp_path / "cloud.db", most_values=0)
        cloud.reported("20")
        assert cloud.values() == ValueList()


def test_accesses_are_kept_also_in_front_of_a_cluster(tmp_path: Path) -> None:
    """Who writes there is known to its API server, and who lets nodes in is known here."""
    with Harness() as bee:
        cloud = Cloud(bee, tmp_path / "cloud.db", failures=1, keeps_writes=False)
        cloud.written(1)
        entry = access_entry(bee.clock, "jan", "cloudcore", REVOKED, "Node", "n1", node="n1", reason="lost")
        bee.send(JOURNAL, bee.message(WRITES_RESOURCE, NOTED, [entry]))
        bee.run_for(10.0)
        found = cloud.writes()
        assert not found.is_kept
        assert [(each.write.user, each.write.fields) for each in found.writes] == [("jan", ("reason: lost",))]
