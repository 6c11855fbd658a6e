"""What the cloud sends to a module that this node does not run."""

import logging

import pytest

from beehive import DropReason, Hive, Message, Module, Operation, encode, handles
from beehive.http.forwarding import ForwardedResponse
from beehive.simulation import Simulation
from edgehub.counters import LinkCounters
from edgehub.errors import PeerClosedError
from edgehub.inbound import Inbound, LinkHooks
from tests.edgehub.messages import message

NO_HOOKS = LinkHooks(lambda: None, lambda _: None, lambda _: None, lambda _: None)


def test_a_node_without_mqtt_logs_subscriptions_of_rules_once(caplog: pytest.LogCaptureFixture) -> None:
    """The cloud sends them at each connection; they were a dead letter each time."""
    hive = Hive(Simulation())
    inbound = Inbound(hive, LinkCounters(), NO_HOOKS)
    with caplog.at_level(logging.INFO):
        for topic in ("default/alarms", "default/news", "default/alarms"):
            inbound.received(encode(message(topic, "subscribe", source="router_eventbus", group="user")))
    (told,) = caplog.records
    assert "this node runs no eventbus" in told.getMessage() and told.levelno == logging.INFO
    assert len(hive.dead_letters) == 0


@pytest.mark.parametrize(("operation", "is_answered"), [("GET", True), ("start", False)])
def test_a_node_without_servicebus_answers_calls_of_applications(
    monkeypatch: pytest.MonkeyPatch, operation: str, *, is_answered: bool
) -> None:
    """The cloud would wait for it until its time-out."""
    hive, taken = Hive(Simulation()), list[tuple[str, Message]]()
    monkeypatch.setattr(hive, "broadcast", lambda group, answer: taken.append((group, answer)))
    call = message("node/n/8080:/x", operation, {}, source="router_servicebus", group="user")
    Inbound(hive, LinkCounters(), NO_HOOKS).received(encode(call))
    expected = [("hub", call.id, "upload")] if is_answered else []
    assert [(to, answer.parent_id, answer.route.operation) for to, answer in taken] == expected
    for _, answer in taken:
        assert answer.content_as(ForwardedResponse).status_code == 503


def test_edgehub_knows_of_the_end_of_a_link_before_the_modules_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that sends because of it finds no link."""
    hive, seen = Hive(Simulation()), list[str]()
    hooks = LinkHooks(lambda: seen.append("opened"), lambda _: None, lambda _: seen.append("ended"), lambda _: None)
    monkeypatch.setattr(hive, "members", lambda _: ("one",))
    monkeypatch.setattr(hive, "broadcast", lambda _, event: seen.append(event.content))
    inbound = Inbound(hive, LinkCounters(), hooks)
    inbound.opened()
    inbound.ended(PeerClosedError(1000, "bye"))
    assert list(dict.fromkeys(seen)) == ["opened", "cloud_connected", "ended", "cloud_disconnected"]


def test_a_link_that_never_was_up_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules would hear of an end at each attempt to connect."""
    hive, seen = Hive(Simulation()), list[str]()
    monkeypatch.setattr(hive, "members", lambda _: ("one",))
    monkeypatch.setattr(hive, "broadcast", lambda _, event: seen.append(event.content))
    Inbound(hive, LinkCounters(), NO_HOOKS).ended(PeerClosedError(1000, "bye"))
    assert seen == []


def test_only_what_metamanager_answers_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would take others out of the count again."""
    hive = Hive(Simulation())
    monkeypatch.setattr(hive, "broadcast", lambda *_: None)
    inbound, counted = Inbound(hive, LinkCounters(), NO_HOOKS), list[bool]()
    for group in ("twin", "resource"):
        inbound.received(encode(message("default/device/d", "update", {}, group=group)))
        counted.append(inbound.in_flight.bytes > 0)
    assert counted == [False, True]


def test_after_the_silence_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    hive, seen = Hive(Simulation()), list[Message]()
    monkeypatch.setattr(hive, "broadcast", lambda _, event: seen.append(event))
    inbound = Inbound(hive, LinkCounters(), NO_HOOKS)
    for _ in range(2):
        inbound.received(encode(message("default/pod/p", "update", {}, source="edgecontroller", group="resource")))
        inbound.silence()
    assert len(seen) == 1


def test_a_module_need_not_answer_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sync` is for the sender of a request on the bus."""
    hive, seen = Hive(Simulation()), list[Message]()
    monkeypatch.setattr(hive, "broadcast", lambda _, event: seen.append(event))
    sent = message("default/pod/p", "update", {}, source="edgecontroller", group="resource", sync=True)
    Inbound(hive, LinkCounters(), NO_HOOKS).received(encode(sent))
    assert [each.header.sync for each in seen] == [False]


def test_a_late_answer_ends_its_request_at_the_cloud_too() -> None:
    """Nobody waits for it; edgehub counts it as open until it is answered."""
    answered: list[str] = []
    hooks = LinkHooks(lambda: None, lambda _: None, lambda _: None, answered.append)
    inbound = Inbound(Hive(Simulation()), LinkCounters(), hooks)
    for operation in (Operation.RESPONSE, Operation.ERROR):
        late = message("default/pod/p", operation, {}, parent_msg_id=f"the {operation}", group="resource")
        inbound.received(encode(late))
    assert answered == ["the response"]


def test_a_request_whose_answer_is_too_large_is_answered_and_open_no_more() -> None:
    answered: list[str] = []
    hooks = LinkHooks(lambda: None, lambda _: None, lambda _: None, answered.append)
    inbound = Inbound(Hive(Simulation()), LinkCounters(), hooks)
    answer = message("default/secret/s", Operation.RESPONSE, parent_msg_id="question")
    inbound.skipped(encode(answer)[:300], 1 << 20)
    assert answered == ["question"]


@pytest.mark.parametrize("source", ["router_eventbus", "router_servicebus", "taskmanager"])
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_full_inbox_does_not_hold_up_the_link(source: str, *, is_asked: bool) -> None:
    """Behind the message are those for other modules, and the link's keepalives."""

    class Full(Module):
        name = source.removeprefix("router_")
        inbox_capacity = 1

        @handles()
        def take(self, _: Message) -> None:
            """Take nothing, as it is not started."""

    simulation = Simulation()
    hive = Hive(simulation)
    hive.add(Full)
    group = "taskmanager" if source == "taskmanager" else "user"
    sent = message("default/alarms", "publish", {}, source=source, group=group, sync=is_asked)
    inbound, began = Inbound(hive, LinkCounters(), NO_HOOKS), simulation.clock.monotonic()
    for _ in range(2):
        inbound.received(encode(sent.with_header(msg_id=simulation.clock.new_id())))
    assert (simulation.clock.monotonic(), len(hive.dead_letters)) == (began, 0)
    simulation.run_for(6.0)
    assert hive.dead_letters.counts[DropReason.INBOX_FULL] == 1


def test_the_end_of_a_link_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once more with each attempt to connect that fails afterwards."""
    hive, seen = Hive(Simulation()), list[str]()
    monkeypatch.setattr(hive, "members", lambda _: ("one",))
    monkeypatch.setattr(hive, "broadcast", lambda _, event: seen.append(event.content))
    inbound = Inbound(hive, LinkCounters(), NO_HOOKS)
    inbound.opened()
    inbound.ended(PeerClosedError(1000, "bye"))
    told = list(seen)
    inbound.ended(PeerClosedError(1000, "bye"))
    assert (seen, set(seen)) == (told, {"cloud_connected", "cloud_disconnected"})
