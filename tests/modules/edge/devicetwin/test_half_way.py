"""What is left of devices, and of messages about them, that are over, also when something failed on the way."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from beehive.testing import Harness
from metamanager.client import CallError
from modules.edge.devicetwin import module
from modules.edge.devicetwin.feed import MOST_HELD_CHARACTERS, DeviceFeed, Listener, TwinChange
from modules.edge.devicetwin.module import FLUSH_AFTER, READ_AGAIN_AFTER, REPEAT_AFTER, DeviceTwin, TwinSettings
from modules.edge.devicetwin.state import Device
from modules.edge.devicetwin.store import MetaStore, Stored
from modules.edge.devicetwin.topics import resource_of
from modules.edge.devicetwin.uplink import PATIENCE, WINDOW
from tests.modules.edge.devicetwin.recorded import Node
from tests.support.failing import census, left_by_repeating


def books_of(node: Node) -> tuple[Any, ...]:
    """Return what devicetwin keeps of devices."""
    running = node.bee.hive.slot("twin").running
    twin: Any = None if running is None else running.ref._actor_weakref()
    return twin._slots, twin._uplink, twin._members


def put(node: Node, name: str, operation: str = "update") -> None:
    """Deliver a Device object, or its deletion."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}
    obj = {"metadata": metadata, "spec": {"deviceModelRef": {"name": "model"}, "nodeName": "n1"}}
    fields = {"source": "edgecontroller", "group": "resource"}
    node.from_cloud(node.bee.message(f"ns/device/{name}", operation, obj, **fields))


def report(node: Node, name: str, value: int) -> None:
    """Report a value and a state, as an application does."""
    for what, content in (
        ("twin", {"twin": {"t": {"actual": {"value": str(value)}}}}),
        ("state", {"state": "online" if value % 2 else "offline"}),
    ):
        node.from_application(f"$hw/events/device/ns/{name}/{what}/update", json.dumps({"event_id": "e", **content}))


def settle_uploads(node: Node) -> None:
    """Answer all that devicetwin tells the cloud."""
    node.answer_all()


def test_reports_and_lost_answers_leave_nothing(node: Node) -> None:
    """Of a message that was not answered, or had left with the link before, no place is taken for ever."""
    values, books = itertools.count(), books_of(node)
    put(node, "thermo")
    report(node, "thermo", next(values))
    node.bee.run_for(FLUSH_AFTER)
    away = census(books)
    node.link(up=True)

    def cycle() -> None:
        report(node, "thermo", next(values))
        node.bee.run_for(PATIENCE)
        report(node, "thermo", next(values))
        node.link(up=False)
        assert not census(books).more_than(away), "a message that has left with the link has no deadline"
        node.link(up=True)
        node.answer({"code": 500}, "error")
        node.bee.run_for(2 * PATIENCE)
        settle_uploads(node)

    assert not left_by_repeating(cycle, *books)
    sent = len(node.uploads)
    node.bee.run_for(20 * PATIENCE)
    assert len(node.uploads) == sent, "nothing is sent again that was confirmed"


@pytest.mark.parametrize("is_connected", [False, True])
def test_devices_that_come_and_go_leave_nothing(node: Node, *, is_connected: bool) -> None:
    """Nor do those that a full disk has refused at first."""
    names = itertools.count()
    node.link(up=is_connected)

    def cycle() -> None:
        name = f"d{next(names)}"
        put(node, name)
        for value in (1, 2):
            node.answer()
            report(node, name, value)
        put(node, name, "delete")
        node.bee.run_for(2 * FLUSH_AFTER)

    assert not left_by_repeating(cycle, *books_of(node))


def test_messages_that_are_never_answered_take_no_further_places(node: Node) -> None:
    """However often they are repeated: they would take all, and no other device could report."""
    put(node, "thermo")
    node.link(up=True)
    report(node, "thermo", 1)
    sent = len(node.uploads)
    node.bee.run_for(10 * PATIENCE)
    assert len(node.uploads) > sent
    assert books_of(node)[1].waiting == 2, "state and values"


