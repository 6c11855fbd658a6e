"""The cache: revisions, the changes between them, and what listens."""

import json
import select
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.selectors import parse_selector
from modules.edge.metaserver.compose import LiveStatus
from modules.edge.metaserver.watch_cache import CacheChange, CacheKey, TooOldError, WatchCache
from modules.edge.metaserver.watching import WatchEvent, transform
from tests.modules.edge.metaserver.objects import FIRST, cache_of, drop, key, obj, put, resource, text
from tests.support.failing import census


def names(cache: WatchCache, namespace: str = "", kind: str = "pod") -> list[str]:
    return [each.name for each, _ in cache.objects(kind, namespace)[1]]


def test_objects_are_listed_by_kind_and_namespace_in_order() -> None:
    cache = cache_of(obj("b"), obj("a", "other"), obj("a"), obj("x", kind="ConfigMap"))
    assert names(cache) == ["a", "b", "a"]
    assert names(cache, "other") == ["a"]
    assert names(cache, kind="configmap") == ["x"]


def test_each_change_has_a_revision_and_an_equal_object_is_no_change() -> None:
    cache = cache_of(obj("a"))
    begin = cache.revision
    put(cache, obj("a"), obj("b"))
    assert cache.revision == begin + 1
    put(cache, obj("b", spec={}))
    drop(cache, key("b"), key("never"))
    present, changes = cache.since(begin, "pod")
    assert present == cache.revision == begin + 3
    kinds = [(one.before is None, one.after is None) for one in changes]
    assert kinds == [(True, False), (False, False), (False, True)]
    assert cache.since(begin, "configmap")[1] == []


def test_a_store_that_is_read_again_changes_only_what_differs() -> None:
    """metamanager was started again."""
    cache = cache_of(obj("a"), obj("b"))
    begin = cache.revision
    cache.load({key("a"): text(obj("a")), key("c"): text(obj("c"))})
    assert {(one.key.name, one.after is None) for one in cache.since(begin, "pod")[1]} == {("b", True), ("c", False)}


@pytest.mark.parametrize("limits", [{"history": 2}, {"history_bytes": 200}])
def test_the_history_is_bounded_with_a_note(limits: dict[str, int]) -> None:
    cache = cache_of(**limits)
    for name in "abcde":
        put(cache, obj(name))
    assert cache.since(cache.revision - 2, "pod")[1] != []
    for revision in (FIRST, 17, cache.revision + 1):
        assert not cache.knows(revision)
        with pytest.raises(TooOldError):
            cache.since(revision, "pod")
    known = [each for each in range(FIRST, cache.revision + 1) if cache.knows(each)]
    assert len(known) > 1
    assert [len(cache.since(each, "pod")[1]) for each in known] == [cache.revision - each for each in known]


def test_a_listener_is_woken_until_it_has_taken_the_change() -> None:
    cache = cache_of()
    with cache.listening() as wakeup:

        def readable() -> bool:
            return bool(select.select([wakeup], [], [], 0)[0])

        assert not readable()
        put(cache, obj("a"))
        put(cache, obj("b"))
        assert readable()
        wakeup.clear()
        assert not readable()
        put(cache, obj("b"))
        assert not readable(), "nothing has changed"
    put(cache, obj("c"))


def test_edgeds_status_stands_in_the_stored_object() -> None:
    """The rest is the store's, byte for byte; without a row, a pod of edged's own is shown."""
    cache = cache_of(obj("a", uid="1", spec={"unknown": 1.50}, status={"phase": "Pending"}))
    cache.set_live_statuses(
        "pod",
        {key("a"): (LiveStatus("1", b'{"phase":"Running"}'),), key("s"): (LiveStatus("2", b"{}", text(obj("s"))),)},
    )
    stored = cache.get(key("a"))
    assert stored is not None
    assert b'"spec":{"unknown":1.5},"status":{"phase":"Running"}' in stored
    assert names(cache) == ["a", "s"]
    begin = cache.revision
    cache.set_live_statuses("pod", {key("a"): (LiveStatus("1", b'{"phase":"Running"}'),)})
    assert [(one.key.name, one.after) for one in cache.since(begin, "pod")[1]] == [("s", None)]
    drop(cache, key("a"))
    assert names(cache) == []


KEYS = [key(name, namespace) for name in "ab" for namespace in ("x", "y")]
CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 2)), max_size=30)


@given(CHANGES, st.integers(0, 30))
def test_a_list_and_the_changes_after_it_are_the_present(changes: list[tuple[CacheKey, int | None]], at: int) -> None:
    """The guarantee that clients rely on: a client that lists and then watches misses nothing."""
    cache = WatchCache(FIRST)
    cache.load({})
    known: dict[CacheKey, bytes] = {}
    revision = cache.revision
    for number, (where, value) in enumerate(changes):
        if number == at:
            revision, entries = cache.objects("pod")
            known = dict(entries)
        row = None if value is None else text(obj(where.name, where.namespace, spec={"value": value}))
        cache.apply_store_changes([(where, row)])
    for one in cache.since(revision, "pod")[1]:
        assert known.get(one.key) == one.before
        if one.after is None:
            del known[one.key]
        else:
            known[one.key] = one.after
    assert known == dict(cache.objects("pod")[1])
    assert all(json.loads(each)["kind"] == "Pod" for each in known.values())


def test_an_object_that_a_selector_selects_no_more_is_deleted_as_it_was() -> None:
    """The client knows it so; the present one is not for its eyes."""
    selector = parse_selector(resource(), "app=web", "")
    before, after = (text(obj("a", labels={"app": app})) for app in ("web", "other"))
    assert transform(CacheChange(1, key("a"), before, after), selector) == WatchEvent("DELETED", before)
    assert transform(CacheChange(2, key("a"), after, before), selector) == WatchEvent("ADDED", before)


@pytest.mark.parametrize("error", [ValueError("of this test"), GeneratorExit()])
def test_a_listener_that_ends_in_an_error_is_not_rung_any_more(error: BaseException) -> None:
    """Its descriptor is closed, and may be another one's soon."""
    cache = cache_of(obj("a"))
    before = census((cache,))
    with suppress(type(error)), cache.listening() as wakeup:
        put(cache, obj("b"))
        wakeup.clear()
        raise error
    put(cache, obj("a", spec={"changed": True}))
    found = census((cache,))
    assert found.descriptors <= before.descriptors
    assert not cache._listeners
