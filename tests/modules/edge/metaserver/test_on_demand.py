"""The owner's API: a cache that exists only while somebody asks, read from the database beside its writer."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from beehive import Hive, Threads
from beehive.http.request import Request
from beehive.http.responses import Response, Stream
from beehive.simulation import Simulation
from edged.server.snapshots import Snapshots
from metamanager.rows import row_of
from metamanager.sqlite_store import SqliteStore
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.types import Nanoseconds, PodStatus
from modules.apimachinery.types.times import Time
from modules.edge.metaserver import on_demand
from modules.edge.metaserver.api import Api, ApiSettings
from modules.edge.metaserver.on_demand import IDLE_SECONDS, ApiOnDemand, CommittedObjects
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache
from modules.edge.metaserver.watching import WatchSource
from tests.edged.node.test_status import REPORT
from tests.modules.edge.metaserver.objects import key, obj, text
from tests.modules.edge.metaserver.test_live_status import pod
from tests.support.failing import Failing, PlannedError, left_by_repeating


def put(store: SqliteStore, *objects: dict[str, Any]) -> None:
    """metamanager stores these in one commit."""
    for each in objects:
        meta = each["metadata"]
        store.put(row_of(f"{meta['namespace']}/{each['kind'].lower()}/{meta['name']}", text(each), 1))
    store.commit()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """metamanager's own connection."""
    made = SqliteStore(tmp_path / "db")
    yield made
    made.close()


class Gone:
    """A client that leaves immediately."""

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """Return True."""
        return True


class Owner:
    """Asks, as the owner of the node does."""

    def __init__(self, source: Path | None) -> None:
        self._settings = ApiSettings("n1", "v1.32.10", secrets=True, store=source is not None)
        self.threads = Threads()
        self.hive = Hive(self.threads)
        self.snapshots = Snapshots()
        self.service = ApiOnDemand(source, self.snapshots, "n1", self.hive.clock, self._api)

    def _api(self, cache: WatchCache, refresh: Callable[[], bool]) -> Api:
        return Api(self._settings, cache, self.hive, source=WatchSource(refresh, 0.01))

    def ask(self, path: str, *query: tuple[str, str]) -> tuple[int, Any]:
        """Status and decoded body."""
        reply = self.service.serve(request(path, *query))
        assert isinstance(reply, Response)
        return reply.status, json.loads(reply.body)

    def names(self, plural: str) -> list[str]:
        """The names in a list."""
        status, body = self.ask(f"/api/v1/{plural}")
        assert status == 200, body
        return [each["metadata"]["name"] for each in body["items"]]


def request(path: str, *query: tuple[str, str]) -> Request:
    return Request(method="GET", target=path, parts=tuple(path.strip("/").split("/")), query=query)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """Of a node with a database."""
    made = Owner(tmp_path / "db")
    yield made
    made.service.close()
    made.threads.close()


def test_each_request_sees_the_commits_before_it(owner: Owner, store: SqliteStore) -> None:
    put(store, obj("web"), obj("s", kind="Secret", data={"x": "eA=="}))
    assert not owner.service.in_use
    assert (owner.names("pods"), owner.names("secrets"), owner.service.in_use) == (["web"], ["s"], True)
    store.put(row_of("default/pod/later", text(obj("later")), 1))
    assert owner.names("pods") == ["web"], "it is not committed"
    store.commit()
    assert owner.names("pods") == ["later", "web"]
    store.delete("default/pod/web")
    store.commit()
    assert owner.names("pods") == ["later"]
    owner.service.close()
    assert (owner.service.in_use, owner.names("pods")) == (False, ["later"])


def test_pods_and_node_come_from_edged_without_a_row(owner: Owner) -> None:
    """No database yet; a pod that terminates; a node that was never registered."""
    owner.snapshots.pods = (pod("going", "1", "Running"),)
    owner.snapshots.node_reported(REPORT, Nanoseconds(0))
    assert (owner.names("pods"), owner.names("nodes")) == (["going"], ["n1"])
    status, node = owner.ask("/api/v1/nodes/n1")
    assert (status, node["kind"], node["apiVersion"]) == (200, "Node", "v1")
    begun = Time("2026-11-20T05:00:00Z")
    static = msgspec.structs.replace(pod("static", "2", "Running"), status=PodStatus(start_time=begun))
    owner.snapshots.pods = (static,)
    (shown,) = owner.ask("/api/v1/pods")[1]["items"]
    assert shown["metadata"]["creationTimestamp"] == begun, "a static pod has an age"
    owner.snapshots.pods = ()
    assert owner.names("pods") == []


