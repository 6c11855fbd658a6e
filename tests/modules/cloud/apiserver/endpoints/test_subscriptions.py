"""The changes that wait for watches are bounded."""

from modules.cloud.apiserver.endpoints.subscriptions import WAITING, WAITING_BYTES, Subscriptions
from modules.cloud.storage.watch_history import ObjectChanged

_MEBIBYTE = 1024 * 1024


def changed(version: int, kind: str = "ConfigMap", size: int = _MEBIBYTE) -> ObjectChanged:
    obj = {"kind": kind, "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": str(version)}}
    return ObjectChanged("MODIFIED", obj, None, b"x" * size)


def test_a_client_that_reads_nothing_does_not_keep_every_state_of_an_object() -> None:
    """600 updates of a ConfigMap of a megabyte, and one watch that was not read, took a gigabyte."""
    subscriptions = Subscriptions()
    slow, controller = subscriptions.subscribe("ConfigMap", of_client=True), subscriptions.subscribe("ConfigMap")
    count = WAITING_BYTES // _MEBIBYTE
    for version in range(count + 1):
        subscriptions.publish(changed(version))
    assert len(slow._waiting) == count + 1
    subscriptions.publish(changed(count + 1))
    assert not slow._waiting
    assert slow.take_some() == ([], True)
    subscriptions.publish(changed(count + 2))
    assert slow.take_some() == ([], True), "nothing is lost between two changes"
    assert len(controller.take()[0]) == count + 3


def test_changes_of_other_kinds_make_a_change_old() -> None:
    """Watches of many kinds would keep as many windows."""
    subscriptions = Subscriptions()
    slow = subscriptions.subscribe("Secret", of_client=True)
    subscriptions.publish(changed(1, "Secret"))
    for version in range(WAITING_BYTES // _MEBIBYTE):
        subscriptions.publish(changed(version, "Pod"))
    assert len(slow._waiting) == 1
    for version in range(8):
        subscriptions.publish(changed(version, "Pod"))
    assert slow.take_some() == ([], True)


def test_a_watch_takes_some_changes_at_a_time_in_order() -> None:
    subscriptions = Subscriptions()
    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    for version in range(10):
        subscriptions.publish(changed(version, size=100 * 1024))
    taken = list[int]()
    while changes := watch.take_some()[0]:
        assert len(changes) <= 3
        taken += [change.version for change in changes]
    assert taken == [*range(10)]


def test_too_many_changes_end_it() -> None:
    subscriptions = Subscriptions()
    watch = subscriptions.subscribe("ConfigMap", of_client=True)
    for version in range(WAITING + 1):
        subscriptions.publish(changed(version, size=1))
    assert watch.take_some() == ([], True)
