"""Laws of the journals over random lives: a database that refuses or loses its answer, a full disk, several cloudcores.

What was reported is in the database soon, once, and complete; the journal of links reads as it happened.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, func, select

from beehive.names import Operation
from beehive.testing import Harness
from beehive.turns import Turns
from modules.cloud.device_values import REPORTED, VALUES_RESOURCE, DeviceValue
from modules.cloud.journal import device_values as history
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.device_values import ValueStore, properties, values
from modules.cloud.journal.links import MARK_PERIOD, LinkStore, links
from modules.cloud.journal.module import Journal
from modules.cloud.journal.writes import WriteStore, writes
from modules.cloud.messages import ConnectEvent, LinkQuery, LinkSession
from modules.cloud.object_writes import (
    CHANGED,
    CLOUDCORE,
    JOURNAL,
    WRITES,
    WRITES_RESOURCE,
    WRITTEN,
    ObjectWrite,
    WriteList,
    WriteQuery,
    node_user,
)
from modules.cloud.storage.database.errors import DatabaseError
from tests.support.slow import EXTENDED, one_in

NOW = 1_700_000_000.0
SOON = 6.0
"""Seconds after which what was reported is in a healthy database."""
T = TypeVar("T")


class Unreliable(JournalDatabase):
    """A database that may refuse a transaction, or lose the answer to its commit."""

    fails = ""

    def run(self, attempt: str, work: Callable[[Connection], T]) -> T:
        """Do work in a transaction."""
        if self.fails == "before":
            raise DatabaseError(attempt, "x", "it is away")
        result = super().run(attempt, work)
        if self.fails == "after" and attempt.startswith("write"):
            raise DatabaseError(attempt, "x", "the answer was lost")
        return result


def _write(version: int, name: str, user: str, namespace: str = "shop", at: float = NOW) -> ObjectWrite:
    return ObjectWrite(at, user, "kubectl", CHANGED, "ConfigMap", namespace, name, "u1", version)


def _stored(path: Path) -> tuple[dict[str, float], list[int], int]:
    """Return the links with their ends, the versions of the writes, and the number of values, all from the file."""
    with closing(JournalDatabase(str(path), Turns())) as database:
        return database.run(
            "look",
            lambda connection: (
                {row.connection: row.ended for row in connection.execute(select(links))},
                list(connection.execute(select(writes.c.version).order_by(writes.c.version)).scalars()),
                int(connection.execute(select(func.count()).select_from(values)).scalar_one()),
            ),
        )


@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_reported_values_are_in_the_database_soon_and_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modules.cloud.journal.module._MOST_WRITTEN", 7)
    random, path, is_short = Random(seed), tmp_path / "cloud.db", False  # noqa: S311 - reproducible
    database = Unreliable(str(path), Turns())
    opened: dict[str, float] = {}
    versions, reports = list[int](), 0
    with Harness() as bee:
        start = bee.clock.now()
        clock = int(start)
        bee.add(Journal, lambda: database, "a", lambda: is_short)
        bee.start()

        def send(operation: str, content: Any, resource: str, source: str) -> None:
            bee.send(JOURNAL, bee.message(resource, operation, content, source=source))

        for _ in range(30):
            database.fails, is_short = random.choice(("", "", "before", "after")), random.random() < 0.2
            clock += 1
            if random.random() < 0.5:
                name = f"c{clock}"
                opened[name] = 0.0
                event = ConnectEvent("connected", clock, f"n{clock}", name, "", "192.0.2.7", 5.0)
                send(Operation.CONNECTED, event, f"node/n{clock}", "cloudhub")
            still = [name for name, ended in opened.items() if not ended]
            if still and random.random() < 0.4:
                name = random.choice(still)
                opened[name] = float(clock)
                event = ConnectEvent("disconnected", clock, f"n{name[1:]}", name, "gone", "192.0.2.7", 5.0)
                send(Operation.DISCONNECTED, event, f"node/n{name[1:]}", "cloudhub")
            new = range(len(versions) + 1, len(versions) + 1 + random.choice((0, 1, 20)))
            versions += new
            found = [_write(version, f"conf-{version}", "jan", at=bee.clock.now()) for version in new]
            send(WRITTEN, found, WRITES_RESOURCE, "apiserver")
            count = random.choice((0, 1, 20))
            given = [
                DeviceValue("default", f"d{each % 3}", "t", "n1", start + each / 1000, "v")
                for each in range(reports, reports + count)
            ]
            reports += count
            send(REPORTED, given, VALUES_RESOURCE, "devicecontroller")
            if random.random() < 0.4:
                database.fails, is_short = "", False
                if random.random() < 0.5:  # a reader gets all of it immediately
                    asked = bee.message(WRITES_RESOURCE, WRITES, WriteQuery(limit=500))
                    read: WriteList = bee.ask(JOURNAL, asked).content_as(WriteList)
                    assert sorted(each.write.version for each in read.writes) == versions
                else:
                    bee.run_for(2 * SOON)
                assert _stored(path) == (opened, versions, reports)
            bee.run_for(random.choice((0.0, 1.0, 6.0)))
        database.fails, is_short = "", False
        send(WRITTEN, [_write(len(versions) + 1, "last", "jan", at=bee.clock.now())], WRITES_RESOURCE, "apiserver")
    assert _stored(path) == (opened, [*versions, len(versions) + 1], reports), "a stop loses nothing"


def test_each_time_without_the_database_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = Unreliable(str(tmp_path / "cloud.db"), Turns())
    with Harness() as bee:
        bee.add(Journal, lambda: database, "a")
        bee.start()
        for database.fails in ("before", "", "before", ""):
            bee.run_for(4 * MARK_PERIOD)
    assert [record.levelname for record in caplog.records if "have gaps" in record.getMessage()] == ["WARNING"] * 2


class Links:
    """Two cloudcores that share a database, and the connections of two nodes as they really were."""

    def __init__(self, database: JournalDatabase, random: Random) -> None:
        self.stores = {name: LinkStore(database, name) for name in ("a", "b")}
        self.truth: dict[str, LinkSession] = {}
        self.lost: set[str] = set()
        """Connections of killed cloudcores."""
        self.current: dict[str, tuple[str, str]] = {}
        """The cloudcore and the connection of each node that is connected."""
        self.now = NOW
        self._random = random
        self._database = database
        self._late: dict[str, list[tuple[list[LinkSession], list[LinkSession]]]] = {"a": [], "b": []}

    def happens(self, connection: str) -> None:
        """Let a node come, go, or go to the other cloudcore; what that one reports may come late."""
        node, cloudcore = self._random.choice(("n1", "n2")), self._random.choice(("a", "b"))
        if node in self.current and self._random.random() < 0.7:
            before, left = self.current.pop(node)
            end = LinkSession(node, left, "", 0.0, self.now, "left")
            self.truth[left] = LinkSession(node, left, before, self.truth[left].began, self.now)
            self._late[before].append(([], [end]))
        if node not in self.current:
            self.current[node] = cloudcore, connection
            self.truth[connection] = LinkSession(node, connection, cloudcore, self.now)
            self._late[cloudcore].append(([LinkSession(node, connection, "", self.now)], []))

    def tell(self, cloudcore: str) -> None:
        """Write what a cloudcore knows; a part is written twice, because the answer was lost."""
        while self._late[cloudcore]:
            began, ended = self._late[cloudcore].pop(0)
            for _ in range(self._random.choice((1, 1, 2))):
                self.stores[cloudcore].write(began, ended, self.now)

    def kill(self, name: str) -> None:
        """Kill a cloudcore that has told all that it knows; its successor has another name."""
        if not self._late["a"]:
            self.lost |= {connection for of, connection in self.current.values() if of == "a"}
            self.current = {node: held for node, held in self.current.items() if held[0] != "a"}
            self.stores["a"] = LinkStore(self._database, name)

    def pass_time(self, seconds: float) -> None:
        """Let time pass; both cloudcores are alive."""
        self.now += seconds
        for store in self.stores.values():
            store.mark(self.now)


@pytest.mark.parametrize("seed", one_in(3, range(10)))
def test_the_journal_of_links_reads_as_it_happened(tmp_path: Path, seed: int) -> None:
    """Two cloudcores report late and in any order, repeat what was not confirmed, and are killed."""
    random = Random(seed)  # noqa: S311 - reproducible
    database = JournalDatabase(str(tmp_path / "cloud.db"), Turns())
    world = Links(database, random)
    for number in range(60):
        world.pass_time(random.choice((0.0, 1.0, 5.0, MARK_PERIOD)))
        for name in random.sample(("a", "b"), random.randint(0, 2)):
            world.tell(name)
        world.happens(f"c{number}")
        if random.random() < 0.2:
            world.kill(f"a{number}")
    world.tell("a")
    world.tell("b")
    for _ in range(6):
        world.pass_time(MARK_PERIOD)
    store = world.stores["a"]
    found = {each.connection: each for each in store.read(LinkQuery())}
    assert found.keys() == world.truth.keys()
    for connection, link in found.items():
        told = world.truth[connection]
        assert link.began == told.began
        assert not link.ended or link.ended >= link.began, "nothing ends before it begins"
        if connection in world.lost:
            assert link.ended, "a killed cloudcore has no connections"
        else:
            assert link.ended == told.ended, "its own cloudcore knows best"
    for link in store.read(LinkQuery(newest_only=True)):
        assert link == store.read(LinkQuery(link.node))[0]
        assert (link.node in world.current) is (link.ended == 0.0)
    database.close()


@pytest.mark.parametrize("seed", one_in(3, range(3), EXTENDED))
def test_the_writes_that_are_kept_are_the_newest_of_everybody(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within each bound, and only who has most loses: its oldest."""
    for name, most in (("MOST_ROWS", 40), ("MOST_OWN_ROWS", 15), ("MOST_OF_OBJECT", 6), ("MOST_BYTES", 1500)):
        monkeypatch.setattr(f"modules.cloud.journal.writes.{name}", most)
    random = Random(seed)  # noqa: S311 - reproducible
    database = JournalDatabase(str(tmp_path / "cloud.db"), Turns())
    store = WriteStore(database)
    told: list[ObjectWrite] = []
    for _ in range(40):
        found = []
        for _ in range(random.randint(1, 4)):
            user = random.choice(("jan", "jan", "eve", CLOUDCORE, node_user("n1")))
            found.append(_write(len(told) + 1, f"o{random.randint(1, 9)}", user, random.choice("ab")))
            told.append(found[-1])
        store.write([*found, *random.sample(found, 1)])
        if seed == 0:  # nothing but the bound of an object
            numbers = Counter((each.namespace, each.name) for each in told)
            kept = [each.write for each in store.read(WriteQuery(limit=500)).writes]
            assert Counter((each.namespace, each.name) for each in kept) == {
                key: min(6, number) for key, number in numbers.items()
            }
            continue
        store.forget(NOW)
        kept = [each.write for each in store.read(WriteQuery(limit=500)).writes]
        assert {each.version for each in found} & {each.version for each in kept}, "the newest stay"
        own = [each for each in kept if each.user in (CLOUDCORE, node_user("n1"))]
        assert len(kept) - len(own) <= 40 and len(own) <= 15
        assert sum(sum(map(len, (each.user, each.manager, each.kind, each.namespace, each.name, each.uid)))
                   for each in kept) <= 1500  # fmt: skip
        for of in {(each.namespace, each.name) for each in told}:
            assert sum((each.namespace, each.name) == of for each in kept) <= 6
        if len(told) <= 6:
            assert len(kept) == len(told)
    assert seed == 0 or {each.user for each in kept} >= {"jan", "eve"}, "nobody displaces all of another"
    before = random.choice(kept)
    older = [each.write.version for each in store.read(WriteQuery(before=before.version, limit=500)).writes]
    assert older == [each.version for each in kept if each.version < before.version]
    page = store.read(WriteQuery(limit=3))
    assert (len(page.writes), page.more) == (3, len(kept) - 3)
    database.close()


