"""The view: revisions, the changes between them, and what listens."""

from __future__ import annotations

import json
import select

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.metaserver.compose import Live
from modules.metaserver.view import Key, TooOldError, View, heard
from tests.modules.metaserver.objects import FIRST, drop, key, obj, put, text, view_of


def names(view: View, namespace: str = "", kind: str = "pod") -> list[str]:
    return [each.name for each, _ in view.objects(kind, namespace)[1]]


def test_objects_are_listed_by_kind_and_namespace_in_order() -> None:
    view = view_of(obj("b"), obj("a", "other"), obj("a"), obj("x", kind="ConfigMap"))
    assert names(view) == ["a", "b", "a"]
    assert names(view, "other") == ["a"]
    assert names(view, kind="configmap") == ["x"]


def test_each_change_has_a_revision_and_an_equal_object_is_none() -> None:
    view = view_of(obj("a"))
    begin = view.revision
    put(view, obj("a"), obj("b"))
    assert view.revision == begin + 1
    put(view, obj("b", spec={}))
    drop(view, key("b"), key("never"))
    present, changes = view.since(begin, "pod")
    assert present == view.revision == begin + 3
    kinds = [(one.before is None, one.after is None) for one in changes]
    assert kinds == [(True, False), (False, False), (False, True)]
    assert view.since(begin, "configmap")[1] == []


def test_a_store_that_is_read_again_changes_only_what_differs() -> None:
    """metamanager was started again."""
    view = view_of(obj("a"), obj("b"))
    begin = view.revision
    view.load({key("a"): text(obj("a")), key("c"): text(obj("c"))})
    assert {(one.key.name, one.after is None) for one in view.since(begin, "pod")[1]} == {("b", True), ("c", False)}


@pytest.mark.parametrize("limits", [{"history": 2}, {"history_bytes": 200}])
def test_the_history_is_bounded_and_says_so(limits: dict[str, int]) -> None:
    view = view_of(**limits)
    for name in "abcde":
        put(view, obj(name))
    assert view.since(view.revision - 2, "pod")[1] != []
    for revision in (FIRST, 17, view.revision + 1):
        assert not view.knows(revision)
        with pytest.raises(TooOldError):
            view.since(revision, "pod")


def test_who_listens_is_woken_by_a_change_until_they_have_heard() -> None:
    view = view_of()
    with view.listening() as descriptor:

        def readable() -> bool:
            return bool(select.select([descriptor], [], [], 0)[0])

        assert not readable()
        put(view, obj("a"))
        put(view, obj("b"))
        assert readable()
        heard(descriptor)
        assert not readable()
        put(view, obj("b"))
        assert not readable(), "nothing has changed"
    put(view, obj("c"))


def test_edgeds_status_stands_in_the_stored_object() -> None:
    """The rest is the store's, byte for byte; without a row, a pod of edged's own is shown."""
    view = view_of(obj("a", uid="1", spec={"unknown": 1.50}, status={"phase": "Pending"}))
    view.live_is("pod", {key("a"): (Live("1", b'{"phase":"Running"}'),), key("s"): (Live("2", b"{}", text(obj("s"))),)})
    stored = view.get(key("a"))
    assert stored is not None
    assert b'"spec":{"unknown":1.5},"status":{"phase":"Running"}' in stored
    assert names(view) == ["a", "s"]
    begin = view.revision
    view.live_is("pod", {key("a"): (Live("1", b'{"phase":"Running"}'),)})
    assert [(one.key.name, one.after) for one in view.since(begin, "pod")[1]] == [("s", None)]
    drop(view, key("a"))
    assert names(view) == []


KEYS = [key(name, namespace) for name in "ab" for namespace in ("x", "y")]
CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 2)), max_size=30)


@given(CHANGES, st.integers(0, 30))
def test_a_list_and_the_changes_after_it_are_the_present(changes: list[tuple[Key, int | None]], at: int) -> None:
    """The law that clients rely on: whoever has a list and follows it misses nothing."""
    view = View(FIRST)
    view.load({})
    known: dict[Key, bytes] = {}
    revision = view.revision
    for number, (where, value) in enumerate(changes):
        if number == at:
            revision, entries = view.objects("pod")
            known = dict(entries)
        row = None if value is None else text(obj(where.name, where.namespace, spec={"value": value}))
        view.store_changed([(where, row)])
    for one in view.since(revision, "pod")[1]:
        assert known.get(one.key) == one.before
        if one.after is None:
            del known[one.key]
        else:
            known[one.key] = one.after
    assert known == dict(view.objects("pod")[1])
    assert all(json.loads(each)["kind"] == "Pod" for each in known.values())
