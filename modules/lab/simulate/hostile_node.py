"""A hostile node beside the honest ones."""

import json
import random
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from beehive.codec import decode, encode
from beehive.message import Message
from beehive.names import Group, ModuleName, Operation
from modules.apimachinery.application import PatchInfo, Target, Verb, application, message_of
from modules.apimachinery.kinds import JsonObject, ObjectKey, reporter_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.websocket.link import FrameReceived, LinkOpened
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.network import CloudListener
from modules.lab.simulate.world import World

NODE: Final = "mallory"
MARK: Final = "mallory-was-here"
_OWN_NODE: Final = ObjectKey("Node", "", NODE)
_INSIDE: Final = ("connected", "disconnected", "acknowledged", "call", "watch", "call", "call", "changed", "token")


class HostileNode:
    """A node that has joined and sends the cloud messages about other nodes' objects, one after another.

    Everything that it writes carries its mark. The invariants: its mark is on no object but its own, it receives
    nothing that only other nodes may read, no module of the cloud fails, and no object that users want disappears.

    Args:
        world: the world of the run.
        cloud: the cloud that it attacks.
        every: seconds between two messages.
    """

    def __init__(self, world: World, cloud: SimulatedCloud, every: float) -> None:
        self._world = world
        self._cloud = cloud
        self._every = every
        self._random = random.Random(f"{world.seed} hostile")  # noqa: S311 - reproducible on purpose
        self._listener: CloudListener | None = None
        self._link = _Link()
        self._there: set[tuple[str, str]] = set()
        """Kind and name of wanted objects that the cloud had at the last check."""
        cloud.hostile = NODE

    def start(self) -> None:
        """Schedule the first message."""
        self._world.at(self._every, self._act)

    def check(self) -> None:
        """Check the invariants; called now and then."""
        if self._cloud.hive is None:
            return
        for name, count in self._cloud.hive.restarts().items():
            if count:
                self._violated("no module of the cloud fails", f"{name} was started again")
        for key, obj in self._objects().items():
            if not _is_own(key, obj) and MARK in json.dumps(obj):
                self._violated("a node changes nothing of others", str(key))
        self._check_for_secrets()
        taken = self._cloud.accepted()
        for kind, name in sorted(self._there & taken):
            if self._cloud.find(kind, "default", name) is None:
                self._violated("a node deletes nothing of others", f"{kind} {name}")
        self._there = {(kind, name) for kind, name in taken if self._cloud.find(kind, "default", name) is not None}

    def _check_for_secrets(self) -> None:
        frames, self._link.frames = self._link.frames, []
        for frame in frames:
            for text in self._texts():
                if text in frame:
                    self._violated("a node reads nothing of others", f"{text!r} in {decode(frame).route.resource}")

    def _texts(self) -> list[bytes]:
        """Return the contents of secrets and configmaps, in clear and in base64."""
        wanted = [document for document in self._cloud.wanted.values() if document is not None]
        values = [(one.get("data") or one.get("stringData") or {}).get("key") for one in wanted]
        plain = [value.encode() for value in values if isinstance(value, str)]
        return [*plain, *(b64encode(value) for value in plain)]

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{NODE}: {text}")

    def _objects(self) -> dict[ObjectKey, JsonObject]:
        store = self._cloud.newest.storage
        return {key: obj for key in store if (obj := store.find(key)) is not None}

    def _act(self) -> None:
        """Send a message if the cloud is running, and schedule the next."""
        self._world.at(self._world.now() + self._every, self._act)
        listener, process = self._cloud.endpoint.listener, self._cloud.process
        if listener is None or process is None or not process.alive:
            return
        is_registered = self._cloud.newest.storage.find(_OWN_NODE) is not None
        made = self._made_up(process.clock) if is_registered else self._registration(process.clock)
        self._world.log_line(NODE, f"{made.route.operation} {made.route.resource} from {made.route.source}")
        process.run(partial(self._send, listener, [self._keepalive(process.clock), made]))

    def _send(self, listener: CloudListener, messages: list[Message]) -> None:
        """Deliver messages on a thread of the cloud's process, like a thread that reads a connection."""
        if self._listener is not listener or self._link.closed:
            self._listener, self._link = listener, _Link()
            listener.deliver(LinkOpened(NODE, self._link))
        for message in messages:
            listener.deliver(FrameReceived(NODE, self._link, decode(encode(message))))

    def _keepalive(self, clock: Any) -> Message:
        where = {"source": ModuleName.EDGEHUB, "group": Group.RESOURCE, "operation": Operation.KEEPALIVE}
        return Message.new(clock, resource="node", content="ping", **where)

    def _registration(self, clock: Any) -> Message:
        """Make the request for its Node object, which its mirror pods need."""
        where = {"source": "edged", "group": "meta", "operation": Operation.INSERT, "resource": f"null/node/{NODE}"}
        return Message.new(clock, content={"metadata": {"name": NODE}}, **where)

    def _made_up(self, clock: Any) -> Message:
        kinds: tuple[Callable[[Any], Message], ...] = (self._request, self._request, self._inside, self._application)
        return self._random.choice(kinds)(clock)

    def _victim(self) -> ObjectKey:
        keys = sorted(self._objects())
        return self._random.choice(keys) if keys else ObjectKey("Node", "", NODE)

    def _request(self, clock: Any) -> Message:
        """Make a request or report of an edge, often about another node's object."""
        key, draw = self._victim(), self._random
        kind = key.kind.lower()
        types = {"pod": ("pod", "podpatch", "podstatus"), "node": ("node", "nodepatch", "nodestatus")}.get(
            kind, (kind,)
        )
        named = draw.choice(types)
        usual = (Operation.QUERY, Operation.INSERT, Operation.UPDATE, Operation.DELETE)
        operation = Operation.PATCH if named.endswith("patch") else draw.choice(usual)
        content = self._content(key)
        if named.endswith("patch"):
            content = json.dumps(content)
        resource = f"{key.namespace or 'null'}/{named}/{draw.choice((key.name, key.name, MARK))}"
        return Message.new(clock, source="edged", group="meta", operation=operation, resource=resource, content=content)

    def _content(self, key: ObjectKey) -> Any:
        draw = self._random
        secret = next((one.name for one in sorted(self._objects()) if one.kind == "Secret"), "any")
        live = self._cloud.newest.storage.find(key) or {}
        meta: JsonObject = {"annotations": {CONFIG_MIRROR: MARK}, "labels": {MARK: "x"}}
        if key.kind == "Pod":
            uid = self._cloud.newest.storage.get(_OWN_NODE)["metadata"]["uid"]
            owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid, "controller": True}
            meta["ownerReferences"] = [owner]
        if draw.random() < 0.5:
            meta["uid"] = (live.get("metadata") or {}).get("uid")
        container = {"name": MARK, "image": MARK, "envFrom": [{"secretRef": {"name": secret}}]}
        spec = {"nodeName": draw.choice((NODE, "node-0")), "containers": [container], "holderIdentity": MARK}
        status = {"phase": "Failed", "message": MARK}
        choices: tuple[Any, ...] = (
            {"metadata": meta, "spec": spec, "status": status},
            {"metadata": {}, "status": status},
            {"Name": key.name, "Status": status},
            [{"Name": key.name, "Status": status}],
            {"gracePeriodSeconds": 0},
            {"involvedObject": {"kind": key.kind, "name": key.name, "namespace": "default"}, "message": MARK},
            {"spec": {"boundObjectRef": {"kind": "Pod", "name": key.name, "uid": meta.get("uid")}}},
            None,
        )
        return draw.choice(choices)

    def _inside(self, clock: Any) -> Message:
        """Make a message as the cloud's modules send each other."""
        draw, key = self._random, self._victim()
        source = draw.choice(("control", "cloudhub", "edgecontroller", "dynamiccontroller", "registrar", "x"))
        resource = draw.choice(("cloudcore/objects", "cloudhub/acknowledged", "node/node-0"))
        content = draw.choice(
            (
                {"kind": key.kind, "name": key.name},
                {"verb": "create", "api_version": "v1", "plural": "configmaps", "body": {"metadata": {"name": MARK}}},
                {"event_type": "", "timestamp": 0, "client_id": "node-0"},
                {"verb": "delete", "api_version": "v1", "plural": "pods", "namespace": "default", "name": key.name},
                [["node-0", "uid", 2**40, True]],
            )
        )
        group = draw.choice(("resource", "meta", "edgecontroller"))
        operation = draw.choice(_INSIDE)
        return Message.new(clock, source=source, group=group, operation=operation, resource=resource, content=content)

    def _application(self, clock: Any) -> Message:
        """Make a request as a metaserver sends it."""
        key, draw = self._victim(), self._random
        group = {"Lease": "coordination.k8s.io"}.get(key.kind, "")
        target = Target(group, "v1", key.kind.lower() + "s", key.namespace, draw.choice((key.name, "")))
        verb = draw.choice(list(Verb))
        body = json.dumps(self._content(key)).encode()
        option = b"{}"
        if verb is Verb.PATCH:
            media = "application/merge-patch+json"
            patch = PatchInfo(name=key.name, patch_type=media, data=body)
            option = bytes(Message(content=patch).content_raw())
        return message_of(application(target, verb, draw.choice((NODE, "node-0")), option, body), clock)


class _Link:
    """The cloud's end of the connection (`modules.cloud.websocket.link.Link`)."""

    is_behind = is_held_back = False

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.closed = False

    def send(self, frame: bytes) -> None:
        """Keep a frame."""
        self.frames.append(frame)

    def handled(self, size: int) -> None:
        """Do nothing: no frame waits for credit."""

    def close(self) -> None:
        """Mark the link as closed."""
        self.closed = True


def _is_own(key: ObjectKey, obj: JsonObject) -> bool:
    match key.kind:
        case "Node" | "Lease":
            return key.name == NODE
        case "Pod":
            return bool((obj.get("spec") or {}).get("nodeName") == NODE)
        case "CertificateSigningRequest":
            return bool((obj.get("spec") or {}).get("username") == f"system:node:{NODE}")
        case "Event":
            return reporter_of(obj) in ("", NODE)
    return False
