"""The lines of a watch, and where it waits."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.http.request import Request
from beehive.simulation import Simulation
from modules.apimachinery.kinds import kind_named
from modules.apimachinery.options import WATCH_SECONDS, ReadOptions, read_options
from modules.apimachinery.selectors import parse_selector
from modules.apimachinery.served_resources import resource_of
from modules.cloud.apiserver.endpoints.subscriptions import Subscription
from modules.cloud.apiserver.endpoints.watching import BOOKMARK_SECONDS, ObjectWatch, event_type
from modules.cloud.storage.watch_history import ObjectChanged, WatchStart


def changed(version: int, namespace: str = "ns", size: int = 1) -> ObjectChanged:
    metadata = {"name": f"c{version}", "namespace": namespace, "resourceVersion": str(version)}
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    return ObjectChanged("ADDED", obj, None, b"x" * size)


def names(step: bytes | float) -> list[str]:
    assert isinstance(step, bytes), "it waits"
    return [json.loads(line)["object"]["metadata"]["name"] for line in step.splitlines()]


def steps(start: WatchStart, *changes: ObjectChanged) -> Iterator[bytes | float]:
    subscription = Subscription("ConfigMap")
    for change in changes:
        subscription.put(change)
    watch = ObjectWatch(resource_of(kind_named("ConfigMap")), "ns", ReadOptions(), Simulation(0).clock)
    return watch.steps(start, subscription, lambda: None)


def test_a_change_that_the_beginning_of_a_watch_has_is_not_sent_again() -> None:
    """The subscription begins before the beginning is read."""
    found = steps(WatchStart(5, [changed(5)]), changed(4), changed(5), changed(6))
    assert names(next(found)) == ["c5"]
    assert names(next(found)) == ["c6"]


def test_a_watch_does_not_wait_while_there_are_changes() -> None:
    """Some of another namespace come first."""
    found = steps(WatchStart(1), changed(2, "other", 300 * 1024), changed(3, "other", 300 * 1024), changed(4))
    assert names(next(found)) == ["c4"]
    assert isinstance(next(found), float)


def test_a_watch_without_changes_has_a_bookmark_each_minute() -> None:
    simulation = Simulation(0)
    options = ReadOptions(bookmarks=True)
    watch = ObjectWatch(resource_of(kind_named("ConfigMap")), "ns", options, simulation.clock)
    found = watch.steps(WatchStart(7), Subscription("ConfigMap"), lambda: None)
    for _ in range(2):
        assert next(found) == BOOKMARK_SECONDS
        simulation.run_for(BOOKMARK_SECONDS)
        step = next(found)
        assert isinstance(step, bytes)
        assert json.loads(step)["object"]["metadata"]["resourceVersion"] == "7"


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
    options = ReadOptions(bookmarks=True)
    watch = ObjectWatch(resource_of(kind_named("ConfigMap")), "ns", options, simulation.clock)
    found = watch.steps(WatchStart(version), subscription, lambda: None)
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
