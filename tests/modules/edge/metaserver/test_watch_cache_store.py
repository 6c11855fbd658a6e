"""A cache learns of durable changes only; on a real database."""

import json
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from metamanager.errors import StoreOpenError, StoreWriteError
from metamanager.rows import row_of
from metamanager.store import Store, open_store
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache
from modules.edge.metaserver.watch_cache_store import WatchCacheStore, watch_cache_opener
from tests.modules.edge.metaserver.objects import FIRST, key, obj, text
from tests.support.failing import Failing, census

POD = "default/pod/a"


def opened(path: Path, cache: WatchCache) -> Store:
    return watch_cache_opener(open_store, cache)(str(path))


def put(store: Store, resource: str, value: object, version: str = "1") -> bool:
    content = value if isinstance(value, bytes) else text(value)
    return store.put(row_of(resource, content, 0))


def test_the_cache_is_updated_at_the_commit(tmp_path: Path) -> None:
    cache = WatchCache(FIRST)
    store = opened(tmp_path / "db", cache)
    assert cache.loaded
    put(store, POD, obj("a"))
    assert cache.get(key("a")) is None
    store.commit()
    assert cache.get(key("a")) == text(obj("a"))
    store.delete(POD)
    store.rollback()
    store.commit()
    assert cache.get(key("a")) is not None
    store.delete(POD)
    store.commit()
    assert cache.get(key("a")) is None
    store.close()


def test_stored_objects_are_in_the_cache_immediately(tmp_path: Path) -> None:
    first = open_store(str(tmp_path / "db"))
    put(first, POD, obj("a"))
    put(first, "null/node/n1", {"metadata": {"name": "n1"}})
    put(first, "default/podpatch/a", {"metadata": {}})
    put(first, "k8s/ca.crt", b"no object")
    first.commit()
    first.close()
    cache = WatchCache(FIRST)
    opened(tmp_path / "db", cache).close()
    assert cache.get(key("a")) is not None
    node = cache.get(CacheKey("node", "", "n1"))
    assert node is not None
    assert json.loads(node)["kind"] == "Node"


def test_a_node_has_no_namespace_for_any_key(tmp_path: Path) -> None:
    """KubeEdge's edge registers under `registerNodeNamespace`."""
    cache = WatchCache(FIRST)
    store = opened(tmp_path / "db", cache)
    put(store, "default/node/n1", {"metadata": {"name": "n1"}})
    store.commit()
    assert cache.get(CacheKey("node", "", "n1")) is not None
    store.close()


def test_old_states_and_other_values_than_objects_change_nothing(tmp_path: Path) -> None:
    cache = WatchCache(FIRST)
    store = opened(tmp_path / "db", cache)
    new, old = ({"metadata": {"name": "a", "uid": "u", "resourceVersion": number}} for number in ("2", "1"))
    put(store, POD, new)
    assert not put(store, POD, old)
    put(store, "default/pod/b", b"no object")
    put(store, "default/pod", obj("c"))
    store.delete_owned("serviceaccounttoken", "u")
    assert not store.delete(POD, "of an earlier pod")
    store.commit()
    (_, entries) = cache.objects("pod")
    assert [json.loads(value)["metadata"]["resourceVersion"] for _, value in entries] == ["2"]
    store.close()


def test_kinds_that_are_not_served_are_not_even_kept(tmp_path: Path) -> None:
    """Secrets, unless they are switched on."""
    cache = WatchCache(FIRST)
    for number in range(2):
        store = watch_cache_opener(open_store, cache, {"pod"})(str(tmp_path / "db"))
        put(store, f"default/secret/s{number}", obj(f"s{number}", kind="Secret"))
        store.commit()
        store.close()
        assert cache.objects("secret")[1] == []


@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_changes_that_were_not_committed_never_reach_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_rolled_back: bool
) -> None:
    """Whoever has made them may not roll back: the store has done it."""
    cache, inner = WatchCache(FIRST), open_store(str(tmp_path / "db"))
    store = WatchCacheStore(inner, cache)
    put(store, POD, obj("a"))
    inner.rollback()
    error = StoreWriteError("commit", "the file", "disk full", batch_lost=True)
    monkeypatch.setattr(inner, "commit", Failing(0, error).call(inner.commit))
    with pytest.raises(StoreWriteError):
        store.commit()
    if is_rolled_back:
        store.rollback()
    put(store, "default/pod/b", obj("b"))
    store.commit()
    assert [each.name for each, _ in cache.objects("pod")[1]] == ["b"]
    store.close()


def test_what_the_store_answers_is_passed_on(tmp_path: Path) -> None:
    store = opened(tmp_path / "db", WatchCache(FIRST))
    assert put(store, POD, obj("a"))
    assert [store.delete(POD), store.delete(POD)] == [True, False]
    store.rollback()
    store.close()
    inner = Mock()
    assert WatchCacheStore.delete_owned(cast("Any", Mock(_store=inner)), "k", "u") is inner.delete_owned.return_value
    assert WatchCacheStore.make_room(cast("Any", Mock(_store=inner))) is inner.make_room.return_value


def test_a_store_that_does_not_open_is_the_openers_error(tmp_path: Path) -> None:
    with pytest.raises(StoreOpenError):
        opened(tmp_path, WatchCache(FIRST))


def test_a_store_that_cannot_be_read_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, inner = census(), open_store(str(tmp_path / "db"))
    error = StoreOpenError("read", "the database", "the disk has gone")
    monkeypatch.setattr(inner, "get_all", Failing(0, error).call(inner.get_all))
    with pytest.raises(StoreOpenError):
        watch_cache_opener(lambda _: inner, WatchCache(FIRST))("")
    assert not census().more_than(before)