def test_a_repetition_that_was_sent_is_forgotten(node: Node) -> None:
    put(node, "thermo")
    node.link(up=True)
    report(node, "thermo", 1)
    node.answer({"code": 500}, "error")
    repetitions = books_of(node)[1]._repetitions
    assert len(repetitions) == 2
    node.bee.run_for(PATIENCE + 1.0)
    assert repetitions == {}


def test_after_a_new_connection_a_message_is_repeated_as_early_as_the_first(node: Node) -> None:
    """However often the cloud has not answered on the one before."""
    put(node, "thermo")
    report(node, "thermo", 1)
    for _ in range(2):
        node.link(up=True)
        for times in (1, 2):
            sent = len(node.uploads)
            node.bee.run_for(times * PATIENCE)
            assert len(node.uploads) == sent + 2
        node.link(up=False)


def test_however_often_a_device_reports_what_the_cloud_cannot_take_one_message_is_repeated(node: Node) -> None:
    """The newest; and on a new connection at once."""
    put(node, "thermo")
    node.link(up=True)
    settle_uploads(node)
    for value in range(4):
        node.bee.run_for(1.0)
        report(node, "thermo", value)
        node.answer({"code": 500}, "error")
    sent = len(node.uploads)
    for seconds, more in ((PATIENCE - 2.0, 0), (3.0, 2), (PATIENCE, 2)):
        node.bee.run_for(seconds)
        assert len(node.uploads) == sent + more
        node.answer({"code": 500}, "error")
    node.link(up=False)
    node.link(up=True)
    told = [one.route.resource for one in node.uploads[sent + 2 :]]
    assert sorted(told[-2:]) == ["device/ns/thermo/state/update", "device/ns/thermo/twin/edge_updated"]
    settle_uploads(node)
    sent = len(node.uploads)
    node.bee.run_for(20 * PATIENCE)
    assert len(node.uploads) == sent


def test_a_message_about_a_device_that_is_gone_gives_its_place_to_another(node: Node) -> None:
    """The cloud answers none: no more leave than may wait for an answer."""
    node.link(up=True)
    for number in range(WINDOW + 2):
        put(node, f"d{number}")
        report(node, f"d{number}", 1)
    told = {one.route.resource for one in node.uploads}
    for number in range(WINDOW):
        put(node, f"d{number}", "delete")
    later = {one.route.resource for one in node.uploads} - told
    assert {f"device/ns/d{number}/twin/edge_updated" for number in (WINDOW, WINDOW + 1)} <= later


