"""What is derived from the objects: after any changes as in a fresh load, after those were undone as before them."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import TooLargeError
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject, ObjectKey, key_of
from modules.apimachinery.limits import OBJECT_BYTES
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

    core.transactions.attempt(lambda: core.database.put_object_sync("n1", "u1", SYNC))
    with pytest.raises(PlannedError):
        core.transactions.attempt(fails)
    core.transactions.commit()
    assert core.syncs() == {"u1": SYNC}
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
