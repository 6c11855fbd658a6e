"""Traces made for tests: the way of a pod through a node as the recorder writes it, and many pods beside it."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from beehive.message import Header as MessageHeader
from beehive.message import Message, Route
from beehive.trace import (
    Change,
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Record,
    RecordedMessage,
    StoreCommit,
    TimerFired,
    TraceHeader,
)

BEGAN = 1_795_140_600.0
HEADER = TraceHeader(format=1, program="edgecore 0.1", node="lab-edge", began=BEGAN, seed=None, why="record")
SANDBOX_OF = "io.kubernetes.pod."


class Node:
    """Writes down what a node would have done. Every method appends one record and gives its span."""

    def __init__(self, random: Random | None = None) -> None:
        self.records: list[Record] = []
        self.time = 0.0
        self._spans = 0
        self._random = random or Random(1)  # noqa: S311

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.time += seconds

    def span(self) -> int:
        """A new number."""
        self._spans += 1
        return self._spans

    def frame(self, message: Message, direction: Direction = Direction.IN, cause: int = 0) -> int:
        """A frame of the link."""
        span = self.span()
        body = wire(message)
        self.records.append(LinkFrame(self.time, span, cause, 1, direction, 1, len(body), body))
        return span

    def deliver(
        self, message: Message, to: str, sender: str, cause: int = 0, outcome: str = "handled", reason: str = ""
    ) -> int:
        """A delivery on the bus, handled in about a millisecond."""
        span = self.span()
        depth = self._random.randrange(4)
        waited, handled = 2e-4 * (1 + depth) * self._random.random(), 1e-3 * self._random.random()
        self.time += waited + handled
        content = bytes(message.content_raw())
        kept = RecordedMessage.of(message, content)
        self.records.append(
            Delivered(self.time, span, cause, 1, sender, to, "send", outcome, reason, depth, waited, handled, kept)
        )
        return span

    def commit(self, key: str, cause: int) -> int:
        """A commit of one row."""
        span = self.span()
        self.time += 4e-3
        row = Change("put", key, "pod", b'{"metadata":{}}')
        self.records.append(StoreCommit(self.time, span, cause, 1, "commit", 4e-3, "", (row,)))
        return span

    def call(
        self, method: str, request: dict[str, Any], answer: Any, cause: int, seconds: float = 0.02, error: str = ""
    ) -> int:
        """A call of the container runtime."""
        span = self.span()
        self.time += seconds
        given = b"" if error else json.dumps(answer).encode()
        name, _, detail = error.partition(": ")
        self.records.append(
            CriCall(
                self.time, span, cause, 1, "edged", method, json.dumps(request).encode(), given, name, detail, seconds
            )
        )
        return span

    def timer(self, module: str, name: str, seconds: float, cause: int = 0) -> int:
        """A timer that fired."""
        span = self.span()
        fired = TimerFired(self.time, span, cause, 1, module, name, seconds, periodic=False, handled=5e-5)
        self.records.append(fired)
        return span

    def event(self, uid: str, kind: str, detail: Any) -> int:
        """What edged learnt from the runtime by itself."""
        span = self.span()
        self.records.append(CriEvent(self.time, span, 0, 1, kind, uid, json.dumps(detail).encode()))
        return span


def message(
    operation: str, resource: str, content: Any = None, *, ident: str, parent: str = "", source: str = "edgecontroller"
) -> Message:
    """A message with the given id."""
    header = MessageHeader(msg_id=ident, parent_msg_id=parent, timestamp=int(BEGAN * 1000))
    return Message(header, Route(source=source, group="resource", operation=operation, resource=resource), content)


def wire(what: Message) -> bytes:
    """A frame of it."""
    header = {"msg_id": what.id, "parent_msg_id": what.parent_id, "timestamp": what.header.timestamp}
    route = {
        "source": what.route.source,
        "group": what.route.group,
        "operation": what.route.operation,
        "resource": what.route.resource,
    }
    return json.dumps({"header": header, "route": route, "content": json.loads(bytes(what.content_raw()))}).encode()


def pod(name: str, uid: str, *, namespace: str = "default", deleted: bool = False) -> dict[str, Any]:
    """A pod with one container that takes a configmap."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
    if deleted:
        metadata |= {"deletionTimestamp": "2026-11-20T02:11:26Z", "deletionGracePeriodSeconds": 2}
    volumes = [{"name": "cm", "configMap": {"name": "settings"}}]
    containers = [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": "lab-edge", "containers": containers, "volumes": volumes},
        "status": {},
    }


def status(phase: str, *, waiting: tuple[str, str] | None = None, running: bool = False, restarts: int = 0) -> Any:
    """The status part of a report."""
    state: dict[str, Any] = {"running": {"startedAt": "2026-11-20T02:10:06Z"}} if running else {}
    if waiting:
        state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
    containers = [
        {
            "name": "web",
            "state": state,
            "ready": running,
            "restartCount": restarts,
            "image": "nginx:1.27",
            "imageID": "",
        }
    ]
    return {"phase": phase, "containerStatuses": containers}


