"""Work that begins a transaction of the database only when it uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import ObjectEvent
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


def test_claims_wait_for_the_end_of_the_outer_work(cores: tuple[Core, Core]) -> None:
    """Work within work, such as an immediate answer."""
    one, other = cores
    other.claim("n1")

    def outer() -> None:
        one.transactions.attempt(lambda: one.database.put_object_sync("n1", "u1", SYNC), begins=False)
        one.done.append("worked")

    one.turn(outer, begins=False)
    assert one.done == ["worked", "n1 is other's"]


def test_a_database_without_transactions_is_not_written(tmp_path: Path) -> None:
    """Nothing would commit the write."""
    database = Database(str(tmp_path / "db"), "one", stores_objects=False)
    with pytest.raises(DatabaseError, match="no transaction has begun"):
        database.put_object_sync("n1", "u1", SYNC)
    database.close()