def test_a_watch_follows_commits_and_statuses(
    owner: Owner, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the revision of a list on, also after a while in which the store could not be read."""
    put(store, obj("web", uid="1"))
    revision = owner.ask("/api/v1/pods")[1]["metadata"]["resourceVersion"]
    reply = owner.service.serve(request("/api/v1/pods", ("watch", "1"), ("resourceVersion", revision)))
    assert isinstance(reply, Stream)

    read = on_demand._rows

    def delete_unread() -> None:
        monkeypatch.setattr(on_demand, "_rows", Mock(side_effect=sqlite3.OperationalError("disk I/O error")))
        store.delete("default/pod/new")
        store.commit()

    changes = iter(
        (
            lambda: put(store, obj("new")),
            lambda: setattr(owner.snapshots, "pods", (pod("web", "1", "Running"),)),
            delete_unread,
            lambda: monkeypatch.setattr(on_demand, "_rows", read),
        )
    )

    class Peer:
        """Stays for these changes."""

        def gone_within(self, seconds: float, wake: int | None = None) -> bool:
            """Make the next change, instead of waiting."""
            assert seconds <= 0.01
            change = next(changes, None)
            if change is not None:
                change()
            return change is None

    events = [json.loads(line) for piece in reply.pieces(Peer()) for line in piece.splitlines()]
    seen = [(each["type"], each["object"]["metadata"]["name"]) for each in events]
    assert seen == [("ADDED", "new"), ("MODIFIED", "web"), ("DELETED", "new")]


def test_a_watch_of_a_dropped_cache_ends(owner: Owner, store: SqliteStore) -> None:
    """A client that did not read for longer than the cache lives would wait for changes that never come."""
    put(store, obj("web"))
    reply = owner.service.serve(request("/api/v1/pods", ("watch", "1")))
    assert isinstance(reply, Stream)
    waits: list[float] = []

    class Peer:
        """Stays, while the cache goes."""

        def gone_within(self, seconds: float, wake: int | None = None) -> bool:
            """See `Peer`."""
            waits.append(seconds)
            owner.service.close()
            put(store, obj(f"new-{len(waits)}"))
            return len(waits) > 3

    assert len(list(reply.pieces(Peer()))) == 1
    assert len(waits) == 1


def test_revisions_grow_over_a_dropped_cache(owner: Owner, store: SqliteStore) -> None:
    """So a client of the former cache has to list again."""
    put(store, obj("web"))
    before = int(owner.ask("/api/v1/pods")[1]["metadata"]["resourceVersion"])
    owner.service.close()
    assert int(owner.ask("/api/v1/pods")[1]["metadata"]["resourceVersion"]) > before
    watch = owner.service.serve(request("/api/v1/pods", ("watch", "1"), ("resourceVersion", str(before))))
    assert isinstance(watch, Stream)
    (line,) = watch.pieces(Gone())
    watch.done()
    assert json.loads(line)["object"]["reason"] == "Expired"


def test_revisions_grow_when_the_clock_is_set_back(
    owner: Owner, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, obj("web"))
    before = int(owner.ask("/api/v1/pods")[1]["metadata"]["resourceVersion"])
    owner.service.close()
    monkeypatch.setattr(owner.hive.clock, "now_ms", lambda: 1000)
    assert int(owner.ask("/api/v1/pods")[1]["metadata"]["resourceVersion"]) > before


def test_the_cache_is_dropped_a_minute_after_its_last_use() -> None:
    simulation, settings = Simulation(0), ApiSettings("n1", "v1.32.10", secrets=True, store=False)
    refreshes: list[Callable[[], bool]] = []

    def api(cache: WatchCache, refresh: Callable[[], bool]) -> Api:
        refreshes.append(refresh)
        return Api(settings, cache, Hive(simulation), source=WatchSource(refresh))

    service = ApiOnDemand(None, Snapshots(), "n1", simulation.clock, api)
    simulation.run_for(IDLE_SECONDS / 2)
    service.serve(request("/api/v1/pods"))
    in_use = []
    for _ in range(4):  # the last use is a watch's
        in_use.append((service.in_use, refreshes[0]()))
        simulation.run_for(IDLE_SECONDS * 0.7)
    simulation.run_for(IDLE_SECONDS * 1.4)
    assert (in_use, service.in_use, refreshes[0]()) == ([(True, True)] * 4, False, False)


def test_a_cache_that_nobody_would_drop_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Simulation(0).clock
    service = ApiOnDemand(None, Snapshots(), "n1", clock, lambda *_: cast("Api", None))
    monkeypatch.setattr(clock, "every", Failing(0).call(print))
    with pytest.raises(PlannedError):
        service.serve(request("/api/v1/pods"))
    assert not service.in_use


def test_a_store_that_cannot_be_read_is_reported(owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is closed at once: the error's traceback may hold it for long."""
    opened = list[sqlite3.Connection]()
    connect = sqlite3.connect

    def noted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    (tmp_path / "db").write_text("this is no database, and long enough to be read as the head of one" * 20)
    status, body = owner.ask("/api/v1/pods")
    assert (status, "not a database" in body["message"]) == (503, True)
    (connection,) = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_node_with_another_database_has_its_pods_and_nothing_else() -> None:
    owner = Owner(None)
    owner.snapshots.pods = (pod("p", "1", "Running"),)
    try:
        assert owner.names("pods") == ["p"]
        status, body = owner.ask("/api/v1/configmaps")
        assert (status, "no SQLite file" in body["message"]) == (501, True)
    finally:
        owner.service.close()
        owner.threads.close()


def test_objects_are_read_again_only_when_something_was_committed(tmp_path: Path, store: SqliteStore) -> None:
    objects = CommittedObjects(tmp_path / "db")
    assert objects.read_if_changed() == {}
    assert objects.read_if_changed() is None
    put(store, obj("web"), {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "namespace": "null"}})
    found = objects.read_if_changed()
    assert found is not None
    assert found.keys() == {key("web"), CacheKey("node", "", "n1")}
    objects.close()


