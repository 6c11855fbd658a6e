"""A replayed runtime's events come as they came, and its lists say what was at any moment."""

from collections.abc import Callable
from contextvars import copy_context

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from beehive.actor import Actor
from beehive.simulation import Simulation
from beehive.trace import CriCall, CriEvent
from beehive.trace_context import as_actor
from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import ConnectionClosedError, CriError, UnavailableError, UnimplementedError
from edged.cri.recording_events import ENDED, LISTENING, OPENED, StreamEnd
from edged.pods.labels import POD_UID
from modules.lab.replay.events import RecordedEvents
from modules.lab.replay.lists import RecordedLists
from modules.lab.replay.runtime import RecordedRuntime
from protos.cri.v1 import api_pb2 as pb

END = StreamEnd(UnavailableError.__name__, "GetContainerEvents", "UNAVAILABLE", "gone")


def event(time: float, kind: str, container: str = "", end: StreamEnd | None = None) -> CriEvent:
    """A record of the stream."""
    detail = msgspec.json.encode(end)
    if container:
        made = pb.ContainerEventResponse(container_id=container)
        detail = msgspec.json.encode(MessageToDict(made, preserving_proto_field_name=True))
    return CriEvent(time, 0, 0, 0, kind, container, detail)


class StreamPlayer(Actor):
    """Plays one stream after the other."""

    def __init__(self, events: RecordedEvents, seen: list[tuple[float, str]]) -> None:
        super().__init__()
        self._events = events
        self._events_seen = seen

    def on_receive(self, message: object) -> None:
        """Listen again."""
        try:
            self._events.play(lambda: self._note("opened"), lambda event: self._note(event.container_id))
        except CriError as error:
            self._note(type(error).__name__)
            self.actor_ref.tell(message)

    def _note(self, what: str) -> None:
        self._events_seen.append((self.clock.monotonic(), what))


def played(*records: CriEvent, streams: int = 2) -> list[tuple[float, str]]:
    """Return the played events with their times."""
    simulation, found = Simulation(), list[tuple[float, str]]()
    player = simulation.start(StreamPlayer, RecordedEvents(simulation, records), found)
    player.ref.tell("listen")
    simulation.run_for(100)
    simulation.close()
    return found[: len(records) + streams]


def test_each_stream_goes_as_it_went() -> None:
    records = (
        event(1.0, LISTENING), event(1.5, OPENED), event(2.0, "stopped", "a"), event(3.0, ENDED, end=END),
        event(5.0, LISTENING), event(6.0, OPENED), event(7.0, "stopped", "b"),
    )  # fmt: skip
    assert played(*records) == [
        (1.5, "opened"), (2.0, "a"), (3.0, "UnavailableError"), (6.0, "opened"), (7.0, "b"),
    ]  # fmt: skip


def test_the_next_stream_is_asked_for_when_it_was_then() -> None:
    """And never again when it was not: how soon edged does so is drawn by lot."""
    simulation = Simulation()
    ended = (event(1.0, ENDED, end=END), event(6.0, ENDED, end=END))
    events = RecordedEvents(simulation, [event(0.0, LISTENING), ended[0], event(5.0, LISTENING), ended[1]])
    for seconds in (4.0, 86400.0):
        with pytest.raises(UnavailableError):
            events.play(lambda: None, lambda _event: None)
        assert events.until_asked() == seconds


def test_a_run_from_before_there_were_events_has_no_events() -> None:
    with pytest.raises(UnimplementedError):
        RecordedEvents(Simulation(), [event(1.0, "changed", "pod")]).play(lambda: None, lambda _event: None)


def test_an_error_is_raised_as_it_was() -> None:
    simulation = Simulation()
    closed = StreamEnd(ConnectionClosedError.__name__, "GetContainerEvents", "CANCELLED", "closed")
    events = RecordedEvents(simulation, [event(0.0, LISTENING), event(0.0, ENDED, end=closed)])
    with pytest.raises(ConnectionClosedError, match="GetContainerEvents failed: closed"):
        events.play(lambda: None, lambda _event: None)


def listed(time: float, pod: str, **states: str) -> CriCall:
    """A list of a pod's containers, or of all; ids are the pod's name and a number."""
    selector = {"container_filter": {"label_selector": {POD_UID: pod}}} if pod else {"container_filter": None}
    items = [{"id": key, "state": f"CONTAINER_{state}", "labels": {POD_UID: key[0]}} for key, state in states.items()]
    answer = msgspec.json.encode(items)
    return CriCall(
        time, 0, 0, 0, "edged/Pleg", "list_containers", msgspec.json.encode(selector), answer, "", "", 0.0
    )  # fmt: skip


