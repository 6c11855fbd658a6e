"""The lines of a watch, and where it waits."""

import json
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.http.request import Request
from beehive.simulation import Simulation
from modules.apimachinery.kinds import kind_named
from modules.apimachinery.options import WATCH_SECONDS, Form, ReadOptions, read_options
from modules.apimachinery.selectors import parse_selector
from modules.apimachinery.served_resources import resource_of
from modules.cloud.apiserver.endpoints.event_texts import EventTexts
from modules.cloud.apiserver.endpoints.list_answers import PIECE_BYTES
from modules.cloud.apiserver.endpoints.subscriptions import WAITING_BYTES, Subscription, Subscriptions
from modules.cloud.apiserver.endpoints.watching import BOOKMARK_SECONDS, ObjectWatch, WatchBegin, event_type
from modules.cloud.storage.watch_history import ObjectChanged
from tests.modules.cloud.apiserver.endpoints.test_list_answers import Gone


def changed(version: int, namespace: str = "ns", size: int = 1) -> ObjectChanged:
    metadata = {"name": f"c{version}", "namespace": namespace, "resourceVersion": str(version)}
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    return ObjectChanged("ADDED", obj, None, b"x" * size)


def large(version: int) -> ObjectChanged:
    """An object of more than a piece of a watch."""
    change = changed(version)
    return ObjectChanged("ADDED", {**change.object, "data": {"text": "x" * PIECE_BYTES}})


def names(step: bytes | float) -> list[str]:
    assert isinstance(step, bytes), "it waits"
    return [json.loads(line)["object"]["metadata"]["name"] for line in step.splitlines()]


def watch_of(options: ReadOptions | None = None, simulation: Simulation | None = None) -> ObjectWatch:
    clock = (simulation or Simulation(0)).clock
    return ObjectWatch(resource_of(kind_named("ConfigMap")), "ns", options or ReadOptions(), clock, EventTexts())


def begin_of(version: int, *present: ObjectChanged, subscription: Subscription | None = None) -> WatchBegin:
    return WatchBegin(version, present, subscription or Subscription("ConfigMap"))


def steps(begin: WatchBegin, *changes: ObjectChanged) -> Iterator[bytes | float]:
    for change in changes:
        begin.subscription.put(change)
    return watch_of().steps(begin, lambda: None)


def test_a_change_that_the_beginning_of_a_watch_has_is_not_sent_again() -> None:
    """The subscription begins before the beginning is read."""
    found = steps(begin_of(5, changed(5)), changed(4), changed(5), changed(6))
    assert names(next(found)) == ["c5"]
    assert names(next(found)) == ["c6"]


def test_a_watch_does_not_wait_while_there_are_changes() -> None:
    """Some of another namespace come first."""
    found = steps(begin_of(1), changed(2, "other", 300 * 1024), changed(3, "other", 300 * 1024), changed(4))
    assert names(next(found)) == ["c4"]
    assert isinstance(next(found), float)


def test_a_watch_without_changes_has_a_bookmark_each_minute() -> None:
    simulation = Simulation(0)
    found = watch_of(ReadOptions(bookmarks=True), simulation).steps(begin_of(7), lambda: None)
    for _ in range(2):
        assert next(found) == BOOKMARK_SECONDS
        simulation.run_for(BOOKMARK_SECONDS)
        step = next(found)
        assert isinstance(step, bytes)
        assert json.loads(step)["object"]["metadata"]["resourceVersion"] == "7"


