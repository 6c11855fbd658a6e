"""The cluster's database: commits last, and its sharers agree. On each kind of database."""

import itertools
import os
import re
import sqlite3
import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from sqlalchemy import delete, inspect, select, update
from sqlalchemy.exc import ProgrammingError

from beehive.actor import Actor
from beehive.clock import RealClock
from beehive.simulation import Simulation
from beehive.testing import FakeContext
from beehive.turns import Turns
from modules.apimachinery.kinds import LAST_APPLIED, ObjectKey, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.storage.database import engine
from modules.cloud.storage.database.database import Database, RemoteChanges
from modules.cloud.storage.database.engine import make_engine, proves_name, shown, url_of
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.listener import Looks, poll_for_changes
from modules.cloud.storage.database.meter import TransactionMeter
from modules.cloud.storage.database.tables import SCHEMA_VERSION, objects, signing_keys, tables
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_sync import Epoch, Holder, NodeState, ObjectSync
from modules.cloud.storage.signing_key import StoredSigningKey
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import WatchHistory, WatchQuery
from tests.modules.cloud.changes import RecordedChanges
from tests.modules.cloud.objects import configmap, patch_status, pod, secret
from tests.support.postgresql import PrivatePostgresql, needs_postgresql
from tests.support.presence import present

WEB = ObjectKey("Pod", "default", "web")
SETTINGS = ObjectKey("ConfigMap", "default", "settings")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with PrivatePostgresql() as server:
        yield server.url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "cloud.db")
    url = str(request.getfixturevalue("postgresql"))
    engine = make_engine(url_of(url))
    tables.drop_all(engine)
    engine.dispose()
    return url


class Cloud:
    """One cloudcore's view of it."""

    def __init__(self, url: str, name: str = "a") -> None:
        self.database = Database(url, name)
        self.cluster = Cluster(Simulation(len(name)).clock)
        changes = RecordedChanges()
        self.seen, self.claims = changes.events, changes.claims
        self.transactions = Transactions(self.cluster.storage, self.database, changes)
        self.transact()

    def __enter__(self) -> "Cloud":
        return self

    def __exit__(self, *_error: object) -> None:
        self.database.close()

    def transact(self) -> list[str]:
        """Runs an empty transaction; returns the changes that it read."""
        self.seen.clear()
        self.transactions.begin()
        self.transactions.commit()
        return [f"{event.type} {event.key}" for event in self.seen]

    def adopt(self) -> list[str] | None:
        """Takes changes over without a transaction; None if that was not possible."""
        self.seen.clear()
        was_possible = self.transactions.adopt()
        self.transactions.commit()
        return [f"{event.type} {event.key}" for event in self.seen] if was_possible else None

    @contextmanager
    def turn(self) -> Iterator[Database]:
        """A transaction, which is committed unless it fails."""
        self.transactions.begin()
        yield self.database
        self.transactions.commit()

    def apply(self, *objects: dict[str, object]) -> None:
        with self.turn():
            for obj in objects:
                self.cluster.apply(obj)

    def delete(self, key: ObjectKey) -> None:
        with self.turn():
            self.cluster.storage.remove(key)


def test_objects_come_back_as_they_were_and_versions_go_on(url: str) -> None:
    with Cloud(url) as first:
        first.apply(pod(), configmap())
        first.delete(SETTINGS)
        kept = first.cluster.storage.get(WEB)
    with Cloud(url) as second:
        assert second.cluster.storage.find(WEB) == kept
        assert second.cluster.storage.find(SETTINGS) is None
        second.apply(pod("later"))
        later = second.cluster.storage.get(ObjectKey("Pod", "default", "later"))
        assert int(later["metadata"]["resourceVersion"]) > first.cluster.storage.version


def test_uncommitted_changes_are_undone_in_memory_too(url: str) -> None:
    with Cloud(url) as cloud:
        cloud.apply(configmap(a="1"))
        cloud.transactions.begin()
        cloud.cluster.apply(configmap(a="2"))
        cloud.cluster.apply(pod())
        acted: list[int] = []
        cloud.transactions.after_commit(lambda: acted.append(1))
        cloud.transactions.abandon()
        assert cloud.transact() == [f"DELETED {WEB}", f"MODIFIED {SETTINGS}"], "they are not made once more"
        assert cloud.cluster.storage.get(SETTINGS)["data"] == {"a": "1"}
        assert cloud.cluster.storage.find(WEB) is None
        assert acted == [], "nobody has heard of it"


def test_uncommitted_changes_of_the_first_turn_are_undone_too(url: str) -> None:
    """It would be there for everybody, and never be written: what is applied again does not differ from it."""
    with Cloud(url) as cloud:
        cloud.transactions.begin()
        cloud.cluster.apply(configmap())
        cloud.transactions.abandon()
        assert cloud.transact() == ["DELETED configmap/default/settings"]
        cloud.apply(configmap())
    with Cloud(url) as later:
        assert later.cluster.storage.find(SETTINGS) is not None


def test_no_change_is_announced_before_it_is_durable(url: str) -> None:
    with Cloud(url, "a") as cloud, Cloud(url, "b") as other:
        with cloud.turn():
            cloud.cluster.apply(configmap())
            cloud.transactions.after_commit(lambda: found.extend(other.transact()))
            found: list[str] = []
            cloud.transactions.collect_changes()
        assert found == ["ADDED configmap/default/settings"]


def test_each_sees_the_changes_of_the_others(url: str) -> None:
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.apply(configmap(a="1"), pod())
        assert other.transact() == ["ADDED configmap/default/settings", "ADDED pod/default/web"]
        other.apply(configmap(a="2"))
        assert one.transact() == ["MODIFIED configmap/default/settings"]
        one.delete(SETTINGS)
        assert other.transact() == ["DELETED configmap/default/settings"]
        assert one.transact() == other.transact() == []
        assert one.cluster.storage.version == other.cluster.storage.version