def test_a_store_that_cannot_be_read_is_read_again_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not without a pause; messages wait for that."""
    read: list[float] = []
    with Harness() as bee:

        def load(_store: MetaStore, then: Callable[[Stored | CallError], None]) -> None:
            read.append(bee.clock.monotonic())
            then(CallError("read", "the store", "of this test") if len(read) < 3 else Stored([], [], []))

        monkeypatch.setattr(MetaStore, "load", load)
        bee.start(DeviceTwin, TwinSettings("n1"))
        bee.ask("twin", bee.message(resource_of("$hw/events/node/n1/membership/get"), "response", "{}", source="bus"))
        assert len(read) == 3
        bee.run_for(READ_AGAIN_AFTER)
        assert [at - read[0] for at in read] == [0.0, READ_AGAIN_AFTER, 2 * READ_AGAIN_AFTER]
        assert str(bee.hive.readiness()["twin"].state) == "ready"


def test_changes_that_are_refused_again_are_repeated_again(node: Node) -> None:
    """Not only once; and what is taken at last is no longer repeated."""
    node.disk_is_full = True
    details = {"event_id": "d", "timestamp": 1, "devices": [{"id": "ns/d", "name": "d"}]}
    node.from_cloud(node.bee.message("membership/detail", "update", details, source="edgemgr", group="twin"))
    node.bee.run_for(3 * REPEAT_AFTER)
    slots, _, members = books_of(node)
    assert slots.saved("ns/d") is None
    node.disk_is_full = False
    node.bee.run_for(2 * REPEAT_AFTER)
    assert slots.saved("ns/d") is not None
    assert members._unstored == {}


def test_a_listener_is_forgotten_before_its_descriptor_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it leaves with an error: a change would be announced on another's descriptor."""
    feed, close, closed = DeviceFeed(), Listener.close, list[Listener]()

    def checked(listener: Listener) -> None:
        assert listener not in feed._listeners
        closed.append(listener)
        close(listener)

    monkeypatch.setattr(Listener, "close", checked)

    def listen() -> None:
        with feed.listening() as listener:
            feed.put(None, Device("ns/d"))
            assert [each.what for each in listener.drain()] == ["added"]
            raise OSError("of this test")

    before = census((feed,))
    with pytest.raises(OSError, match="of this test"):
        listen()
    feed.put(None, Device("ns/d"))
    assert not census((feed,)).more_than(before)
    assert len(closed) == 1


def test_a_listener_that_reads_loses_nothing() -> None:
    """However much has come: what was read takes no room."""
    with DeviceFeed().listening() as listener:
        for _ in range(3):
            listener.put(TwinChange("reported", value="x" * (MOST_HELD_CHARACTERS // 2 + 1)))
            assert [each.what for each in listener.drain()] == ["reported"]


def test_a_listener_that_has_lost_a_large_change_has_room_for_small_ones() -> None:
    """What was dropped takes no room."""
    with DeviceFeed().listening() as listener:
        large = "x" * (MOST_HELD_CHARACTERS - 1)
        for values, kept in ((large, "a"), [large, "a"]), ((large, "ab", "cd"), [None, "ab", "cd"]):
            for value in values:
                listener.put(TwinChange("reported", value=value))
            assert [each.value for each in listener.drain()] == kept


def test_messages_that_wait_for_the_devices_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender of one too many is refused, and may send it again."""
    monkeypatch.setattr(module, "MOST_HELD", 2)
    monkeypatch.setattr(MetaStore, "load", lambda _store, _then: None)
    with Harness() as bee:
        bee.add(DeviceTwin, TwinSettings("n1"))
        bee.start()
        resource = "device/ns/thermo/twin/desired"
        for _ in range(2):
            bee.send("twin", bee.message(resource, "update", '{"t":"1"}', source="edgecore"))
        answer = bee.ask("twin", bee.message(resource, "update", '{"t":"1"}', source="edgecore"))
        assert "not read yet" in bytes(answer.content_raw()).decode()


def test_a_device_made_again_is_repeated_in_its_own_time(node: Node) -> None:
    """And not when what the cloud could not take of the one before was to be."""
    node.link(up=True)
    for operation in ("update", "delete", "update"):
        put(node, "thermo", operation)
        if operation == "delete":
            node.bee.run_for(PATIENCE / 2)
        else:
            report(node, "thermo", 1)
            node.answer({"code": 500}, "error")
    sent = len(node.uploads)
    for seconds, more in ((PATIENCE - 1.0, 0), (2.0, 2)):
        node.bee.run_for(seconds)
        assert len(node.uploads) == sent + more


def test_what_was_sent_is_sent_again_on_a_connection_whose_predecessor_ended_unseen(node: Node) -> None:
    """edgehub may tell of a connection twice, as when this module was started again; no answer comes on the first."""
    put(node, "thermo")
    report(node, "thermo", 1)
    node.link(up=True)
    told = sorted(one.route.resource for one in node.uploads)
    node.link(up=True)
    assert sorted(one.route.resource for one in node.uploads) == sorted(2 * told)
