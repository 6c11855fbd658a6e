"""The link journal in a real database."""

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from beehive.turns import Turns
from modules.cloud.journal import links as journal
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.links import DAYS, LOST_AFTER, REPLACED, UNTOLD_END, LinkStore
from modules.cloud.messages import LinkQuery, LinkSession
from modules.cloud.storage.database.errors import DatabaseError

NOW = 1_000_000_000.0


class Opened(LinkStore):
    """The store of a cloudcore, with its connection to the database."""

    def __init__(self, url: str, cloudcore: str) -> None:
        self.database = JournalDatabase(url, Turns())
        super().__init__(self.database, cloudcore)

    def close(self) -> None:
        """Close the connection."""
        self.database.close()


def opened(url: str, cloudcore: str = "a") -> Opened:
    """Return the store of a cloudcore."""
    return Opened(url, cloudcore)


def began(node: str, connection: str, at: float) -> LinkSession:
    """Return the beginning of a connection."""
    return LinkSession(node, connection, "", at, address="192.0.2.7", certificate_ends=NOW + 5.0)


def ended(node: str, connection: str, at: float, reason: str = "no keepalive") -> LinkSession:
    """Return the end of a connection."""
    return LinkSession(node, connection, "", 0.0, at, reason)


def test_connections_are_kept_over_a_restart_the_newest_first(url: str) -> None:
    first = opened(url)
    first.write([began("n1", "c1", NOW), began("n2", "c2", NOW)], [], NOW)
    first.write([began("n1", "c3", NOW + 9.0)], [ended("n1", "c1", NOW + 8.0)], NOW + 9.0)
    first.close()
    second = opened(url)
    found = second.read(LinkQuery("n1"))
    assert found == [
        LinkSession("n1", "c3", "a", NOW + 9.0, 0.0, "", "192.0.2.7", NOW + 5.0, seen=NOW + 9.0),
        LinkSession("n1", "c1", "a", NOW, NOW + 8.0, "no keepalive", "192.0.2.7", NOW + 5.0),
    ]
    assert [each.connection for each in second.read(LinkQuery(newest_only=True))] == ["c3", "c2"]
    assert [each.connection for each in second.read(LinkQuery(since=NOW + 8.5))] == ["c3", "c2"]
    second.close()


@pytest.mark.parametrize("back", [0.0, 60.0], ids=["one second", "clock set back"])
def test_the_open_connection_is_the_newest_whatever_the_clock_says(url: str, back: float) -> None:
    store = opened(url)
    store.write([began("n1", "c1", NOW)], [ended("n1", "c1", NOW)], NOW)
    store.write([began("n1", "a2", NOW - back), began("n2", "c3", NOW)], [], NOW - back)
    assert [each.connection for each in store.read(LinkQuery(newest_only=True))] == ["a2", "c3"]
    assert [each.connection for each in store.read(LinkQuery("n1"))] == ["a2", "c1"]
    store.close()


def test_connections_of_one_node_that_are_written_together_end_with_the_next(url: str) -> None:
    """As after a time without the database, where cloudhub has failed and told no end."""
    store = opened(url)
    store.write([began("n1", f"c{each}", NOW + each) for each in range(3)], [], NOW + 3.0)
    found = [(each.connection, each.ended, each.reason) for each in store.read(LinkQuery("n1"))]
    assert found == [("c2", 0.0, ""), ("c1", NOW + 2.0, REPLACED), ("c0", NOW + 1.0, REPLACED)]
    store.close()


def test_an_end_that_is_missing_is_the_next_beginning_or_the_last_sign_of_life(url: str) -> None:
    killed, other = opened(url, "killed"), opened(url, "other")
    killed.write([began("n1", "c1", NOW), began("n2", "c2", NOW)], [], NOW)
    killed.mark(NOW + 30.0)
    other.write([began("n1", "c3", NOW + 50.0)], [], NOW + 50.0)
    (_, replaced) = other.read(LinkQuery("n1"))
    assert (replaced.ended, replaced.reason) == (NOW + 50.0, REPLACED)
    other.mark(NOW + 30.0 + LOST_AFTER)
    assert other.read(LinkQuery("n2"))[0].ended == 0.0
    other.mark(NOW + 31.0 + LOST_AFTER)
    (lost,) = other.read(LinkQuery("n2"))
    assert (lost.ended, lost.reason) == (NOW + 30.0, UNTOLD_END)
    for store in (killed, other):
        store.close()


