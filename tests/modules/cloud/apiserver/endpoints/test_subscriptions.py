"""The changes that wait for watches are bounded, and reach all watches."""

import os
import select
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.apiserver.endpoints.subscriptions import (
    WAITING,
    WAITING_BYTES,
    SlowClientError,
    Subscriptions,
)
from modules.cloud.storage.watch_history import ObjectChanged

_MEBIBYTE = 1024 * 1024


def changed(version: int, kind: str = "ConfigMap", size: int = _MEBIBYTE) -> ObjectChanged:
    obj = {"kind": kind, "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": str(version)}}
    return ObjectChanged("MODIFIED", obj, None, b"x" * size)


@pytest.fixture
def subscriptions() -> Subscriptions:
    return Subscriptions()


def test_a_client_that_reads_nothing_does_not_keep_every_state_of_an_object(subscriptions: Subscriptions) -> None:
    """600 updates of a ConfigMap of a megabyte, and one watch that was not read, took a gigabyte."""
    slow, controller = subscriptions.subscribe("ConfigMap", of_client=True), subscriptions.subscribe("ConfigMap")
    count = WAITING_BYTES // _MEBIBYTE
    for version in range(count + 1):
        subscriptions.publish(changed(version))
    assert len(slow._waiting) == count + 1
    subscriptions.publish(changed(count + 1))
    assert not slow._waiting
    assert slow.pop_some() == ([], True)
    subscriptions.publish(changed(count + 2))
    assert slow.pop_some() == ([], True), "nothing is lost between two changes"
    assert len(controller.drain()[0]) == count + 3


def test_changes_of_other_kinds_make_a_change_old(subscriptions: Subscriptions) -> None:
    """Watches of many kinds would keep as many windows."""
    slow = subscriptions.subscribe("Secret", of_client=True)
    subscriptions.publish(changed(1, "Secret"))
    for version in range(WAITING_BYTES // _MEBIBYTE):
        subscriptions.publish(changed(version, "Pod"))
    assert len(slow._waiting) == 1
    for version in range(8):
        subscriptions.publish(changed(version, "Pod"))
    assert slow.pop_some() == ([], True)


def test_a_watch_takes_some_changes_at_a_time_in_order(subscriptions: Subscriptions) -> None:
    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    for version in range(10):
        subscriptions.publish(changed(version, size=100 * 1024))
    taken = list[int]()
    while changes := watch.pop_some()[0]:
        assert len(changes) <= 3
        taken += [change.version for change in changes]
    assert taken == [*range(10)]


def test_changes_whose_size_is_not_known_are_taken_one_at_a_time(subscriptions: Subscriptions) -> None:
    """4,096 of them were one piece of 64 MiB."""
    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    for version in range(3):
        subscriptions.publish(changed(version, size=0))
    assert [[each.version for each in watch.pop_some()[0]] for _ in range(4)] == [[0], [1], [2], []]


def test_what_waits_is_taken_before_the_end(subscriptions: Subscriptions) -> None:
    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    for version in range(4):
        subscriptions.publish(changed(version, size=200 * 1024))
    subscriptions.end_all()
    taken = [watch.pop_some() for _ in range(2)]
    assert [([each.version for each in found], ended) for found, ended in taken] == [([0, 1], False), ([2, 3], True)]


def test_a_list_is_known_as_old_before_its_objects_are_let_go(subscriptions: Subscriptions) -> None:
    """A thread that came between the two would end the list as if it were whole."""
    held = subscriptions.hold([1, 2])

    class Emptied(deque[int]):
        """Is asked for by the thread of the client as soon as it is empty."""

        def clear(self) -> None:
            super().clear()
            with pytest.raises(SlowClientError):
                list(held)

    held._objects = Emptied(held._objects)
    for version in range(WAITING_BYTES // (8 * _MEBIBYTE) + 1):
        subscriptions.publish(changed(version, size=8 * _MEBIBYTE))
    assert not held._objects


def test_the_watches_of_clients_end_without_those_of_modules(subscriptions: Subscriptions) -> None:
    """When `control` stops; edgecontroller would list all objects again."""
    of_client, of_module = subscriptions.subscribe("Pod", of_client=True), subscriptions.subscribe("Pod")
    subscriptions.end_clients()
    subscriptions.publish(changed(1, "Pod"))
    assert of_client.pop_some() == ([], True)
    assert [[each.version for each in of_module.pop_some()[0]], of_module.pop_some()[1]] == [[1], False]


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_descriptor_that_is_asked_for_late_is_readable(subscriptions: Subscriptions, has_ended: bool) -> None:
    """The subscription may end between a look at its changes and the wait for more."""
    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    if has_ended:
        watch.end()
    else:
        watch.put(changed(1))
    assert select.select([watch.descriptor], [], [], 0)[0]
    watch.close()


def test_too_many_changes_end_it(subscriptions: Subscriptions) -> None:
    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    for version in range(WAITING + 1):
        subscriptions.publish(changed(version, size=1))
    assert watch.pop_some() == ([], True)


class Publishing(dict[str, Any]):
    """Subscribers by kind; the thread that publishes has its turn after each change of them."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        super().__init__(subscriptions._by_kind)
        self.subscriptions, self.version = subscriptions, 0

    def _publish(self) -> None:
        self.version += 1
        self.subscriptions.publish(changed(self.version))

    def __setitem__(self, kind: str, subscribers: Any) -> None:
        super().__setitem__(kind, subscribers)
        self._publish()

    def pop(self, kind: str, *otherwise: Any) -> Any:
        found = super().pop(kind, *otherwise)
        self._publish()
        return found


def test_a_watch_that_ends_takes_no_change_from_another_one(subscriptions: Subscriptions) -> None:
    watch, other = subscriptions.subscribe("ConfigMap"), subscriptions.subscribe("ConfigMap")
    subscriptions._by_kind = publishing = Publishing(subscriptions)
    subscriptions.unsubscribe(other)
    assert publishing.version
    assert len(watch.drain()[0]) == publishing.version


def test_watches_begin_while_changes_are_published(subscriptions: Subscriptions) -> None:
    class Meanwhile(tuple[Any, ...]):
        """Subscribers; another one comes while they are looked at."""

        def __iter__(self) -> Iterator[Any]:
            if len(subscriptions._by_kind) == 1:
                subscriptions.subscribe("Secret")
            return super().__iter__()

    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    subscriptions._by_kind["ConfigMap"] = Meanwhile([watch])
    subscriptions.publish(changed(1, size=8 * _MEBIBYTE))
    assert len(watch.drain()[0]) == 1
    assert "Secret" in subscriptions._by_kind


def test_a_subscription_that_is_closed_again_closes_nothing_else(subscriptions: Subscriptions) -> None:
    """Its descriptor's number may be another file's by then."""
    watch = subscriptions.subscribe("ConfigMap")
    number = watch.descriptor
    watch.close()
    with Path(os.devnull).open("rb") as other:
        assert other.fileno() == number
        watch.close()
        os.fstat(number)