def arrives(node: Node, name: str, uid: str, ident: str = "") -> int:
    """The cloud's pod comes: frame, metamanager, commit, edged; gives the span of edged's handling."""
    insert = message("insert", f"node/lab-edge/default/pod/{name}", pod(name, uid), ident=ident or f"insert-{uid}")
    frame = node.frame(insert)
    node.wait(1e-4)
    inside = insert.with_route(resource=f"default/pod/{name}")
    stored = node.deliver(inside, "metamanager", "websocket", frame)
    commit = node.commit(f"default/pod/{name}", stored)
    handled = node.deliver(inside, "edged", "metamanager", stored)
    answer = message("response", f"default/pod/{name}", "OK", ident=f"ack-{uid}", parent=inside.id)
    acknowledged = node.deliver(answer, "websocket", "metamanager", commit)
    node.frame(answer, Direction.OUT, acknowledged)
    return handled


def settings(node: Node, uid: str, cause: int, *, answered: bool = True) -> int:
    """edged asks for the configmap; gives the span of the answer's delivery (or of the question's)."""
    ask = message("query", "default/configmap/settings", None, ident=f"ask-{uid}", source="edged")
    asked = node.deliver(ask, "metamanager", "edged", cause)
    if not answered:
        return asked
    body = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"colour": "green"}}
    about = "default/configmap/settings"
    answer = message("response", about, body, ident=f"cm-{uid}", parent=ask.id, source="metamanager")
    return node.deliver(answer, "edged", "metamanager", asked)


def sandbox_labels(name: str, uid: str) -> dict[str, str]:
    """What CRI's objects of a pod carry."""
    return {f"{SANDBOX_OF}name": name, f"{SANDBOX_OF}namespace": "default", f"{SANDBOX_OF}uid": uid}


def starts(node: Node, name: str, uid: str, cause: int) -> int:
    """The runtime's calls up to a running container; gives the span of the last."""
    labels = sandbox_labels(name, uid)
    config = {"metadata": {"name": name, "uid": uid, "namespace": "default"}, "labels": labels}
    node.call("run_pod_sandbox", {"config": config, "runtime_handler": ""}, f"box-{uid}", cause, 0.08)
    node.call("image_status", {"image": {"image": "nginx:1.27"}}, {"id": "sha256:1"}, cause, 0.003)
    named = {**labels, "io.kubernetes.container.name": "web"}
    create = {"sandbox_id": f"box-{uid}", "config": {"metadata": {"name": "web"}, "labels": named}}
    node.call("create_container", create, f"run-{uid}", cause, 0.03)
    return node.call("start_container", {"container_id": f"run-{uid}"}, None, cause, 0.05)


def reports(node: Node, name: str, uid: str, reported: Any, cause: int, count: int = 1) -> int:
    """A status goes up to the cloud; gives the span of the frame."""
    patch = json.dumps({"metadata": {"uid": uid}, "status": reported})
    resource = f"default/podpatch/{name}"
    up = message("patch", resource, patch, ident=f"patch-{uid}-{count}", source="edged")
    kept = node.deliver(up, "metamanager", "edged", cause)
    sent = node.deliver(up, "websocket", "metamanager", kept)
    return node.frame(up, Direction.OUT, sent)


def running_pod(node: Node, name: str, uid: str) -> None:
    """Everything from the frame to the reported status."""
    handled = arrives(node, name, uid)
    answered = settings(node, uid, handled)
    node.wait(0.01)
    starts(node, name, uid, answered)
    node.wait(0.3)
    change = node.event(uid, "container-started", {"id": f"run-{uid}"})
    reports(node, name, uid, status("Running", running=True), change)


def busy_node(count: int, seed: int = 7) -> Iterator[Record]:
    """At least `count` records: pods, heartbeats, some failures."""
    random = Random(seed)  # noqa: S311
    node = Node(random)
    number = 0
    while number < count:
        node.records.clear()
        uid = f"{random.getrandbits(128):032x}"
        running_pod(node, f"pod-{number}", uid)
        lease = message("update", "kube-node-lease/lease/lab-edge", {"spec": {}}, ident=uid[::-1], source="edged")
        fired = node.timer("edged", "NodeWatch.beat", 10.0)
        failed = random.random() < 0.02
        ending = ("dropped", "inbox full") if failed else ("handled", "")
        node.deliver(lease, "metamanager", "edged", fired, *ending)
        if random.random() < 0.03:
            node.call("stop_container", {"container_id": uid}, None, fired, 0.5, "UnavailableError: no answer in 0.5 s")
        node.wait(random.expovariate(2))
        number += len(node.records)
        yield from node.records
