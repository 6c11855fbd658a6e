"""Traces in the forms of other programs."""

import json
from typing import Any

from modules.processes.edgecore.trace.events import events_of
from modules.processes.edgecore.trace.mermaid import mermaid
from modules.processes.edgecore.trace.perfetto import perfetto
from tests.modules.processes.edgecore.trace.made import BEGAN, Node, message, running_pod


def exported(node: Node) -> list[dict[str, Any]]:
    """What Perfetto reads."""
    file = json.loads(b"".join(perfetto(events_of(node.records), "lab-edge", BEGAN)))
    assert file["otherData"] == {"node": "lab-edge", "began": BEGAN}
    events: list[dict[str, Any]] = file["traceEvents"]
    return events


def test_every_lane_is_a_named_thread_in_order() -> None:
    """The cloud above, the store below."""
    node = Node()
    running_pod(node, "web", "u1")
    events = exported(node)
    order = {event["tid"]: event["args"]["sort_index"] for event in events if event["name"] == "thread_sort_index"}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    ordered = [names[thread] for thread in sorted(order, key=order.__getitem__)]
    lanes = ["cloud", "edgehub", "metamanager", "edged", "runtime (CRI)", "store"]
    assert list(dict.fromkeys(ordered)) == lanes
    assert {event["tid"] for event in events if event["ph"] == "X"} <= set(names)


def test_arrows_begin_and_end_in_slices() -> None:
    """An arrow whose ends are in no slice is not drawn."""
    node = Node()
    running_pod(node, "web", "u1")
    events = exported(node)
    slices = {(event["tid"], event["ts"]) for event in events if event["ph"] == "X"}
    ends = [event for event in events if event["ph"] in "sf"]
    assert ends
    assert all((event["tid"], event["ts"]) in slices for event in ends)
    assert {event["id"] for event in ends if event["ph"] == "s"} == {
        event["id"] for event in ends if event["ph"] == "f"
    }


def test_slices_of_a_thread_do_not_cross() -> None:
    """What goes on at the same time stands in threads of its own."""
    node = Node()
    for name in ("a", "b", "c"):
        node.call("pull_image", {"image": {"image": name}}, "x", 0, 5.0)
        node.time -= 4.0
    pulls = [event for event in exported(node) if event["ph"] == "X" and event["name"].startswith("pull_image")]
    assert len({event["tid"] for event in pulls}) == 3


def test_the_message_is_beside_its_slice() -> None:
    """With its id and how it ended."""
    node = Node()
    late = message("update", "default/pod/web", {"a": 1}, ident="m1")
    node.deliver(late, "edged", "metamanager", 0, "dropped", "inbox full")
    (handled,) = [event for event in exported(node) if event["ph"] == "X" and not event["name"].startswith("send")]
    reported = handled["args"]
    assert (reported["id"], reported["outcome"], reported["reason"]) == ("m1", "dropped", "inbox full")
    assert json.loads(reported["body"])["content"] == {"a": 1}


def test_a_sequence_diagram() -> None:
    """Answers are dashed, failures end in a cross, pauses are notes."""
    node = Node()
    ask = message("query", "default/configmap/a", None, ident="q", source="edged")
    node.deliver(ask, "metamanager", "edged")
    answer = message("response", "default/configmap/a", "OK", ident="r", parent="q")
    node.deliver(answer, "edged", "metamanager")
    node.wait(60)
    node.deliver(ask, "metamanager", "edged", 0, "dropped", "inbox full")
    lines = list(mermaid(events_of(node.records)))
    assert lines[:3] == ["sequenceDiagram", "    participant L0 as metamanager", "    participant L1 as edged"]
    assert lines[3].startswith("    L1->>L0: query default/configmap/a")
    assert lines[4].startswith("    L0-->>L1: response default/configmap/a")
    assert lines[5] == "    Note over L0,L1: 60 s later"
    assert lines[6].startswith("    L1-xL0: query default/configmap/a")
    assert lines[6].endswith("dropped inbox full")


def test_a_long_diagram_counts_its_omissions() -> None:
    """Nobody reads a thousand arrows."""
    node = Node()
    for number in range(30):
        running_pod(node, f"web-{number}", f"u{number}")
    lines = list(mermaid(events_of(node.records), 50))
    assert lines[-1].endswith(f": {len(node.records) - 50} more are left out")


def test_no_name_can_break_a_diagram() -> None:
    """Characters that mean something to Mermaid are written as entities."""
    node = Node()
    node.deliver(message("update", "a;b\nc#d", {}, ident="m"), "edged", "meta<b>")
    assert "update a#59;b c#35;d" in "\n".join(mermaid(events_of(node.records)))


def test_an_empty_trace_is_an_empty_diagram() -> None:
    """And an empty file for Perfetto is still one."""
    assert list(mermaid([])) == ["sequenceDiagram"]
    assert [event["name"] for event in exported(Node())] == ["process_name"]