def test_each_change_of_another_is_an_event(url: str) -> None:
    """A watch of kube-apiserver sends each, whichever server of a cluster has made it."""
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.apply(pod())
        other.transact()
        for value in ("1", "2", "3"):
            one.apply(configmap(a=value))
        one.delete(SETTINGS)
        one.apply(configmap(a="4"))
        changes = [line.partition(" ")[0] for line in other.transact()]
        assert changes == ["ADDED", "MODIFIED", "MODIFIED", "DELETED", "ADDED"]
        versions = [int(event.new["metadata"]["resourceVersion"]) for event in other.seen]
        assert versions == sorted(set(versions))
        assert other.cluster.storage.find(SETTINGS) == one.cluster.storage.find(SETTINGS)
        shown = other.cluster.storage.list_after(kind_named("ConfigMap"), None, ("", ""), versions[0])
        assert [each["data"] for each in shown] == [{"a": "1"}], "a list of a state between"


def history(cloud: Cloud) -> WatchHistory:
    """Return the history that a cloudcore begins with."""
    with cloud.turn():
        return WatchHistory(cloud.cluster.storage, cloud.database.watch_history())


def test_each_change_of_another_is_told_from_an_own_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows from it is the other's to do."""
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        told: list[tuple[str, bool]] = []
        record = other.transactions._handler.object_changed

        def changed(event: ObjectEvent) -> None:
            told.append((event.key.name, other.transactions.is_adopting))
            record(event)

        monkeypatch.setattr(other.transactions._handler, "object_changed", changed)
        one.apply(pod("first"), pod("second"))
        other.apply(pod("own"))
        one.apply(pod("third"))
        other.apply(pod("last"))
        assert told == [("first", True), ("second", True), ("own", False), ("third", True), ("last", False)]