def test_a_database_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    """metamanager sets a damaged one aside."""
    first = SqliteStore(tmp_path / "db")
    put(first, obj("old"))
    first.close()
    objects = CommittedObjects(tmp_path / "db")
    assert objects.read_if_changed()
    (tmp_path / "db").rename(tmp_path / "aside")
    assert objects.read_if_changed() == {}
    for name in ("new", "newer"):  # the second in one step
        store = SqliteStore(tmp_path / name)
        put(store, obj(name))
        store.close()
        (tmp_path / name).rename(tmp_path / "db")
        found = objects.read_if_changed()
        assert found is not None and list(found) == [key(name)]
    objects.close()


def test_invalid_text_is_not_quoted(tmp_path: Path, store: SqliteStore) -> None:
    put(store, obj("web"))
    with sqlite3.connect(tmp_path / "db") as connection:
        connection.execute("UPDATE meta SET value = CAST(x'ff70617373' AS TEXT)")
    connection.close()
    objects = CommittedObjects(tmp_path / "db")
    with pytest.raises(ApiStatusError, match="a value stored as text is not text") as error:
        objects.read_if_changed()
    assert "pass" not in str(error.value)
    objects.close()


def test_after_a_read_that_failed_all_is_read(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed before the failure is news, and the connection that failed is closed."""
    objects = CommittedObjects(tmp_path / "db")
    for name in ("a", "b"):
        put(store, obj(name))
        failing = Failing(0, sqlite3.OperationalError("disk I/O error"))
        with monkeypatch.context() as patched:
            patched.setattr(on_demand, "_rows", failing.call(on_demand._rows))
            with pytest.raises(ApiStatusError, match="disk I/O error"):
                objects.read_if_changed()
        assert objects._connection is None
        found = objects.read_if_changed()
        assert found is not None
        assert key(name) in found
        objects.close()


@pytest.mark.parametrize("part", ["cache.load", "live.update"])
def test_a_cache_that_took_only_half_of_the_changes_is_made_anew(
    owner: Owner, store: SqliteStore, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The rest counts as read: without another commit it would never be served."""
    put(store, obj("web"))
    assert owner.names("pods") == ["web"]
    put(store, obj("db"))
    session = owner.service._session
    assert session is not None
    with monkeypatch.context() as patched:
        of, name = part.split(".")
        patched.setattr(getattr(session, of), name, Failing(0, MemoryError()).call(print))
        with pytest.raises(MemoryError):
            owner.names("pods")
    assert owner.names("pods") == ["db", "web"]
    assert not owner.service._follow(session), "its watches end, too"


def test_a_cache_that_was_dropped_leaves_nothing(owner: Owner, store: SqliteStore) -> None:
    """Neither the database nor the timer that drops it."""
    put(store, obj("web"))

    def cycle() -> None:
        assert owner.names("pods") == ["web"]
        owner.service.close()

    assert not left_by_repeating(cycle, owner.service)


def test_a_node_that_starts_again_begins_above_all_that_it_has_shown(tmp_path: Path) -> None:
    """A client would watch on from another life's version, also after a thousand changes within a millisecond."""
    simulation, firsts = Simulation(1), list[int]()
    for _ in range(2):
        owner = ApiOnDemand(tmp_path / "db", Snapshots(), "n1", simulation.clock, lambda *_: cast("Any", None))
        firsts.append(owner._begin().cache.revision)
        owner.close()
        simulation.run_for(0.002)
    assert firsts[1] - firsts[0] > 1000
