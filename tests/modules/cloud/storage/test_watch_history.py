"""Where a watch can begin."""

from random import Random

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import LAST_APPLIED, ObjectKey, key_of
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.storage.object_storage import Storage, StoredChange
from modules.cloud.storage.stored_changes import StoredHistory, stored_change
from modules.cloud.storage.watch_history import BYTES, CHANGES, FORGET_EVERY, WatchHistory, WatchQuery
from tests.modules.cloud.objects import configmap, pod, secret
from tests.support.presence import present


class Watched:
    """A cluster whose changes are noted."""

    def __init__(self) -> None:
        self.cluster = Cluster(Simulation(0).clock)
        self.history = WatchHistory(self.cluster.storage)

    def apply(self, *objects: dict[str, object]) -> int:
        for each in objects:
            self.cluster.apply(each)
        return self.noted()

    def noted(self) -> int:
        for event in self.cluster.storage.drain_events():
            self.history.record(event)
        return self.cluster.storage.version

    def since(self, version: int | None, kind: str = "ConfigMap") -> list[tuple[str, str]]:
        start = self.history.start(WatchQuery(kind, version))
        assert start.refusal is None
        return [(change.change, change.object["metadata"]["name"]) for change in start.changes]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_watch_begins_with_the_present_objects_or_with_the_changes_since(watched: Watched) -> None:
    first = watched.apply(configmap("a"), pod("p"))
    watched.apply(configmap("b"))
    watched.cluster.delete(ObjectKey("ConfigMap", "default", "a"))
    last = watched.noted()
    assert watched.since(None) == [("ADDED", "b")]
    assert watched.since(first) == [("ADDED", "b"), ("DELETED", "a")]
    assert watched.since(last) == []
    assert watched.history.start(WatchQuery("ConfigMap", first)).version == last


def test_a_watch_from_before_the_history_or_from_the_future_lists_again(watched: Watched) -> None:
    first = watched.apply(configmap("a"))
    for number in range(CHANGES + 1):
        watched.apply(configmap("a", a=str(number)))
    for version in (first, watched.cluster.storage.version + 1, 0):
        refusal = present(watched.history.start(WatchQuery("ConfigMap", version)).refusal)
        assert (refusal["code"], refusal["reason"]) == (410, "Expired")
    assert watched.since(first, "Pod") == [], "the history is each kind's own"


def test_a_watch_from_before_the_first_version_lists_again() -> None:
    """A cloud without a durable database has forgotten what it has sent before; its new database says nothing of it."""
    storage = Storage(Simulation(0).clock, first_version=1000)
    history = WatchHistory(storage, StoredHistory([], {"": 0}))
    assert present(history.start(WatchQuery("ConfigMap", 999)).refusal)["code"] == 410
    assert history.start(WatchQuery("ConfigMap", 1000)).refusal is None


def test_a_change_that_is_not_noted_yet_comes_after_the_start(watched: Watched) -> None:
    """It is in the same transaction, and its message follows: the version does not cover it."""
    first = watched.apply(configmap("a"))
    watched.cluster.apply(configmap("b"))
    assert watched.history.start(WatchQuery("ConfigMap", first)).version == first