@pytest.mark.parametrize("seed", one_in(3, range(3), EXTENDED))
def test_the_history_counts_its_values(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts of each property are those of its values, or more, so that the bounds hold; a new value stays."""
    monkeypatch.setattr(history, "MOST_BYTES_OF_PROPERTY", 900)
    monkeypatch.setattr(history, "_PART", 2)
    random, now, swept = Random(seed), NOW, 0  # noqa: S311 - reproducible
    database = JournalDatabase(str(tmp_path / "cloud.db"), Turns())
    store = ValueStore(database, 10)
    for _ in range(40):
        now += random.choice((1.0, 60.0, 86_400.0))
        found = [
            DeviceValue("default", f"d{random.randint(1, 5)}", "t", "n1", now - random.choice((0.0, 0.0, 1.0, 1e9)),
                        "v" * random.choice((1, 50, 200)))
            for _ in range(random.randint(1, 6))
        ]  # fmt: skip
        store.write(found, now)
        swept = store.forget(now, swept)
        counts, rows = database.run(
            "look",
            lambda connection: (
                connection.execute(select(properties)).all(),
                connection.execute(select(values.c.property, values.c.value)).all(),
            ),
        )
        for each in counts:
            texts = [row.value for row in rows if row.property == each.id]
            size = 24 * (1 + len(texts)) + sum(map(len, texts)) + len(each.namespace + each.device + each.property)
            assert texts and len(texts) <= min(each.number, 10) and size <= each.size
            assert each.size <= 900 or len(texts) == 1, "the bound holds for each property, not for the first"
    for _ in range(6):
        swept = store.forget(now, swept)
    oldest = database.run("look", lambda connection: connection.execute(select(func.min(values.c.at))).scalar())
    assert oldest is None or oldest >= (now - history.DAYS * 86_400.0) * 1000
    store.forget(now + 30 * 86_400.0, 0)
    database.close()
