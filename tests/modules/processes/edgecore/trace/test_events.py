"""Records become events that say from where, to where and what."""

import msgspec
import pytest

from beehive.trace import Change, CriCall, Note, NoteKind, StoreCommit
from edged.cri.contract import SERVER_ACTOR
from modules.processes.edgecore.trace.event import CLOUD, NO_CAUSE, RUNTIME, STORE, EventKind, causes_of, in_order
from modules.processes.edgecore.trace.events import event_of, events_of
from modules.processes.edgecore.trace.names import named
from tests.modules.processes.edgecore.trace.made import HEADER, Node, message, running_pod


def test_a_header_is_no_event() -> None:
    """What describes the trace happened nowhere."""
    assert event_of(HEADER) is None


def test_the_way_of_a_pod_goes_from_lane_to_lane() -> None:
    """Cloud, edgehub, metamanager, store, edged, runtime, and back."""
    node = Node()
    running_pod(node, "web", "u1")
    ways = [(event.source, event.target, event.verb) for event in events_of(node.records)]
    assert ways[:4] == [
        (CLOUD, "websocket", "insert"),
        ("websocket", "metamanager", "insert"),
        ("metamanager", STORE, "commit"),
        ("metamanager", "edged", "insert"),
    ]
    assert ("edged", RUNTIME, "start_container") in ways
    assert ways[-1] == ("websocket", CLOUD, "patch")


def test_a_delivery_is_sent_then_taken_then_done() -> None:
    """The time in the inbox and the time in the handler stand apart."""
    node = Node()
    node.wait(5)
    node.deliver(message("update", "default/pod/a", {}, ident="m"), "edged", "metamanager")
    (event,) = events_of(node.records)
    assert 5 <= event.sent <= event.taken <= event.end == node.time


def test_a_resource_is_without_its_node() -> None:
    """The cloud's name of an object and the edge's are the same object."""
    node = Node()
    node.frame(message("update", "node/lab-edge/default/pod/a", {}, ident="m"))
    (event,) = events_of(node.records)
    assert event.about == "default/pod/a"


def test_a_frame_that_is_no_message_is_still_an_event() -> None:
    """What a broken peer sends must be seen."""
    node = Node()
    node.frame(message("update", "a/b/c", {}, ident="m"))
    broken = msgspec.structs.replace(node.records[0], frame=b'"hash"')
    (event,) = events_of([broken])
    assert (event.verb, event.about, event.body) == ("frame", "", b'"hash"')


def test_a_call_of_the_runtime_names_pod_and_container() -> None:
    """By the labels that kubelets put on containers; by image or id without labels."""
    labels = b'{"config":{"labels":{"io.kubernetes.pod.name":"a","io.kubernetes.pod.namespace":"n"'
    cases = {
        labels + b',"io.kubernetes.container.name":"c"}}}': "n/pod/a c",
        labels + b"}}}": "n/pod/a",
        b'{"image":{"image":"busybox"}}': "busybox",
        b'{"container_id":"abc"}': "abc",
        b"[]": "",
        b"redacted": "",
    }
    for request, desired in cases.items():
        event = event_of(CriCall(1.0, 1, 0, 1, "edged", "stop_container", request, b"", "", "", 0.5))
        assert event is not None
        assert (event.about, event.sent, event.end) == (desired, 0.5, 1.0)


def test_too_deeply_nested_contents_are_events_without_a_subject() -> None:
    """An application's message can be so, and ended the explanation of its node's whole trace."""
    deep = b'{"x":' * 100_000 + b"1" + b"}" * 100_000
    call = CriCall(1.0, 1, 0, 1, "edged", "create_container", deep, deep, "", "", 0.1)
    commit = StoreCommit(1.0, 2, 0, 2, "commit", 0.1, "", (Change("put", "ns/pod/a", "pod", deep, ""),))
    events = list(named(events_of([call, commit])))
    assert [each.verb for each in events] == ["create_container", "commit"]
    assert events[0].about == ""


def test_a_failed_call_is_marked() -> None:
    """Its body has the error where the answer would be."""
    event = event_of(CriCall(1.0, 1, 0, 1, "", "pull_image", b"{}", b"", "NotFoundError", "no such image", 0.5))
    assert event is not None
    assert event.failed
    assert msgspec.json.decode(event.body)["error"] == "NotFoundError: no such image"


def test_a_failed_commit_is_marked() -> None:
    """A full disk is no detail."""
    event = event_of(StoreCommit(1.0, 1, 0, 1, "commit", 0.1, "disk full", ()))
    assert event is not None
    assert (event.failed, event.reason) == (True, "disk full")


def test_a_line_of_a_foreign_capture_goes_its_way() -> None:
    """Between cloud and edgehub, as the frames beside it."""
    note = Note(1.0, 0, 0, 0, NoteKind.FOREIGN, "", "https http-request", {"dir": "edge->cloud"})
    event = event_of(note)
    assert event is not None
    assert (event.source, event.target, event.kind) == ("websocket", CLOUD, EventKind.NOTE)


def test_lanes_follow_the_way_of_a_pod() -> None:
    """Others by name, the runtime and the store last."""
    names = {"store", "edged", "cri", "cloud", "twin", "eventbus", "metamanager", "websocket"}
    desired = ["cloud", "websocket", "metamanager", "edged", "eventbus", "twin", "cri", "store"]
    assert in_order(names) == desired


@pytest.mark.parametrize("sender", ["edged/worker-1", "caller", "hook", SERVER_ACTOR, ""])
def test_who_calls_the_runtime_is_edged(sender: str) -> None:
    """A lane for each of its threads would be empty, as nothing is ever sent to them."""
    call = CriCall(1.0, 1, 0, 1, sender, "stop_container", b"{}", b"{}", "", "", 0.1)
    (event,) = events_of([call])
    assert (event.source, event.target) == ("edged", "cri")
    assert event.route == (f"from {sender}" if sender else "")


def test_causes_are_found_by_number() -> None:
    """From the status that went up back to the frame that began it."""
    node = Node()
    running_pod(node, "web", "u1")
    events = sorted(events_of(node.records), key=lambda event: event.sent)
    causes = causes_of(events)
    start = next(place for place, event in enumerate(events) if event.verb == "start_container")
    chain = []
    while start != NO_CAUSE:
        chain.append(events[start].verb)
        start = causes[start]
    assert chain == ["start_container", "response", "query", "insert", "insert", "insert"]


def test_without_numbers_an_answer_comes_from_its_request() -> None:
    """Captures from elsewhere have nothing but ids."""
    node = Node()
    node.frame(message("query", "n/configmap/a", None, ident="q"))
    node.frame(message("response", "n/configmap/a", "OK", ident="r", parent="q"))
    events = [msgspec.structs.replace(event, span=0) for event in events_of(node.records)]
    assert causes_of(events) == [NO_CAUSE, 0]


def test_ids_are_named_once_the_runtime_has_given_them() -> None:
    """By the answer of who made them, or by a list."""
    node = Node()
    node.call("start_container", {"container_id": "run-u1"}, None, 0)
    running_pod(node, "web", "u1")
    labels = {"io.kubernetes.pod.name": "a", "io.kubernetes.pod.namespace": "n", "io.kubernetes.container.name": "c"}
    node.call("list_containers", {}, [{"id": "old", "labels": labels}], 0)
    node.call("remove_container", {"container_id": "old"}, None, 0)
    found = [
        event.about for event in named(events_of(node.records)) if event.verb in ("start_container", "remove_container")
    ]
    assert found == ["run-u1", "default/pod/web web", "n/pod/a c"]
