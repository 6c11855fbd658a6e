"""Work that begins a transaction of the database only when it uses it."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
from sqlalchemy import Connection

from beehive.simulation import Simulation
from modules.apimachinery.kinds import ObjectKey, kind_named
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.storage.database import database
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import ObjectEvent, Storage
from modules.cloud.storage.object_sync import Holder, ObjectSync
from modules.cloud.storage.transactions import Transactions

SYNC = ObjectSync(ObjectKey("Pod", "default", "web"), 7)


class Core:
    """One cloudcore's transactions at a database that it shares."""

    def __init__(self, path: Path, name: str) -> None:
        self.done: list[str] = []
        self.database = Database(str(path), name, stores_objects=False)
        self.mirror = Mirror()
        self.transactions = Transactions(
            self.mirror,
            self.database,
            self,
        )
        self.turn(lambda: None)

    def object_changed(self, event: ObjectEvent) -> None:
        """Ignore a change."""

    def nodes_claimed(self, claims: Sequence[tuple[str, Holder]]) -> None:
        """Note claims."""
        self.done.extend(f"{node} is {holder.cloudcore}'s" for node, holder in claims)

    def changes_rolled_back(self, _events: list[ObjectEvent], nodes: set[str]) -> None:
        """Note the nodes whose ObjectSyncs were rolled back."""
        self.done.append(f"undone: {sorted(nodes)}")

    def turn(self, work: Callable[[], None], *, begins: bool = True) -> None:
        """One message, and the end of the turn."""
        self.transactions.attempt(work, begins=begins)
        self.transactions.commit()

    def claim(self, node: str) -> None:
        """Claim a node, as when it connects."""
        self.turn(lambda: self.database.claim(node, "connection", self.mirror.next_version()))

    def syncs(self) -> dict[str, ObjectSync]:
        """What is stored of n1."""
        found: dict[str, ObjectSync] = {}
        self.turn(lambda: found.update(self.database.object_syncs_of("n1")))
        return found


@pytest.fixture
def cores(tmp_path: Path) -> Iterator[tuple[Core, Core]]:
    """Two cloudcores with one database."""
    one, other = Core(tmp_path / "db", "one"), Core(tmp_path / "db", "other")
    yield one, other
    for each in (one, other):
        each.database.close()


def test_work_without_the_database_waits_for_nobody(cores: tuple[Core, Core]) -> None:
    """Another cloudcore has the only lock; what is to be sent after the turn is sent."""
    one, other = cores
    other.transactions.begin()
    one.turn(lambda: one.transactions.after_commit(lambda: one.done.append("sent")), begins=False)
    assert one.done == ["sent"]
    assert not one.transactions.is_under_way
    other.transactions.commit()


def test_claims_of_others_count_after_work_that_has_begun(cores: tuple[Core, Core]) -> None:
    """The work goes on with what it has seen, its write is stored, and then its node's connection is ended."""
    one, other = cores
    other.claim("n1")

    def work() -> None:
        one.database.put_object_sync("n1", "u1", SYNC)
        assert one.transactions.is_under_way
        one.done.append("worked")

    one.transactions.attempt(work, begins=False)
    assert one.done == ["worked", "n1 is other's"]
    one.transactions.commit()
    one.turn(lambda: None, begins=False)
    assert one.done == ["worked", "n1 is other's"], "they are taken over once"
    assert other.syncs() == {"u1": SYNC}


def test_claims_of_others_count_before_work_that_begins(cores: tuple[Core, Core]) -> None:
    """As for an acknowledgement, which counts only from the node's newest connection."""
    one, other = cores
    other.claim("n1")
    one.turn(lambda: one.done.append("worked"))
    assert one.done == ["n1 is other's", "worked"]


def test_work_that_fails_after_its_first_use_of_the_database_leaves_nothing(cores: tuple[Core, Core]) -> None:
    """The claims of others are taken over nevertheless."""
    one, other = cores
    other.claim("n1")

    def work() -> None:
        one.database.put_object_sync("n1", "u1", SYNC)
        raise ValueError("of this test")

    with pytest.raises(ValueError, match="of this test"):
        one.transactions.attempt(work, begins=False)
    one.transactions.commit()
    assert one.done == ["undone: ['n1']", "n1 is other's"]
    assert other.syncs() == {}


