"""What is derived from the objects: after any changes as in a fresh load, after those were undone as before them."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import TooLargeError
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject, ObjectKey, key_of
from modules.apimachinery.limits import OBJECT_BYTES
from modules.cloud.storage.database import kept_copy
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.engine import make_engine, url_of
from modules.cloud.storage.database.kept_copy import keep_copy
from modules.cloud.storage.database.tables import SCHEMA_VERSION
from modules.cloud.storage.object_storage import LARGE, EventType, ObjectEvent, Storage
from modules.cloud.storage.object_sync import MOST_AHEAD, Holder
from modules.cloud.storage.stored_changes import stored_change
from tests.modules.cloud.objects import configmap, pod, service
from tests.modules.cloud.storage.test_transactions import SYNC, Core
from tests.support.failing import PlannedError


def _drawn(random: Random) -> JsonObject:
    """Return one of few objects, in one of many states."""
    match random.randrange(3):
        case 0:
            made = configmap(text="x" * random.choice((1, LARGE)))
        case 1:
            made = pod(nodeName=random.choice(("", "", "n1", "n2")), priority=random.randrange(3))
            made["status"] = random.choice(({}, {"nominatedNodeName": "n1"}))
        case _:
            made, number = service(), random.randrange(3)
            made["spec"] |= {"clusterIPs": [f"192.0.2.{number}"], "ports": [{"port": 80, "nodePort": 30_000 + number}]}
    made["metadata"] = {"name": f"one-{random.randrange(3)}", "namespace": random.choice(("a", "b"))}
    return made


def _change(storage: Storage, random: Random) -> None:
    """Make, replace or remove an object."""
    wanted = _drawn(random)
    key = key_of(wanted)
    if storage.find(key) is None:
        storage.create(wanted)
    elif random.random() < 0.4:
        storage.remove(key)
    else:
        storage.replace(wanted)


def _books(storage: Storage) -> Mapping[str, Any]:
    """Return all that is derived from the objects."""
    ranks = storage.unbound._order
    assert ranks == sorted(storage.unbound._ranks.values())
    return {
        "objects": {key: storage.find(key) for key in storage},
        "by kind": {kind: dict(found) for kind, found in storage._of_kind.items() if found},
        "pods": {node: set(storage.pods_of(node)) for node in storage.nodes_of_pods()},
        "nodes": set(storage.changes_of_pods),
        "unbound": sorted((rank.below, rank.created, rank.key) for rank in ranks),
        "nominated": [key_of(each) for each in storage.nominated_pods()],
        "large": set(storage.large),
        "sizes": dict(storage.sizes._of_namespace),
        "numbers": {number: set(keys) for number, keys in storage.service_numbers._owners.items()},
        "times": set(storage._changed_at),
    }


def _past(storage: Storage) -> tuple[dict[str, list[object]], dict[str, int]]:
    """Return what is known of earlier states, and its bytes."""
    kept = {kind: list[object](each) for kind, each in storage._past._changes.items() if each}
    return kept, {kind: size for kind, size in storage._past._bytes.items() if size}


@pytest.mark.parametrize("seed", range(20))
def test_books_are_those_of_a_fresh_load_and_as_before_what_was_undone(seed: int) -> None:
    """A quota, an address of a Service or a place among the waiting pods would be taken, or lost, for ever."""
    random, clock = Random(seed), Simulation(seed).clock  # noqa: S311
    storage = Storage(clock)
    for _ in range(20):
        storage.set_savepoint()
        before = _books(storage), _past(storage), storage.version
        for _ in range(random.randrange(6)):
            _change(storage, random)
        if random.random() < 0.5:
            storage.roll_back()
            assert (_books(storage), _past(storage), storage.version) == before
        storage.drain_events()
        fresh = Storage(clock)
        fresh.restore([obj for key in storage if (obj := storage.find(key)) is not None])
        assert _books(fresh) == _books(storage)


def test_what_others_have_changed_and_what_was_undone_before_is_not_undone() -> None:
    """Nor does a version come back that was given up with a transaction."""
    storage = Storage(Simulation(0).clock)
    storage.set_savepoint()
    begun_at = storage.version
    storage.create(configmap("one"))
    first = storage.drain_events()
    storage.set_savepoint()
    storage.create(configmap("two"))
    storage.undo([*storage.drain_events(), *first], begun_at)
    assert (storage.roll_back(), storage.version, list(storage)) == ([], begun_at, [])
    other = configmap("three")
    other["metadata"] |= {"namespace": "a", "uid": "u", "resourceVersion": "50"}
    storage.create(configmap("two"))
    storage.drain_events()
    storage.adopt([(key_of(other), other)], 50, complete=False)
    storage.drain_events()
    assert (storage.roll_back(), storage.version, len(list(storage))) == ([], 50, 2)


def test_a_message_that_fails_takes_no_write_of_another_with_it(tmp_path: Path) -> None:
    """Both are of one transaction, and the first was answered that it is stored."""
    core = Core(tmp_path / "db", "one")

    def fails() -> None:
        core.database.put_object_sync("n1", "u2", SYNC)
        raise PlannedError

    for uid in ("u1", "u3"):
        core.transactions.attempt(lambda uid=uid: core.database.put_object_sync("n1", uid, SYNC))  # type: ignore[misc]
        with pytest.raises(PlannedError):
            core.transactions.attempt(fails)
    core.transactions.commit()
    assert core.syncs() == {"u1": SYNC, "u3": SYNC}
    core.database.close()


@pytest.mark.parametrize(("ahead", "is_newer"), [(MOST_AHEAD, True), (MOST_AHEAD + 1, False)])
def test_a_connection_that_begins_in_the_future_is_of_a_wrong_clock(ahead: int, is_newer: bool) -> None:
    """Its cloudcore would hold the node until that time, wherever the node connects."""
    now = 1000.5
    assert Holder("other", now + ahead).is_newer_than(Holder("one", 1.5), now) == is_newer


def test_a_deleted_secret_without_values_keeps_none_in_the_text_that_kubectl_left() -> None:
    """That has what was applied, whatever the Secret has by then."""
    annotations = {LAST_APPLIED: '{"stringData":{"key":"of this test"}}', "other": "kept"}
    secret = {"kind": "Secret", "metadata": {"name": "s", "resourceVersion": "7", "annotations": annotations}}
    change = stored_change(ObjectEvent(EventType.DELETED, ObjectKey("Secret", "a", "s"), secret, secret))
    assert change.body is not None
    assert (b"of this test" in change.body, b"kept" in change.body) == (False, True)


def test_an_object_is_not_larger_than_its_readers_take() -> None:
    """But for kubectl's text of it, which is as large again."""
    storage = Storage(Simulation(0).clock)
    with pytest.raises(TooLargeError):
        storage.create(configmap(text="x" * OBJECT_BYTES))
    made = configmap(text="x" * (OBJECT_BYTES * 3 // 4))
    made["metadata"]["annotations"] = {LAST_APPLIED: "x" * (OBJECT_BYTES * 3 // 4)}
    storage.create(made)


def test_a_cloudcore_that_is_a_little_behind_need_not_read_all_objects(tmp_path: Path) -> None:
    """Of the deletions, thousands are kept for it."""
    one, other = Database(str(tmp_path / "db"), "one"), Database(str(tmp_path / "db"), "other")
    for version in (2, 3, 1001):
        one.begin()
        one.put_object_sync("n1", f"u{version}", SYNC)
        one.commit(version)
        pulled = other.begin()
        assert pulled is not None
        assert pulled.complete == (version == 2), "only the first time"
        other.commit(version)
    for each in (one, other):
        each.close()


@pytest.mark.parametrize("schema", [SCHEMA_VERSION, SCHEMA_VERSION + 1])
def test_changes_of_a_newer_cloudcore_are_not_read_without_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: int
) -> None:
    """Which reports that the schema is another one: this cloudcore does not know what it reads."""
    database = Database(str(tmp_path / "db"), "one")
    reading = SimpleNamespace(begin_reading=lambda _: (7, 0, schema), errors=(OSError,))
    engine = SimpleNamespace(dialect=SimpleNamespace(name="postgresql"), connect=nullcontext)
    with monkeypatch.context() as patched:
        for name, value in (("_seen", 7), ("_beginning", reading), ("engine", engine)):
            patched.setattr(database, name, value)
        assert (database.changes_elsewhere() is None) == (schema != SCHEMA_VERSION)
    database.close()


def test_a_copy_of_a_file_is_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut it would be empty, and the schema another one."""
    synced, placed = list[str](), list[list[str]]()
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    monkeypatch.setattr(kept_copy, "put_in_place", lambda part, _: placed.append([part.name, *synced]))
    engine = make_engine(url_of(str(tmp_path / "db")))
    with engine.connect() as connection:
        keep_copy(connection, 1, "db")
    engine.dispose()
    assert placed[0][0] in placed[0][1:]


def test_changes_that_were_forgotten_are_not_known_again(tmp_path: Path) -> None:
    """By forgetting fewer, as another cloudcore may that has kept less: a watch would miss what is between."""
    database = Database(str(tmp_path / "db"), "one")
    for version, until in ((101, 100), (102, 50), (201, 200)):
        database.begin()
        database.forget_changes("Pod", until)
        database.commit(version)
        database.begin()
        assert database.watch_history().began["Pod"] == max(100, until)
        database.commit(version)
    database.close()