def test_a_watch_whose_client_takes_nothing_does_not_keep_the_objects_of_its_beginning() -> None:
    """Each of 500 unread watches would have its own state of 40 ConfigMaps of a megabyte that somebody writes again."""
    subscriptions = Subscriptions()
    subscription = subscriptions.subscribe("ConfigMap", of_client=True)
    present = [large(version) for version in (1, 2, 3)]
    held = subscriptions.hold(present)
    found = watch_of().steps(WatchBegin(3, held, subscription), lambda: None)
    assert names(next(found)) == ["c1"]
    for version in range(WAITING_BYTES // (8 << 20) + 1):
        subscriptions.publish(changed(10 + version, size=8 << 20))
    assert not held._objects, "they are free although nobody asks for the next piece"
    assert list(found) == [], "the watch ends, and its client begins another one"


def test_a_watch_whose_beginning_was_let_go_sends_no_later_change() -> None:
    """Its client would take what came of the beginning for all there is."""
    subscriptions = Subscriptions()
    subscription = subscriptions.subscribe("ConfigMap", of_client=True)
    held = subscriptions.hold([large(version) for version in (1, 2, 3)])
    found = watch_of().pieces(Gone(), WatchBegin(3, held, subscription))
    assert names(next(found)) == ["c1"]
    for version in range(WAITING_BYTES // (8 << 20) + 1):
        secret = {**changed(10 + version).object, "kind": "Secret"}
        subscriptions.publish(ObjectChanged("ADDED", secret, None, bytes(8 << 20)))
    subscriptions.publish(changed(30))
    assert list(found) == []


def test_watches_with_other_selectors_have_their_own_types_of_the_same_change() -> None:
    texts, change = EventTexts(), ObjectChanged("MODIFIED", changed(2).object, {"metadata": {"labels": {"app": "b"}}})
    change.object["metadata"]["labels"] = {"app": "a"}
    resource, types = resource_of(kind_named("ConfigMap")), list[str]()
    for asked in ("", "app=a"):
        options = ReadOptions(selector=parse_selector(resource, asked, ""))
        step = next(ObjectWatch(resource, "ns", options, Simulation(0).clock, texts).steps(begin_of(0, change)))
        assert isinstance(step, bytes)
        types.append(json.loads(step)["type"])
    assert types == ["MODIFIED", "ADDED"]


def test_clients_of_the_same_event_get_the_same_bytes() -> None:
    """A change of a large ConfigMap went to 768 watches as 768 copies."""
    texts, change = EventTexts(), large(1)
    lines = [
        next(ObjectWatch(resource, "ns", ReadOptions(form=form), Simulation(0).clock, texts).steps(begin_of(0, change)))
        for form in (Form.OBJECT, Form.METADATA, Form.TABLE)
        for _ in range(2)
        for resource in (resource_of(kind_named("ConfigMap")),)
    ]
    assert [one is other for one, other in pairwise(lines)] == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("change", "before", "after", "kind"),
    [
        ("ADDED", None, "a", "ADDED"),
        ("MODIFIED", "a", "a", "MODIFIED"),
        ("MODIFIED", "b", "a", "ADDED"),
        ("MODIFIED", "a", "b", "DELETED"),
        ("MODIFIED", "b", "b", ""),
        ("DELETED", "a", "a", "DELETED"),
        ("DELETED", "b", "b", ""),
        ("DELETED", None, "a", "DELETED"),
        ("DELETED", None, "b", ""),
    ],
)
def test_the_type_of_a_change_for_a_selector(change: str, before: str | None, after: str, kind: str) -> None:
    """A deletion that was read from the database may have no former state."""
    selector = parse_selector(resource_of(kind_named("ConfigMap")), "app=a", "")
    old = {"metadata": {"name": "c", "labels": {"app": before}}} if before else None
    new = {"metadata": {"name": "c", "labels": {"app": after}}}
    assert event_type(ObjectChanged(change, new, old), selector) == kind


@given(
    waves=st.lists(st.tuples(st.lists(st.sampled_from(["ns", "other"]), max_size=3), st.booleans()), max_size=8),
    version=st.integers(1, 9),
)
def test_a_client_that_believes_bookmarks_never_goes_back_and_misses_nothing(
    waves: list[tuple[list[str], bool]], version: int
) -> None:
    """As client-go does: it goes on from the last version that an event or a bookmark has had."""
    simulation, subscription = Simulation(0), Subscription("ConfigMap")
    begin = begin_of(version, subscription=subscription)
    found = watch_of(ReadOptions(bookmarks=True), simulation).steps(begin, lambda: None)
    last, sent, seen, marks = version, version, list[str](), 0
    for namespaces, is_minute in waves:
        for namespace in namespaces:
            sent += 1
            subscription.put(changed(sent, namespace))
        simulation.run_for(BOOKMARK_SECONDS if is_minute else 1.0)
        while isinstance(step := next(found), bytes):
            for event in map(json.loads, step.splitlines()):
                now = int(event["object"]["metadata"]["resourceVersion"])
                is_mark = event["type"] == "BOOKMARK"
                assert now > last or (is_mark and now == last), "a bookmark goes back, or an event comes late"
                assert not is_mark or now == sent, "a bookmark is not of what was sent"
                marks += is_mark
                last = now
                seen += [] if is_mark else [event["object"]["metadata"]["namespace"]]
    assert seen == [namespace for namespaces, _ in waves for namespace in namespaces if namespace == "ns"]
    assert marks >= sum(is_minute for _, is_minute in waves)


@pytest.mark.parametrize(
    ("query", "limit", "seconds"),
    [("", 0, WATCH_SECONDS), ("timeoutSeconds=0", 0, WATCH_SECONDS), ("timeoutSeconds=-7&limit=-5", 0, WATCH_SECONDS),
     ("timeoutSeconds=7&limit=5", 5, 7)],
)  # fmt: skip
def test_a_number_below_one_is_as_good_as_none(query: str, limit: int, seconds: int) -> None:
    request = Request(method="GET", target="/", parts=(), query=tuple(parse_qsl(query)))
    options = read_options(request, resource_of(kind_named("ConfigMap")), is_collection=True)
    assert (options.limit, options.seconds) == (limit, seconds)
