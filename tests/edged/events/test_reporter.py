"""Events on the bus: what leaves edged, when, and as what."""

from typing import Any

import pytest

from beehive import Message, Module, ModuleName
from beehive.testing import Harness
from edged.events import EventRecorder, EventType, Reason
from edged.events.reporter import GATHER_SECONDS, MOST_WAITING, EventReporter
from edged.pods.model import PodRef, PodUid
from metamanager.client import AsyncMetaClient

WEB = PodRef(PodUid("uid-web"), "default", "web")


class Teller(Module):
    """A module with events, in edged's place."""

    name = ModuleName.EDGED

    def __init__(self, rate: float, burst: int) -> None:
        super().__init__()
        self._limits = (rate, burst)

    def on_start(self) -> None:
        self.reporter = EventReporter(AsyncMetaClient(self), self, "n1", *self._limits)
        take = self.reporter.report
        Teller.events = EventRecorder(self.clock, "n1", lambda one: self.call_soon(lambda: take(one)))

    def on_stop(self) -> None:
        self.reporter.close()

    events: EventRecorder


class Desk:
    """The module, and what metamanager gets of it."""

    def __init__(self, rate: float = 50, burst: int = 100) -> None:
        self.bee = Harness()
        self.taken: list[tuple[str, str, dict[str, Any]]] = []
        self.bee.answer(ModuleName.METAMANAGER, self._take)
        self.bee.start(Teller, rate, burst)

    def record(self, message: str, pod: PodRef = WEB) -> None:
        Teller.events.record(pod, EventType.NORMAL, Reason.STARTED, message, "main")

    def _take(self, message: Message) -> Message | None:
        self.taken.append((message.route.operation, message.route.resource, message.content_as(dict)))
        assert not message.header.sync
        return None


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_events_of_a_second_are_sent_together(desk: Desk) -> None:
    desk.record("one")
    desk.record("two")
    desk.bee.run_for(GATHER_SECONDS / 2)
    assert desk.taken == []
    desk.bee.run_for(GATHER_SECONDS)
    assert [(operation, event["message"]) for operation, _, event in desk.taken] == [
        ("insert", "one"),
        ("insert", "two"),
    ]
    _, resource, event = desk.taken[0]
    assert resource == f"default/event/{event['metadata']['name']}"
    assert event["involvedObject"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "uid-web",
        "apiVersion": "v1",
        "fieldPath": "spec.containers{main}",
    }


def test_a_repeated_event_is_one_message_within_a_second_and_later_an_update(desk: Desk) -> None:
    for _ in range(3):
        desk.record("same")
    desk.bee.run_for(2)
    desk.record("same")
    desk.bee.run_for(2)
    assert [(operation, event["count"]) for operation, _, event in desk.taken] == [("insert", 3), ("update", 4)]
    assert len({resource for _, resource, _ in desk.taken}) == 1


def test_no_more_than_the_configured_rate_leaves() -> None:
    desk = Desk(rate=2, burst=3)
    for n in range(9):
        desk.record("x", PodRef(PodUid(f"u{n}"), "default", f"p{n}"))
    desk.bee.run_for(1.9)
    assert len(desk.taken) == 3, "the next ones leave together, too"
    desk.bee.run_for(0.2)
    assert len(desk.taken) == 5
    desk.bee.run_for(10)
    assert len(desk.taken) == 9


def test_when_too_much_waits_the_oldest_is_dropped() -> None:
    """One that has happened again is not the oldest."""
    desk = Desk(rate=1, burst=1)
    for n in (*range(MOST_WAITING), 0, *range(MOST_WAITING, MOST_WAITING + 5)):
        desk.record("x", PodRef(PodUid(f"u{n}"), "default", f"p{n}"))
    desk.bee.hive.stop()
    names = [event["involvedObject"]["name"] for _, _, event in desk.taken]
    assert names == [f"p{n}" for n in (*range(6, MOST_WAITING), 0, *range(MOST_WAITING, MOST_WAITING + 5))]


def test_waiting_events_are_sent_when_the_module_stops(desk: Desk) -> None:
    desk.record("last words")
    desk.bee.run_for(0.01)
    desk.bee.hive.stop()
    assert [event["message"] for _, _, event in desk.taken] == ["last words"]


def test_a_node_is_its_own_reference(desk: Desk) -> None:
    Teller.events.record_node(EventType.WARNING, Reason.REBOOTED, "rebooted")
    desk.bee.run_for(2)
    assert desk.taken[0][2]["involvedObject"] == {"kind": "Node", "name": "n1", "uid": "n1"}


def test_an_init_container_is_named_as_one(desk: Desk) -> None:
    Teller.events.record(WEB, EventType.NORMAL, Reason.CREATED, "made", "setup", among="initContainers")
    desk.bee.run_for(2)
    assert desk.taken[0][2]["involvedObject"]["fieldPath"] == "spec.initContainers{setup}"