def test_only_open_connections_of_a_dead_cloudcore_end_with_it(url: str) -> None:
    killed, other = opened(url, "killed"), opened(url, "other")
    killed.write([began("n1", "c1", NOW), began("n2", "c2", NOW + 20.0)], [ended("n1", "c1", NOW + 5.0)], NOW + 9.0)
    killed.write([], [ended("n1", "c2", NOW + 30.0)], NOW + 9.0)
    other.mark(NOW + 10.0 + LOST_AFTER)
    assert [(each.connection, each.ended, each.reason) for each in other.read(LinkQuery())] == [
        ("c1", NOW + 5.0, "no keepalive"), ("c2", NOW + 20.0, UNTOLD_END),
    ]  # fmt: skip
    for store in (killed, other):
        store.close()


def test_a_node_that_returns_after_a_long_time_was_away_since_the_last_sign_of_life(url: str) -> None:
    killed = opened(url, "killed")
    killed.write([began("n1", "c1", NOW)], [], NOW)
    killed.close()
    next_one = opened(url, "next")
    next_one.write([began("n1", "c2", NOW + 3600.0)], [], NOW + 3600.0)
    assert next_one.read(LinkQuery("n1"))[1].ended == NOW
    next_one.close()


def test_connections_stay_open_when_their_cloudcore_could_leave_no_mark(url: str) -> None:
    """As when the disk was full, or the database away for all cloudcores, of which another one is back first."""
    own, other = opened(url, "own"), opened(url, "other")
    own.write([began("n1", "c1", NOW), began("n2", "c2", NOW)], [], NOW)
    other.write([began("n2", "c3", NOW + 2 * LOST_AFTER)], [], NOW + 2 * LOST_AFTER)
    assert own.read(LinkQuery("n1"))[0].reason == UNTOLD_END
    own.mark(NOW + 2 * LOST_AFTER + 1.0)
    assert [(each.connection, each.ended) for each in own.read(LinkQuery(newest_only=True))] == [("c1", 0), ("c3", 0)]
    assert own.read(LinkQuery("n2"))[1].reason == UNTOLD_END, "the node has connected again"
    own.write([began("n4", "c4", NOW + 4 * LOST_AFTER)], [], NOW + 4 * LOST_AFTER)
    assert own.read(LinkQuery("n1"))[0].ended == 0
    for store in (own, other):
        store.close()


def test_the_journal_is_bounded_by_time_for_a_node_and_in_all(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_OF_NODE", 3)
    monkeypatch.setattr(journal, "MOST_ROWS", 4)
    store = opened(url)
    for number in range(6):
        store.write([began("n1", f"c{number}", NOW + number)], [], NOW)
    assert [each.connection for each in store.read(LinkQuery())] == ["c5", "c4", "c3"]
    store.write([began("n2", "d1", NOW - 1.0), began("n3", "d2", NOW + 9.0)], [], NOW)
    store.mark(NOW)
    assert sorted(each.connection for each in store.read(LinkQuery())) == ["c4", "c5", "d1", "d2"], "open ones stay"
    store.mark(NOW + (DAYS + 1) * 86_400.0)
    assert [each.connection for each in store.read(LinkQuery())] == ["c5", "d1", "d2"], "open ones stay"
    LinkStore(store.database, "b").mark(NOW + 2 * (DAYS + 1) * 86_400.0)
    marks = store.database.run("look", lambda connection: connection.execute(select(journal.marks.c.cloudcore)).all())
    assert marks == [("b",)], "each start of a cloudcore has left one"
    store.close()


def test_a_failed_transaction_stores_nothing(url: str) -> None:
    store = opened(url)
    store.write([began("n1", "c1", NOW)], [], NOW)
    with pytest.raises(DatabaseError) as failed:
        store.write([began("n2", "c2", NOW), began("n3", "c2", NOW)], [], NOW)
    assert not {"n3", "INSERT"} & {*str(failed.value).split()}, "neither the statement nor a value, which may be secret"
    assert [each.node for each in store.read(LinkQuery())] == ["n1"]
    store.close()


def test_a_transaction_whose_turn_does_not_come_leaves_it_to_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turns()
    with closing(JournalDatabase(str(tmp_path / "cloud.db"), turn)) as database:
        monkeypatch.setattr("modules.cloud.journal.database._TURN_SECONDS", 0.0)
        assert turn.acquire()  # for another module's transaction
        with pytest.raises(DatabaseError, match="does not end"):
            LinkStore(database, "a").read(LinkQuery())
        assert turn.locked()


def test_written_values_can_be_written_again(url: str) -> None:
    """A commit whose answer was lost would otherwise be tried for ever, and nothing after it stored."""
    store = opened(url)
    for _ in range(2):
        store.write([began("n1", "c1", NOW), began("n2", "c2", NOW)], [ended("n2", "c2", NOW + 1.0)], NOW)
    assert [(each.connection, each.ended) for each in store.read(LinkQuery())] == [("c1", 0.0), ("c2", NOW + 1.0)]
    store.close()