def states(lists: RecordedLists, now: float, pod: str = "") -> dict[str, str]:
    """What a list says."""
    answer = lists.at("list_containers", listed(0.0, pod).request, now)
    assert answer is not None
    return {item["id"]: item["state"].removeprefix("CONTAINER_") for item in msgspec.json.decode(answer)}


LISTS = RecordedLists(
    [listed(1.0, "", a1="RUNNING", b1="RUNNING"), listed(4.0, "a", a2="CREATED"), listed(9.0, "", b1="RUNNING")],
    [event(2.0, "stopped", "b1"), event(5.0, "started", "a2"), event(6.0, "deleted", "a2"), event(7.0, "stopped", "x")],
)


@pytest.mark.parametrize(
    ("now", "everything"),
    [
        (1.0, {"a1": "RUNNING", "b1": "RUNNING"}),
        (2.0, {"a1": "RUNNING", "b1": "EXITED"}),
        (4.5, {"a2": "CREATED", "b1": "EXITED"}),
        (5.5, {"a2": "RUNNING", "b1": "EXITED"}),
        (8.0, {"b1": "EXITED"}),
        (9.5, {"b1": "RUNNING"}),
    ],
)
def test_lists_are_put_together_from_seen_and_delivered_objects(now: float, everything: dict[str, str]) -> None:
    assert states(LISTS, now) == everything
    assert states(LISTS, now, "b") == {key: state for key, state in everything.items() if key[0] == "b"}


@pytest.mark.parametrize(("pod", "now", "since"), [("", 0.5, 0.0), ("a", 8.0, 4.5), ("b", 8.0, 4.0), ("", 8.0, 2.0)])
def test_where_nobody_has_looked_since_nothing_is_known(pod: str, now: float, since: float) -> None:
    assert LISTS.at("list_containers", listed(0.0, pod).request, now, since) is None


def test_the_last_and_the_next_event_are_known() -> None:
    assert [LISTS.changed_at("a2", now) for now in (4.0, 5.5, 8.0)] == [0.0, 5.0, 6.0]
    assert [LISTS.next_change_at("a2", now) for now in (4.0, 5.0, 8.0)] == [5.0, 6.0, float("inf")]


PLEG_LISTS = [listed(1.0, "a", a1="CREATED"), listed(2.01, "a", a1="RUNNING")]


@pytest.mark.parametrize(
    ("now", "told", "sees"),
    [
        (2.0, (), "RUNNING"),
        (2.0, (2.0,), "RUNNING"),
        (2.0, (2.005,), "CREATED"),
        (1.98, (), "CREATED"),
        (2.02, (), "RUNNING"),
    ],
    ids=("a moment before", "after the event", "before it", "long before", "a moment after"),
)
def test_the_recorded_pleg_sees_a_pod_a_moment_later_unless_an_event_comes_in_between(
    now: float, told: tuple[float, ...], sees: str
) -> None:
    events = [CriEvent(time, 0, 0, 0, "created", "a", b'{"container_id":"a1"}') for time in told]
    assert _pleg_sees(PLEG_LISTS, events, now) == [sees]


def test_the_pleg_does_not_see_the_state_before_the_change() -> None:
    """Its own recorded look came before the stop and went unused: the one after it counts, though it lies ahead."""
    stop = CriCall(1.1, 0, 0, 0, "edged/w", "stop_container", b'{"container_id":"a1"}', b"null", "", "", 0.1)
    calls = [listed(1.0, "a", a1="RUNNING"), stop, listed(1.3, "a", a1="EXITED")]
    assert _pleg_sees(calls, [], 1.05, lambda runtime: runtime.stop_container(ContainerId("a1"), 0)) == ["EXITED"]


def _pleg_sees(
    calls: list[CriCall],
    events: list[CriEvent],
    now: float,
    first: Callable[[ContainerRuntime], None] = lambda _runtime: None,
) -> list[str]:
    """The states in a list of pod `a`."""
    simulation, found = Simulation(), list[str]()
    runtime = RecordedRuntime(simulation, calls, lambda text: text, events).client()

    def look() -> None:
        answer = runtime.list_containers(pb.ContainerFilter(label_selector={POD_UID: "a"}))
        found.extend(pb.ContainerState.Name(item.state).removeprefix("CONTAINER_") for item in answer)

    simulation.run_for(now)
    first(runtime)
    copy_context().run(as_actor("edged/Pleg", look))
    return found


def test_a_list_with_another_filter_is_not_put_together() -> None:
    request = msgspec.json.encode({"container_filter": {"id": "a1"}})
    assert LISTS.at("list_containers", request, 5.0) is None
    assert LISTS.at("status", b"{}", 5.0) is None


@given(st.floats(1, 10), st.sampled_from("ab"))
def test_a_pods_list_is_its_part_of_the_whole_list(now: float, pod: str) -> None:
    assert states(LISTS, now, pod).items() <= states(LISTS, now).items()
