"""The lines of a watch, and where it waits."""

import json
from collections.abc import Iterator

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import kind_named
from modules.apimachinery.options import ReadOptions
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