def test_deleted_objects_count_with_their_size(watched: Watched) -> None:
    """The history holds them; a few hundred large configmaps would stay in memory after their deletion."""
    first = watched.apply(*(configmap(name, a="x" * (BYTES // 3)) for name in "abcd"))
    for name in "abcd":
        watched.cluster.delete(ObjectKey("ConfigMap", "default", name))
        last = watched.noted()
    assert present(watched.history.start(WatchQuery("ConfigMap", first)).refusal)["code"] == 410
    assert watched.since(last - 1) == [("DELETED", "d")]


def test_the_history_is_the_longest_that_fits() -> None:
    """Whatever the order of large and small changes: it takes no more memory, and forgets no change that has room."""
    chance, watched = Random(7), Watched()  # noqa: S311 - reproducible on purpose
    versions, sizes = [watched.apply(configmap("a"))], [0]
    for number in range(80):
        size = chance.choice((10, BYTES // 40, BYTES // 3))
        watched.cluster.apply(configmap("a", a="x" * size, number=str(number)))
        for event in watched.cluster.storage.drain_events():
            sizes.append(event.size)
            watched.history.record(event)
        versions.append(watched.cluster.storage.version)
        for begin, version in enumerate(versions):
            refused = watched.history.start(WatchQuery("ConfigMap", version)).refusal is not None
            assert refused == (sum(sizes[begin + 1 :]) > BYTES)


def test_the_database_forgets_many_changes_together(watched: Watched) -> None:
    watched.apply(pod("p"))
    for number in range(CHANGES + FORGET_EVERY - 1):
        watched.apply(configmap("a", a=str(number)))
    assert watched.history.drain_forgotten() == {}
    last = watched.apply(configmap("a", a="last"))
    assert watched.history.drain_forgotten() == {"ConfigMap": last - CHANGES}
    assert watched.history.drain_forgotten() == {}


def test_a_secret_that_another_cloudcore_has_changed_leaves_the_watches_of_other_kinds() -> None:
    """Of a Secret the rows of changes have no values: only its last state is known, which is nothing to other kinds."""
    secret: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
    }
    watched = Watched()
    first = watched.apply(configmap("a"), secret)
    storage, key = watched.cluster.storage, ObjectKey("Secret", "default", "s")
    live = present(storage.find(key))
    changed = {**live, "metadata": {**live["metadata"], "resourceVersion": str(first + 3)}, "data": {"k": "dg=="}}
    storage.adopt([(key, changed)], first + 3, complete=False)
    watched.noted()
    assert watched.since(first) == []
    refusal = watched.history.start(WatchQuery("Secret", first)).refusal
    assert refusal is not None and refusal["code"] == 410
    assert watched.since(first + 3, "Secret") == []
    storage.adopt([], first + 9, complete=False, has_gap=True)
    assert watched.history.start(WatchQuery("ConfigMap", first)).refusal is not None


def test_after_a_restart_a_watch_has_no_state_of_a_secret_but_the_last(watched: Watched) -> None:
    """The rows have no values: a watch from before a lost state lists again, one from after it has the last change."""
    first = watched.apply(configmap("a"))
    rows = list[StoredChange]()
    for value in ("1", "2"):
        watched.cluster.apply(secret("s", k=value))
        rows += map(stored_change, watched.cluster.storage.drain_events())
    watched.history = WatchHistory(watched.cluster.storage, StoredHistory(rows, {"": 0}))
    refusal = watched.history.start(WatchQuery("Secret", first)).refusal
    assert refusal is not None and refusal["code"] == 410
    assert watched.since(rows[0].version, "Secret") == [("MODIFIED", "s")]
    assert watched.since(first) == []


def test_a_watch_begins_after_a_change_that_is_damaged(watched: Watched) -> None:
    storage, key = watched.cluster.storage, ObjectKey("ConfigMap", "default", "a")
    first = storage.version
    for value in "12":
        watched.cluster.apply(configmap("a", a=value))
    events = storage.drain_events()
    changes = [stored_change(event) for event in events]
    damaged = StoredChange(changes[0].version, key, changes[0].type, b"{")
    history = WatchHistory(storage, StoredHistory([damaged, changes[1]], {"": first}))
    refused = [
        history.start(WatchQuery("ConfigMap", version)).refusal is not None for version in range(first, first + 3)
    ]
    assert refused == [True, False, False]


def test_the_row_of_a_deleted_secret_has_no_value_of_it() -> None:
    """Not in kubectl's annotation either."""
    watched = Watched()
    made = secret(a="hidden")
    made["metadata"]["annotations"] = {LAST_APPLIED: "hidden", "note": "shown"}
    watched.cluster.storage.create(made)
    watched.cluster.storage.remove(key_of(made))
    row = stored_change(watched.cluster.storage.drain_events()[-1])
    assert b"hidden" not in present(row.body)
    assert b"shown" in present(row.body)