def test_a_node_that_has_left_for_another_cloudcore_is_not_kept(cores: tuple[Core, Core]) -> None:
    """It was connected here before, and its claim was stored."""
    one, other = cores
    one.claim("n1")
    other.claim("n1")
    one.turn(lambda: None)
    assert one.done == ["n1 is other's"]


def test_a_log_with_a_former_secret_is_truncated_as_soon_as_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader may keep it at first; it is tried again with the next commit, whatever that changes."""
    tries: list[str] = []

    def truncate(_connection: Connection) -> bool:
        tries.append("truncate")
        return len(tries) > 1

    monkeypatch.setattr(database, "truncate_log", truncate)
    book = Book(monkeypatch)
    book.put("web", "1")
    book.transactions.commit()
    assert tries == []
    book.put("password", "1", kind="Secret")
    book.transactions.commit()
    for label in ("2", "3"):
        book.put("web", label)
        book.transactions.commit()
    assert tries == ["truncate"] * 2
    book.database.close()


@pytest.mark.parametrize("by_inner", [False, True])
def test_claims_wait_for_the_end_of_the_outer_work(cores: tuple[Core, Core], *, by_inner: bool) -> None:
    """Work within work, such as an immediate answer, whichever of the two uses the database first."""
    one, other = cores
    other.claim("n1")

    def write() -> None:
        one.database.put_object_sync("n1", "u1", SYNC)

    def outer() -> None:
        one.transactions.attempt(write if by_inner else lambda: None, begins=False)
        write()
        one.done.append("worked")

    one.turn(outer, begins=False)
    assert one.done == ["worked", "n1 is other's"]


def test_a_database_without_transactions_is_not_written(tmp_path: Path) -> None:
    """Nothing would commit the write."""
    database = Database(str(tmp_path / "db"), "one", stores_objects=False)
    with pytest.raises(DatabaseError, match="no transaction has begun"):
        database.put_object_sync("n1", "u1", SYNC)
    database.close()


class Book:
    """The API server's transactions at a database whose disk may be full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, url: str = "sqlite://") -> None:
        self.storage = Storage(Simulation(0).clock)
        self.database = Database(url, "one")
        self.transactions = Transactions(self.storage, self.database, self, self.storage.undo)
        self.is_full = self.fails = False
        self.calls: list[str] = []
        self.transactions.attempt(lambda: None)
        self.transactions.commit()
        write = self.database._write_durably

        def written(connection: Connection, version: int) -> None:
            if self.is_full:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            write(connection, version)

        monkeypatch.setattr(self.database, "_write_durably", written)

    def object_changed(self, event: ObjectEvent) -> None:
        """Ignore a change, or fail as a handler that cannot take it."""
        if self.fails:
            raise ValueError("of this test")

    def nodes_claimed(self, claims: Sequence[tuple[str, Holder]]) -> None:
        """Ignore claims."""

    def changes_rolled_back(self, _events: list[ObjectEvent], _nodes: set[str]) -> None:
        """Ignore what was rolled back."""

    def put(self, name: str, label: str, *, fails: bool = False, kind: str = "ConfigMap") -> None:
        """One message: an object is made or changed, and the answer follows the commit."""

        def work() -> None:
            obj = {"kind": kind, "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}}
            obj["metadata"]["labels"] = {"a": label}  # type: ignore[index]
            is_there = self.storage.find(ObjectKey(kind, "default", name)) is not None
            (self.storage.replace if is_there else self.storage.create)(obj)
            said = f"{name} {label}"
            self.transactions.after_commit(
                lambda: self.calls.append(said), lambda: self.calls.append(f"no room for {said}")
            )

        self.fails = fails
        try:
            self.transactions.attempt(work)
        finally:
            self.fails = False

    @property
    def labels(self) -> dict[str, str]:
        """The label of each object."""
        found = self.storage.list(kind_named("ConfigMap"))
        return {each["metadata"]["name"]: each["metadata"]["labels"]["a"] for each in found}


def test_a_transaction_without_room_is_undone_and_no_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its changes of an object, the newest first; who waits for an answer gets one, and the next has its room."""
    book = Book(monkeypatch)
    book.put("web", "1")
    book.transactions.commit()
    version = book.storage.version
    for _ in range(2):
        book.is_full = True
        for label in ("2", "3"):
            book.put("web", label)
        book.put("other", "1")
        book.transactions.commit()
        assert (book.labels, book.storage.version) == ({"web": "1"}, version)
        book.is_full = False
    book.put("web", "4")
    book.transactions.commit()
    assert book.labels == {"web": "4"}
    refused = ["no room for web 2", "no room for web 3", "no room for other 1"]
    assert book.calls == ["web 1", *refused, *refused, "web 4"]
    book.database.close()


def test_a_transaction_without_room_keeps_what_another_cloudcore_has_changed_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise the other's versions would be given a second time."""
    one, other = (Book(monkeypatch, str(tmp_path / "cloud.db")) for _ in range(2))
    other.put("web", "1")
    other.transactions.commit()
    one.is_full = True
    one.put("other", "1")
    one.transactions.commit()
    assert (one.labels, one.storage.version) == ({"web": "1"}, other.storage.version)
    one.database.close()
    other.database.close()


def test_a_message_that_fails_leaves_the_others_of_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told of its changes, and they are not undone a second time."""
    book = Book(monkeypatch)
    for is_full in (False, True):
        book.is_full = is_full
        book.put("web", "1")
        with pytest.raises(ValueError, match="of this test"):
            book.put("web", "2", fails=True)
        with pytest.raises(ValueError, match="of this test"):
            book.put("new", "1", fails=True)
        book.put("other", "1" if not is_full else "2")
        assert book.labels["web"] == "1"
        book.transactions.commit()
        assert book.labels == {"web": "1", "other": "1"}
    assert book.calls == ["web 1", "other 1", "no room for web 1", "no room for other 2"]
    book.database.close()


def test_an_abandoned_transaction_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was to be sent after its commit is not sent after the next one's."""
    book = Book(monkeypatch)
    book.put("web", "1")
    book.transactions.abandon()
    book.put("other", "1")
    book.transactions.commit()
    assert book.calls == ["other 1"]
    book.put("web", "2")
    book.transactions.abandon()
    book.is_full = True
    book.put("other", "2")
    book.transactions.commit()  # takes back its own changes, and not those that are gone already
    assert book.labels == {"other": "1"}
    book.database.close()


@pytest.mark.parametrize("is_full", [False, True])
def test_a_claim_whose_commit_fails_stays_newer_than_any_stored_one(
    cores: tuple[Core, Core], monkeypatch: pytest.MonkeyPatch, *, is_full: bool
) -> None:
    """Otherwise the claim of the cloudcore that the node had before would end its present connection."""
    one, other = cores
    other.claim("n1")
    one.turn(lambda: None)
    one.done.clear()
    error = sqlite3.OperationalError("database or disk is full" if is_full else "disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL if is_full else sqlite3.SQLITE_IOERR
    with monkeypatch.context() as failing:
        failing.setattr(one.database, "_make_durable", Mock(side_effect=error))
        with pytest.raises(DatabaseError):
            one.claim("n1")
    one.transactions.abandon()
    assert list(one.database.unclaimed) == ["n1"]
    one.turn(lambda: None)
    assert one.done == []
    one.claim("n1")
    assert one.database.unclaimed == {}


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_a_transaction_that_finds_room_is_written_again_unless_another_cloudcore_was_first(
    cores: tuple[Core, Core], monkeypatch: pytest.MonkeyPatch, *, is_overtaken: bool
) -> None:
    """SQLite may have the failed transaction still; and what it would write was decided before the other's changes."""
    one, other = cores
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    make_durable = Mock(side_effect=[error, DEFAULT], wraps=one.database._make_durable)
    monkeypatch.setattr(one.database, "_make_durable", make_durable)

    def truncate(_connection: Connection) -> bool:
        if is_overtaken:
            other.claim("n2")
        return True

    monkeypatch.setattr(database, "truncate_log", truncate)
    with pytest.raises(DatabaseError, match="full") if is_overtaken else nullcontext():
        one.turn(lambda: one.database.put_object_sync("n1", "u1", SYNC))
    one.transactions.abandon()
    assert other.syncs() == ({} if is_overtaken else {"u1": SYNC})


def test_a_transaction_gives_its_turn_back_once(cores: tuple[Core, Core], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one's may have begun meanwhile."""
    one, _ = cores
    turns = Mock(wraps=one.database._turn)
    monkeypatch.setattr(one.database, "_turn", turns)
    one.claim("n1")
    one.database.abandon()
    assert turns.release.call_count == turns.acquire.call_count == 1


def test_a_connection_that_has_ended_is_not_known(cores: tuple[Core, Core]) -> None:
    one, _ = cores
    for node in ("n1", "n2"):
        one.claim(node)
    one.database.disconnected("n1")
    assert [*one.database.connected] == ["n2"]