def test_own_changes_are_told_as_own_after_another_ones_change_was_not_handled(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        changed = Mock(side_effect=[DatabaseError("read, locked"), *[None] * 9])
        monkeypatch.setattr(other.transactions._handler, "object_changed", changed)
        one.apply(pod("first"))
        with pytest.raises(DatabaseError):
            other.transactions.begin()
        assert not other.transactions.is_adopting
        other.transactions.abandon()


def test_a_watch_begins_with_changes_from_before_a_restart(url: str) -> None:
    with Cloud(url) as cloud:
        cloud.apply(configmap("a"), secret())
        begin = cloud.cluster.storage.version
        cloud.apply({**configmap("b"), "metadata": {"name": "b", "labels": {"app": "x"}}})
        cloud.apply({**configmap("b"), "metadata": {"name": "b", "labels": {"app": "y"}}})
        cloud.delete(ObjectKey("ConfigMap", "default", "a"))
        cloud.delete(ObjectKey("Secret", "default", "key"))
    with Cloud(url) as later:
        found = history(later)
        changes = found.start(WatchQuery("ConfigMap", begin)).changes
        assert [(one.change, one.object["metadata"]["name"]) for one in changes] == [
            ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a"),
        ]  # fmt: skip
        old = present(changes[1].old)
        assert old["metadata"]["labels"] == {"app": "x"}, "a watch with a selector knows that b has left it"
        (gone,) = found.start(WatchQuery("Secret", begin)).changes
        assert (gone.change, "data" in gone.object) == ("DELETED", False), "a deleted secret is nowhere"
        later.apply(configmap("c"))
        assert found.start(WatchQuery("ConfigMap", 1)).refusal is None, "the whole life of this database is kept"


def test_the_history_of_a_kind_begins_after_the_forgotten_changes(url: str) -> None:
    """A cloudcore of an earlier version writes no changes; and each kind keeps so many."""
    with Cloud(url) as cloud:
        cloud.apply(configmap("a"))
        begin = cloud.cluster.storage.version
        cloud.apply(configmap("b"))
        with cloud.database.engine.begin() as connection:
            connection.execute(delete(tables.tables["cluster_changes"]))
        last = cloud.cluster.storage.version
        cloud.apply(configmap("c"), pod())
    with Cloud(url) as later:
        found = history(later)
        assert found.start(WatchQuery("ConfigMap", begin)).refusal is not None
        assert [one.object["metadata"]["name"] for one in found.start(WatchQuery("ConfigMap", last)).changes] == ["c"]
        assert found.start(WatchQuery("Node", begin)).refusal is None
        with later.turn():
            later.database.forget_changes("Pod", later.cluster.storage.version)
    with Cloud(url) as third:
        found = history(third)
        assert found.start(WatchQuery("Pod", last)).refusal is not None
        assert found.start(WatchQuery("Pod", third.cluster.storage.version)).changes == []
        assert [one.object["metadata"]["name"] for one in found.start(WatchQuery("ConfigMap", last)).changes] == ["c"]


def labelled_secret(app: str, value: str) -> dict[str, object]:
    """A Secret as `kubectl apply` makes it."""
    meta = {"name": "key", "labels": {"app": app}, "annotations": {LAST_APPLIED: f'{{"data":{{"a":"{value}"}}}}'}}
    return {**secret(), "metadata": meta, "data": {"a": value}}


def test_a_watch_of_secrets_misses_no_change_of_what_selectors_select(url: str) -> None:
    """Of a Secret's states only the present one is kept: a selector may have lost it in one that is not."""
    versions = []
    with Cloud(url) as cloud:
        for app, value in (("x", "MTEx"), ("y", "MTEx"), ("y", "MjIy")):
            cloud.apply(labelled_secret(app, value))
            versions.append(cloud.cluster.storage.version)
    with Cloud(url) as later:
        found = history(later)
        assert found.start(WatchQuery("Secret", versions[0] - 1)).refusal is not None, "it was made since"
        assert found.start(WatchQuery("Secret", versions[0])).refusal is not None, "it has left app=x since"
        (changed,) = found.start(WatchQuery("Secret", versions[1])).changes
        assert (changed.change, changed.object["data"], changed.old) == ("MODIFIED", {"a": "MjIy"}, changed.object)
        assert found.start(WatchQuery("ConfigMap", versions[0] - 1)).refusal is None


def test_no_change_keeps_the_values_of_a_former_secret(url: str) -> None:
    """kubectl's annotation has them, too."""
    with Cloud(url) as cloud:
        cloud.apply(labelled_secret("x", "MTEx"))
        cloud.apply(labelled_secret("y", "MjIy"))
        cloud.delete(ObjectKey("Secret", "default", "key"))
        with cloud.database.engine.connect() as connection:
            rows = [tuple(row) for row in connection.execute(select(tables.tables["cluster_changes"]))]
        assert len(rows) == 3
        assert [value for value in ("MTEx", "MjIy") if value in str(rows)] == []


def without_room(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, *, short: bool) -> None:
    """Let a cloudcore's disk be full below its reserve, or have room again."""
    monkeypatch.setattr(cloud.database.room, "is_short", short)


def test_changes_forgotten_later_do_not_hide_the_ones_not_kept(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has the changes that a full disk had no room for, and forgets older ones first; watches that went on
    after a restart missed those changes without a word.
    """
    with Cloud(url, "a") as cloud, Cloud(url, "b") as other:
        cloud.apply(configmap("a"))
        first = cloud.cluster.storage.version
        cloud.apply(configmap("b"))
        begin = cloud.cluster.storage.version
        without_room(cloud, monkeypatch, short=True)
        cloud.apply(configmap("b", a="1"))
        gap = cloud.cluster.storage.version
        without_room(cloud, monkeypatch, short=False)
        cloud.apply(configmap("b", a="2"))
        for each in (cloud, other):
            with each.turn():
                each.database.forget_changes("ConfigMap", first)
    with Cloud(url) as later:
        found = history(later)
        assert present(found.start(WatchQuery("ConfigMap", begin)).refusal)["code"] == 410
        assert [one.object["data"] for one in found.start(WatchQuery("ConfigMap", gap)).changes] == [{"a": "2"}]


def test_the_commit_that_takes_the_reserve_leaves_its_changes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nodes need has to find its room there."""
    url = str(tmp_path / "cloud.db")
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    with Cloud(url) as cloud:
        cloud.apply(configmap("a"))
        begin = cloud.cluster.storage.version
        make_durable = cloud.database._make_durable

        def make_durable_with_reserve() -> None:
            if not cloud.database.room.is_short:
                raise error
            make_durable()

        def give() -> bool:
            without_room(cloud, monkeypatch, short=True)
            return True

        monkeypatch.setattr(cloud.database, "_make_durable", make_durable_with_reserve)
        monkeypatch.setattr(cloud.database.room, "give", give)
        cloud.apply(configmap("a", a="1"))
    with Cloud(url) as later:
        assert history(later).start(WatchQuery("ConfigMap", begin)).refusal is not None


def test_a_change_that_another_did_not_keep_is_no_gap_in_a_history(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may have heard of an object from one cloudcore, and ask the other what has become of it: that one has
    never known it, if it was made and deleted since.
    """
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        watched = history(other)
        without_room(one, monkeypatch, short=True)
        one.apply(configmap())
        heard = one.cluster.storage.version
        without_room(one, monkeypatch, short=False)
        one.delete(SETTINGS)
        last = one.cluster.storage.version
        assert other.transact() == []
        assert present(watched.start(WatchQuery("ConfigMap", heard)).refusal)["code"] == 410
        assert watched.start(WatchQuery("ConfigMap", last)).refusal is None


@pytest.mark.parametrize("compacted", [False, True], ids=["damaged", "compacted"])
def test_what_another_has_made_and_deleted_unseen_is_no_history(url: str, *, compacted: bool) -> None:
    """Its change cannot be read, or its deletion is forgotten: nothing present tells of it."""
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.apply(pod())
        other.transact()
        watched = history(other)
        one.apply(configmap())
        heard = one.cluster.storage.version
        one.delete(SETTINGS)
        with one.database.engine.begin() as connection:
            if compacted:
                connection.execute(update(tables.tables["cluster_state"]).values(compacted=heard + 1))
                gone = tables.tables["cluster_objects"]
                connection.execute(delete(gone).where(gone.c.body.is_(None)))
            else:
                connection.execute(update(tables.tables["cluster_changes"]).values(type="?"))
        assert other.transact() == []
        assert watched.start(WatchQuery("ConfigMap", heard)).refusal is not None
        assert watched.start(WatchQuery("ConfigMap", one.cluster.storage.version)).refusal is None


def test_a_damaged_change_is_no_history(url: str) -> None:
    with Cloud(url) as cloud:
        cloud.apply(configmap("a"))
        begin = cloud.cluster.storage.version
        cloud.apply(configmap("b"))
        with cloud.database.engine.begin() as connection:
            connection.execute(update(tables.tables["cluster_changes"]).values(body=b"{"))
        last = cloud.cluster.storage.version
    with Cloud(url) as later:
        found = history(later)
        assert found.start(WatchQuery("ConfigMap", begin)).refusal is not None
        assert found.start(WatchQuery("ConfigMap", last)).refusal is None


def test_a_deletion_whose_change_was_not_kept_is_one(url: str) -> None:
    """Another cloudcore is of an earlier version, or its disk is full. The deletion has its own version, and its place
    among other changes.
    """
    with Cloud(url) as one, Cloud(url, "other") as other:
        one.apply(pod("web"))
        assert other.transact() == [f"ADDED {WEB}"]
        one.delete(WEB)
        version = one.cluster.storage.version
        one.apply(configmap())
        with other.database.engine.begin() as connection:
            connection.execute(delete(tables.tables["cluster_changes"]))
        assert other.transact() == [f"DELETED {WEB}", f"ADDED {SETTINGS}"]
        assert other.seen[0].new["metadata"]["resourceVersion"] == str(version)
        assert other.cluster.storage.find(WEB) is None


def test_a_change_is_made_to_the_others_last_state(url: str) -> None:
    """Neither overwrites the other, and no version is given twice."""
    versions = []
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.apply(pod())
        for cloud, phase in ((one, "Pending"), (other, "Running"), (one, "Succeeded")):
            with cloud.turn():
                new = patch_status(cloud.cluster, WEB, {"status": {"phase": phase, phase: "1"}})
            versions.append(new["metadata"]["resourceVersion"])
        assert {"Pending": "1", "Running": "1"}.items() <= one.cluster.storage.get(WEB)["status"].items()
    assert len(set(versions)) == 3


def test_an_object_that_was_replaced_meanwhile_is_another(url: str) -> None:
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.apply(configmap())
        other.transact()
        one.delete(SETTINGS)
        one.apply(configmap())
        assert other.transact() == ["DELETED configmap/default/settings", "ADDED configmap/default/settings"]


@pytest.mark.parametrize("pods", [2, 5], ids=["up to the first that it has not seen", "long after it"])
@pytest.mark.parametrize("keeps_changes", [False, True])
def test_who_was_away_while_deletions_were_forgotten_reads_everything_again(
    url: str, monkeypatch: pytest.MonkeyPatch, *, keeps_changes: bool, pods: int
) -> None:
    module = "modules.cloud.storage.database.database"
    monkeypatch.setattr(f"{module}._FORGET_AFTER", 2)
    monkeypatch.setattr(f"{module}._FORGET_EVERY", 1)
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.apply(configmap())
        other.transact()
        one.delete(SETTINGS)
        for number in range(pods):
            one.apply(pod(f"p{number}"))
        if not keeps_changes:
            with one.turn():
                one.database.forget_changes(SETTINGS.kind, one.cluster.storage.version)
        assert other.transact()[0] == "DELETED configmap/default/settings"
        assert [obj["metadata"]["name"] for obj in other.cluster.storage.list(kind_named("Pod"))] == [
            f"p{n}" for n in range(pods)
        ]


@pytest.mark.parametrize(("every", "are_kept"), [(3, False), (1000, True)])
def test_deletions_are_forgotten_however_many_versions_a_transaction_has(
    url: str, monkeypatch: pytest.MonkeyPatch, *, every: int, are_kept: bool
) -> None:
    """But not with each transaction."""
    module = "modules.cloud.storage.database.database"
    monkeypatch.setattr(f"{module}._FORGET_AFTER", 2)
    monkeypatch.setattr(f"{module}._FORGET_EVERY", every)
    with Cloud(url) as cloud:
        cloud.apply(configmap())
        cloud.delete(SETTINGS)
        while cloud.cluster.storage.version % 3 != 1:
            cloud.apply(pod("web"))
            cloud.delete(WEB)
        for number in range(3):
            cloud.apply(pod(f"a{number}"), pod(f"b{number}"), pod(f"c{number}"))
        with closing(cloud.database.engine.connect()) as connection:
            assert bool(connection.execute(select(objects).where(objects.c.body.is_(None))).all()) is are_kept


def test_the_versions_of_a_node_are_there_for_the_next_cloudcore(url: str) -> None:
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        with one.turn():
            one.database.put_object_sync("n1", "u1", ObjectSync(WEB))
            one.database.put_object_sync("n1", "u2", ObjectSync(SETTINGS, 7))
            one.database.put_object_sync("n2", "u3", ObjectSync(WEB))
        with other.turn():
            assert other.database.object_syncs_of("n1") == {"u1": ObjectSync(WEB), "u2": ObjectSync(SETTINGS, 7)}
            other.database.put_object_sync("n1", "u1", None)
            other.database.put_object_sync("n1", "u2", ObjectSync(SETTINGS, 9))
            assert other.database.object_syncs_of("n1") == {"u2": ObjectSync(SETTINGS, 9)}, (
                "what is not written yet counts too"
            )
        with one.turn():
            assert one.database.object_syncs_of("n1") == {"u2": ObjectSync(SETTINGS, 9)}
            one.database.forget_node("n1")
            assert one.database.object_syncs_of("n1") == {}
        with other.turn():
            assert other.database.object_syncs_of("n1") == {}
            assert other.database.object_syncs_of("n2") == {"u3": ObjectSync(WEB)}


def test_the_others_learn_where_a_node_has_connected(url: str) -> None:
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        with one.turn():
            one.database.claim("n1", "link", one.cluster.storage.next_version(), 1000)
        other.transact()
        assert other.claims == [("n1", Holder("a", 1000))]
        one.transact()
        assert one.claims == []


def test_a_claim_that_is_made_again_is_as_old_as_at_first(url: str) -> None:
    """Another's is newer that was stored since, however often the transactions with this one are lost."""
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        for is_first in (True, False):
            one.transactions.begin()
            one.database.claim("n1", "link", one.cluster.storage.next_version())
            one.transactions.abandon()
            if is_first:
                with other.turn():
                    other.database.claim("n1", "theirs", other.cluster.storage.next_version())
        one.claims.clear()
        one.transact()
        assert one.claims == [("n1", Holder("b"))]


def test_a_claim_ends_with_its_connection(url: str) -> None:
    """Also one that is not stored, as its transaction was lost."""
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.transactions.begin()
        one.database.claim("n1", "link", one.cluster.storage.next_version(), 2000)
        one.transactions.abandon()
        one.database.disconnected("n1")
        with other.turn():
            other.database.claim("n1", "theirs", other.cluster.storage.next_version(), 1000)
        one.transact()
        assert one.claims == [("n1", Holder("b", 1000))]


def test_the_others_learn_to_the_millisecond_when_a_node_has_connected(url: str) -> None:
    """But of the second only from a cloudcore of an earlier version, which leaves the milliseconds of another claim."""
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        for at in (1_700_000_000.123, 1_700_000_000.5, 1_700_000_001.0):
            one.transactions.begin()
            one.database.claim("n1", "link", one.cluster.storage.next_version(), at)
            one.transactions.commit()
            other.claims.clear()
            other.transact()
            assert other.claims == [("n1", Holder("a", at))]
        with one.database.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE cluster_sessions SET connected_at = 1700000009, revision = revision + 1")
            connection.exec_driver_sql("UPDATE cluster_state SET revision = revision + 1")
        other.claims.clear()
        other.transact()
        assert other.claims == [("n1", Holder("a", 1_700_000_009))]


def test_a_database_without_the_times_of_connections_is_taken_over(url: str) -> None:
    """An earlier cloudcore that runs beside this one goes on writing its claims, without them."""
    claim = "INSERT INTO cluster_sessions (node, cloudcore, revision) VALUES ('{}', 'a', 7)"
    with Cloud(url, "a") as cloud, cloud.database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE cluster_sessions DROP COLUMN connected_at")
        connection.exec_driver_sql("ALTER TABLE cluster_sessions DROP COLUMN connected_at_ms")
        connection.exec_driver_sql(claim.format("n1"))
    for node in ("n2", "n3"):
        with Cloud(url, "b") as cloud, cloud.database.engine.begin() as connection:
            connection.exec_driver_sql(claim.format(node))
            times = connection.exec_driver_sql("SELECT connected_at, connected_at_ms FROM cluster_sessions").all()
            assert set(map(tuple, times)) == {(0, 0)}


def test_the_longest_kind_and_name_are_kept_and_found_again(url: str) -> None:
    """Also in a database of an earlier cloudcore, whose kinds had 64 characters: one longer ended each transaction."""
    kind = f"{'K' * 63}.{'g' * 253}"
    key = ObjectKey(kind, "n" * 63, "\N{PARTY POPPER}" * 253)
    with Cloud(url) as cloud, cloud.database.engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            for table in ("objects", "changes", "history", "syncs"):
                connection.exec_driver_sql(f"ALTER TABLE cluster_{table} ALTER COLUMN kind TYPE VARCHAR(64)")
    with Cloud(url) as cloud:
        with cloud.turn():
            version = str(cloud.cluster.storage.next_version())
            made = {"metadata": {"name": key.name, "namespace": key.namespace, "resourceVersion": version}}
            cloud.database.put(ObjectEvent(EventType.ADDED, key, made, body=msgspec.json.encode(made)))
            cloud.database.put_object_sync("n1", "u1", ObjectSync(key, 1))
        with cloud.turn():
            cloud.database.forget_changes(kind, cloud.cluster.storage.version)
    with Cloud(url) as later:
        assert later.cluster.storage.find(key) is not None
        later.transactions.begin()
        assert later.database.object_syncs_of("n1") == {"u1": ObjectSync(key, 1)}
        assert later.database.watch_history().began[kind] == later.cluster.storage.version


@pytest.mark.parametrize(
    "text",
    ["postgresql://u:geheim@h/x", "postgresql://u@h/x?password=geheim", "postgresql://h/x?sslkey=k&sslpassword=geheim"],
)
def test_no_password_of_a_url_is_shown(text: str) -> None:
    """libpq takes passwords as parameters, too."""
    assert "geheim" not in shown(url_of(text))


def test_a_url_whose_port_is_no_number_is_refused_without_its_password() -> None:
    with pytest.raises(DatabaseError) as raised:
        Database("postgresql://u:geheim@h:x/y", "a")
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("host", "mode", "proves"),
    [("/run", "", True), ("localhost", "", True), ("h", "verify-full", True), ("h", "verify-ca", False),
     ("h", "", False)],
)  # fmt: skip
def test_a_server_over_the_network_is_to_prove_its_name(host: str, mode: str, *, proves: bool) -> None:
    assert proves_name(host, mode) is proves


@needs_postgresql
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_keep_each_name_is_refused(postgresql: str, encoding: str) -> None:
    """The first such name would end each transaction from then on."""
    engine = make_engine(url_of(postgresql))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {encoding}")
        connection.exec_driver_sql(f"CREATE DATABASE {encoding} TEMPLATE template0 ENCODING '{encoding}'")
    engine.dispose()
    with pytest.raises(DatabaseError, match=f"its encoding is {encoding}: .* ENCODING 'UTF8'"):
        Database(postgresql.replace("/postgres?", f"/{encoding.lower()}?"), "a")


@needs_postgresql
@pytest.mark.parametrize("table", ["cluster_objects", "cluster_state", "cluster_changes"])
@pytest.mark.parametrize("is_used", [True, False])
def test_tables_of_another_user_are_refused(postgresql: str, table: str, *, is_used: bool) -> None:
    """Before the first start, or later in front of cloudcore's own: a trigger of theirs would run with its rights."""
    engine = make_engine(url_of(postgresql))
    url = re.sub(r"//[^@]+@", "//cloud@", postgresql)
    statements = (
        "DROP OWNED BY cloud, evil", "DROP SCHEMA IF EXISTS first CASCADE", "DROP ROLE IF EXISTS cloud, evil",
        "CREATE ROLE cloud LOGIN", "CREATE ROLE evil", "GRANT CREATE ON SCHEMA public TO cloud",
        "CREATE SCHEMA first AUTHORIZATION evil", "GRANT USAGE ON SCHEMA first TO cloud",
    )  # fmt: skip
    tables.drop_all(engine)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            with suppress(ProgrammingError) if statement.startswith("DROP OWNED") else nullcontext():
                connection.exec_driver_sql(statement)
        if is_used:
            Database(url, "a").close()
        connection.exec_driver_sql("ALTER ROLE cloud SET search_path = first, public")
        connection.exec_driver_sql(f"CREATE TABLE first.{table} (id integer)")
        connection.exec_driver_sql(f"ALTER TABLE first.{table} OWNER TO evil")
    engine.dispose()
    with pytest.raises(DatabaseError, match=f"table {table} belongs to evil"):
        Database(url, "a")


def test_a_version_is_where_sqlite_keeps_the_change(tmp_path: Path) -> None:
    """An index beside the table would be one more page to write for each change."""
    with Cloud(str(tmp_path / "cloud.db")) as cloud, cloud.database.engine.begin() as connection:
        found = connection.exec_driver_sql("PRAGMA index_list(cluster_changes)").all()
        assert [row[1] for row in found] == ["ix_cluster_changes_kind"]


def test_a_database_is_new_until_something_is_in_it(url: str) -> None:
    """Not who made the tables alone may have lost another: who starts beside it, and who failed at its first start."""
    with Cloud(url) as first, Cloud(url, "b") as beside:
        assert first.database.is_new
        assert beside.database.is_new
    with Cloud(url) as second:
        assert second.database.is_new
        second.apply(configmap())
    with Cloud(url) as third:
        assert not third.database.is_new


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    with Cloud(url) as cloud:
        with cloud.database.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE cluster_state SET schema_version = 99")
        with pytest.raises(DatabaseError, match="version 99, this cloudcore knows 2"):
            Database(url, "b")


def test_a_cloudcore_writes_nothing_into_tables_that_a_newer_one_has_changed_meanwhile(url: str) -> None:
    """Replicas of another version are started beside it; it goes on when they have gone back."""
    with Cloud(url) as cloud:
        cloud.apply(pod())

        def write(version: int) -> None:
            with cloud.database.engine.begin() as connection:
                connection.execute(tables.tables["cluster_state"].update().values(schema_version=version))

        write(99)
        with pytest.raises(DatabaseError, match="version 99, this cloudcore knows 2; use the other cloudcore"):
            cloud.apply(configmap())
        cloud.transactions.abandon()
        write(SCHEMA_VERSION)
        cloud.apply(configmap(late="1"))
    with Cloud(url) as again:
        assert again.cluster.storage.get(SETTINGS)["data"] == {"late": "1"}


def test_a_file_that_another_program_has_closed_keeps_its_log(tmp_path: Path) -> None:
    """Also while this process opens it a second time: the journals do."""
    url = str(tmp_path / "cloud.db")
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM cluster_state'); c.close()"
    )
    with Cloud(url) as cloud:
        cloud.apply(pod())
        make_engine(url_of(url)).dispose()
        subprocess.run([sys.executable, "-c", script, url], check=True)
        cloud.apply(configmap())
        with Cloud(url) as other:
            assert other.cluster.storage.get(WEB)
            assert other.cluster.storage.get(SETTINGS)
        assert Path(f"{url}-wal").exists()


def test_a_file_is_copied_before_its_schema_gets_another_version(tmp_path: Path) -> None:
    """Whole and private; a later copy takes its place."""
    url = str(tmp_path / "cloud.db")
    copy = Path(f"{url}-schema-1")
    for number in range(2):
        with Cloud(url) as cloud:
            assert copy.exists() == bool(number)
            cloud.apply(configmap(**{f"k{number}": "1"}))
            with cloud.database.engine.begin() as connection:
                for name in ("cluster_node_states", "cluster_epochs"):
                    connection.exec_driver_sql(f"DROP TABLE {name}")
                connection.exec_driver_sql("UPDATE cluster_state SET schema_version = 1")
        Database(url, "b").close()
        assert copy.stat().st_mode & 0o777 == 0o600
        assert copy.read_bytes()[18:20] == b"\1\1", "it is whole without a log beside it"
        with closing(sqlite3.connect(copy)) as kept:  # of the latest change, and of no other
            (found,) = kept.execute("SELECT schema_version FROM cluster_state").fetchone()
            (body,) = kept.execute("SELECT body FROM cluster_objects WHERE kind = 'ConfigMap'").fetchone()
        assert (found, f"k{number}" in body.decode()) == (1, True)
    assert {path.name for path in tmp_path.iterdir() if "schema" in path.name} == {copy.name}


def test_a_file_that_cannot_be_copied_keeps_its_schema(tmp_path: Path) -> None:
    url = str(tmp_path / "cloud.db")
    with Cloud(url) as cloud, cloud.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE cluster_state SET schema_version = 1")
    Path(f"{url}-schema-1").mkdir()
    with pytest.raises(DatabaseError, match="copy the database before its schema is changed"):
        Database(url, "b")
    with closing(sqlite3.connect(url)) as kept:
        assert kept.execute("SELECT schema_version FROM cluster_state").fetchone() == (1,)


def test_a_database_of_the_version_before_is_taken_over(url: str) -> None:
    """The nodes' acknowledgements stay; their Node is not known yet. Watches go on from what is changed later."""
    with Cloud(url) as cloud:
        with cloud.turn():
            cloud.database.put_object_sync("n1", "u1", ObjectSync(WEB, 7))
        begin = cloud.cluster.storage.next_version()
        with cloud.database.engine.begin() as connection:
            for name in ("node_states", "epochs", "changes", "history", "signing_keys"):
                connection.exec_driver_sql(f"DROP TABLE cluster_{name}")
            connection.execute(tables.tables["cluster_state"].update().values(schema_version=1, revision=begin))
    for name in ("a", "b"):
        with Cloud(url) as cloud:
            cloud.apply(configmap(name))
        with Cloud(url) as cloud:
            cloud.transactions.begin()
            assert cloud.database.watch_history().began[""] == begin
            assert cloud.database.node_states() == {"n1": NodeState()}
            assert cloud.database.object_syncs_of("n1") == {"u1": ObjectSync(WEB, 7)}
            assert cloud.database.epoch() == Epoch()


def test_the_state_of_a_node_is_there_for_the_next_cloudcore_and_ends_with_it(url: str) -> None:
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        with one.turn():
            one.database.put_node_state("n1", NodeState("u", 3))
            assert one.database.node_state_of("n1") == NodeState("u", 3)
            one.database.claim("n1", "link", one.cluster.storage.next_version())
        with other.turn():
            assert other.database.node_states() == {"n1": NodeState("u", 3)}
            other.database.forget_node("n1")
            assert other.database.node_state_of("n1") == NodeState()
            other.database.release("n1")
    with Cloud(url, "c") as third:
        assert third.claims == []
        third.transactions.begin()
        assert third.database.node_states() == {}


def test_a_signing_key_is_there_for_the_next_cloudcore(url: str) -> None:
    """It is seen in its transaction, and in none if that is rolled back."""
    key = StoredSigningKey("k1", 7, 0, b"private")
    with Cloud(url) as first:
        first.transactions.begin()
        first.database.put_signing_key("k0", key)
        assert first.database.signing_keys() == [key]
        first.transactions.abandon()
        with first.turn():
            assert first.database.signing_keys() == []
            first.database.put_signing_key("k1", key)
    retired = StoredSigningKey("k1", 7, 9, b"public")
    with Cloud(url, "second") as second:
        with second.turn():
            assert second.database.signing_keys() == [key]
            second.database.put_signing_key("k1", retired)
        with second.turn():
            assert second.database.signing_keys() == [retired]
            second.database.put_signing_key("k2", key)
            second.database.set_savepoint()
            second.database.put_signing_key("k2", None)
            second.database.put_signing_key("k1", None)
            assert second.database.signing_keys() == []
        with second.turn():
            assert second.database.signing_keys() == []


def test_a_database_without_signing_keys_is_taken_over(url: str) -> None:
    with Cloud(url) as first:
        first.apply(pod())
    older = make_engine(url_of(url))
    signing_keys.drop(older)
    older.dispose()
    with Cloud(url) as second:
        with second.turn():
            assert second.database.signing_keys() == []
        assert second.cluster.storage.find(WEB) is not None


def test_no_file_has_the_private_part_of_a_retired_key(tmp_path: Path) -> None:
    path = tmp_path / "cloud.db"
    with Cloud(str(path)) as cloud:
        for pem in (b"the private part", b"the public part"):
            with cloud.turn():
                cloud.database.put_signing_key("k1", StoredSigningKey("k1", 7, 0, pem))
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        assert [name for name, content in files.items() if b"the private part" in content] == []
        assert any(b"the public part" in content for content in files.values())


def test_an_epoch_and_its_newest_version_only_go_on(url: str) -> None:
    with Cloud(url) as cloud:
        for epoch in (Epoch(1, 50), Epoch(1, 40), Epoch(0, 90), Epoch(2, 10)):
            with cloud.turn():
                cloud.database.put_epoch(epoch)
            with cloud.turn():
                assert cloud.database.epoch() == (Epoch(2, 10) if epoch.number == 2 else Epoch(1, 50))


def break_within_a_turn(cloud: Cloud) -> None:
    """Something has changed, and before it is written the connection breaks."""
    cloud.apply(configmap(a="1"))
    cloud.transactions.begin()
    cloud.cluster.apply(configmap(a="2"))
    assert cloud.database._connection is not None
    cloud.database._connection.connection.driver_connection.close()  # type: ignore[union-attr]


class _Counting(RealClock):
    """Each reading is a second after the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._readings = itertools.count()

    def monotonic(self) -> float:
        return float(next(self._readings))


def test_transactions_are_measured_and_failures_counted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Counting()
    with Cloud(url) as cloud:
        cloud.database.meter = meter = TransactionMeter(clock)
        acquire = cloud.database._turn.acquire
        monkeypatch.setattr(cloud.database._turn, "acquire", lambda timeout: clock.monotonic() > 0 and acquire(timeout))
        cloud.transact()
        cloud.apply(configmap())
        assert (meter.waits.total, meter.transactions.total, meter.failures) == (4.0, 2.0, 0)
        break_within_a_turn(cloud)
        with pytest.raises(DatabaseError):
            cloud.transactions.commit()
        cloud.transactions.abandon()
        assert meter.failures == 1
        assert dict(meter.transactions.buckets()) == {"0.005": 0, "0.025": 0, "0.1": 0, "0.5": 0} | dict.fromkeys(
            ("2.5", "10.0", "+Inf"), 4
        )


def test_a_connection_that_breaks_is_made_again(url: str) -> None:
    """The transaction is lost with it, and its changes in memory too."""
    with Cloud(url) as cloud:
        break_within_a_turn(cloud)
        with pytest.raises(DatabaseError):
            cloud.transactions.commit()
        cloud.transactions.abandon()
        assert cloud.transact() == [f"MODIFIED {SETTINGS}"], "they are not made once more"
        assert cloud.cluster.storage.get(SETTINGS)["data"] == {"a": "1"}
        cloud.apply(configmap(a="3"))


def test_a_turn_is_given_up_although_its_connection_has_broken(url: str) -> None:
    """What it has changed in memory would stay there, and never be written."""
    with Cloud(url) as cloud:
        break_within_a_turn(cloud)
        cloud.transactions.abandon()
        assert cloud.transact() == [f"MODIFIED {SETTINGS}"], "they are not made once more"
        assert cloud.cluster.storage.get(SETTINGS)["data"] == {"a": "1"}


def test_rows_that_others_took_away_are_no_error(url: str) -> None:
    """A complete reading says what is left."""
    with Cloud(url) as cloud:
        cloud.apply(configmap(), pod())
        with cloud.database.engine.begin() as connection:
            connection.execute(delete(tables.tables["cluster_objects"]))
        cloud.transactions.abandon()
        assert sorted(cloud.transact()) == ["DELETED configmap/default/settings", "DELETED pod/default/web"]


def test_only_its_user_can_read_the_file_and_what_sqlite_puts_beside_it(tmp_path: Path) -> None:
    with Cloud(str(tmp_path / "made" / "cloud.db")) as cloud:
        cloud.apply(configmap())
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"made": 0o700} | dict.fromkeys(("cloud.db", "cloud.db-wal", "cloud.db-shm"), 0o600)


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "changed"])
def test_no_file_has_the_old_value_of_a_secret(tmp_path: Path, is_deleted: bool) -> None:
    """Neither SQLite's database, nor its log, although another module of the process has a connection, too."""
    old = b64encode(b"old value of it")
    with Cloud(str(tmp_path / "c.db")) as cloud, Cloud(str(tmp_path / "c.db"), "b") as other:
        cloud.apply(secret(a="old value of it"))
        assert old in b"".join(file.read_bytes() for file in tmp_path.iterdir())
        other.transact()
        if is_deleted:
            cloud.delete(ObjectKey("Secret", "default", "key"))
        else:
            cloud.apply(secret(a="new value"))
        assert old not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    with Cloud(str(tmp_path / "cloud.db")) as cloud, cloud.database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("these are somebody's notes\n" * 100)
    with pytest.raises(DatabaseError, match="file is not a database; put a backup in its place"):
        Database(str(path), "a")
    assert path.read_text().startswith("these are")


@pytest.mark.parametrize("kept", [100, 6000])
def test_a_truncated_file_is_refused_with_the_remedy(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cloud.db"
    with Cloud(str(path)) as cloud:
        cloud.apply(*(configmap(f"c{number}", a="x" * 1000) for number in range(50)))
    os.truncate(path, kept)
    with pytest.raises(DatabaseError, match="put a backup in its place"):
        Database(str(path), "a")


def test_another_process_that_holds_the_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, *others) = engine._SQLITE_PRAGMAS
    monkeypatch.setattr(engine, "_SQLITE_PRAGMAS", ("PRAGMA busy_timeout=1", *others))
    with Cloud(str(tmp_path / "cloud.db")) as cloud, closing(sqlite3.connect(tmp_path / "cloud.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="database is locked"):
            cloud.transactions.begin()
        cloud.transactions.abandon()
        other.rollback()
        cloud.apply(configmap())


@pytest.mark.parametrize(
    "url", ["oracle+nothing://u:hunter2@h/d", "postgresql://u:hunter2@127.0.0.1:1/d", "://hunter2"]
)
def test_a_password_is_in_no_error(url: str) -> None:
    with pytest.raises(DatabaseError) as refused:
        Database(url, "a")
    assert "hunter2" not in str(refused.value)


def test_a_turn_of_a_database_in_memory_begins_with_its_first_use() -> None:
    """It waits for no other module's turn, reads what it has written, and what is abandoned is not there."""
    turn = Turns()
    database = Database("sqlite://", "a", turn=turn, meter=TransactionMeter(_Counting()))
    kept, dropped = ObjectSync(WEB, 7), ObjectSync(SETTINGS, 8)
    database.begin()
    database.put_object_sync("n1", "kept", kept)
    database.commit(1)
    assert turn.acquire()  # for another module's transaction
    assert database.begin() is None
    assert database.in_transaction
    database.commit(1)
    database.begin()
    assert database.object_syncs_of("n1") == {"kept": kept}
    database.put_object_sync("n1", "dropped", dropped)
    database.abandon()
    turn.release()
    database.begin()
    assert database.object_syncs_of("n1") == {"kept": kept}
    assert database.meter.waits.total == 4.0, "a second between two readings of the clock"
    database.close()
    with pytest.raises(DatabaseError, match="no transaction has begun"):
        database.object_syncs_of("n1")


def test_tables_and_indexes_are_created_and_missing_ones_added(url: str) -> None:
    """A table that is there already stays; a new database has its first rows."""
    begun = make_engine(url_of(url))
    tables.create_all(begun, tables=[tables.tables["cluster_changes"]])
    begun.dispose()
    with Cloud(url) as cloud:
        found = inspect(cloud.database.engine)
        assert set(found.get_table_names()) == set(tables.tables)
        made = {name: {index["name"] for index in found.get_indexes(name)} for name in tables.tables}
        assert made == {name: {index.name for index in table.indexes} for name, table in tables.tables.items()}
        with cloud.database.engine.connect() as connection:
            rows = {name: connection.execute(select(table)).all() for name, table in tables.tables.items()}
        first = {
            "cluster_state": [(1, SCHEMA_VERSION, 0, 0)],
            "cluster_epochs": [(1, 0, 0)],
            "cluster_history": [("", 0)],
        }
        assert {name: found for name, found in rows.items() if found} == first


def test_nobody_takes_the_lock_of_sqlite_to_look_for_nothing(tmp_path: Path) -> None:
    with Cloud(str(tmp_path / "cloud.db"), "a") as one, Cloud(str(tmp_path / "cloud.db"), "b") as other:
        other.apply(secret())
        other.database.may_have_changed()
        assert not other.database.may_have_changed()
        one.apply(pod())
        assert other.database.may_have_changed()
        assert not other.database.may_have_changed(), "it has been told"


on_postgresql = pytest.mark.parametrize("url", [pytest.param("postgresql", marks=needs_postgresql)], indirect=True)


@on_postgresql
def test_changes_are_taken_over_while_another_cloudcore_has_the_lock(url: str) -> None:
    with Cloud(url, "a") as one:
        one.apply(secret())
        with Cloud(url, "b") as other, Cloud(url, "c") as third:
            one.apply(pod(), configmap())
            with third.turn():
                assert other.adopt() == [f"ADDED {WEB}", f"ADDED {SETTINGS}"]
                assert other.adopt() == [], "nothing has changed since"
                seen = other.cluster.storage.version
                assert other.database.changes_elsewhere() == RemoteChanges([], seen), "nor is it read again"
            one.delete(WEB)
            assert other.transact() == [f"DELETED {WEB}"], "a transaction begins where they ended"


@on_postgresql
def test_a_change_that_comes_while_others_are_taken_over_follows_them(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows from a change may use the database, and so begin a transaction that finds further changes."""
    with Cloud(url, "a") as one:
        one.apply(secret())
        with Cloud(url, "b") as other:
            one.apply(pod(), configmap())
            seen: list[str] = []

            def follow(event: ObjectEvent) -> None:
                seen.append(f"{event.type} {event.key}")
                if len(seen) == 1:
                    one.delete(WEB)
                    other.database.node_states()

            monkeypatch.setattr(other.transactions._handler, "object_changed", follow)
            assert other.adopt() is not None
            assert seen == [f"ADDED {WEB}", f"ADDED {SETTINGS}", f"DELETED {WEB}"]


def test_all_objects_are_read_in_a_transaction_only(url: str) -> None:
    with Cloud(url, "a") as one, Cloud(url, "b") as other:
        one.apply(pod())
        first = Database(url, "c")
        assert first.changes_elsewhere() is None
        first.close()
        other.transactions.abandon()
        assert other.adopt() is None
        assert other.transact() == [f"ADDED {WEB}"]


def test_a_cloudcore_alone_looks_less_often(tmp_path: Path) -> None:
    known, context, found = KnownCloudcores("a"), FakeContext(), list[float]()
    with Cloud(str(tmp_path / "cloud.db"), "a") as one, Cloud(str(tmp_path / "cloud.db"), "b") as other:

        def poll() -> None:
            one.transact()
            found.append(context.clock.monotonic())

        poll_for_changes(context, one.database, poll, lambda: known.is_alone)
        context.simulation.run_for(0.3)
        began = found.pop()
        for alive, late in (("a",), 1.0), (("a", "b"), 1.0), (("a", "b"), 0.25), (("a", "b"), 0.25):
            other.apply(configmap(str(len(found))))
            known.alive = alive
            context.simulation.run_for(late)
            assert found[-1] - began == pytest.approx(late)
            began = found[-1]
        context.simulation.run_for(60.0)
        assert len(found) == 4, "nothing has changed since"


def test_a_lost_notification_costs_five_seconds(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.cloud.storage.database.listener.can_listen", lambda _: True)
    monkeypatch.setattr("modules.cloud.storage.database.listener.DatabaseListener", _Deaf)
    context, found = FakeContext(), list[float]()
    with Cloud(url) as cloud:
        poll_for_changes(context, cloud.database, lambda: found.append(context.clock.monotonic()), lambda: True)
        context.simulation.run_for(11.0)
    assert [later - earlier for earlier, later in itertools.pairwise(found)] == [pytest.approx(5.0)]


class _Deaf(Actor):
    """A listener whose notifications are all lost."""

    def __init__(self, *_: object) -> None:
        super().__init__()

    def on_receive(self, message: object) -> None:
        """Do nothing."""


def test_notifications_that_come_together_are_one_look() -> None:
    later: list[Callable[[], None]] = []
    found: list[int] = []

    def look() -> None:
        found.append(len(later))
        if len(found) == 1:
            looks.ask()

    looks = Looks(later.append, look)
    for _ in range(3):
        looks.ask()
    assert len(later) == 1
    later.pop()()
    assert len(later) == 1, "a notification during a look leads to another"
    later.pop()()
    assert (found, later) == ([0, 0], [])
