"""A node that has joined and means harm, beside the honest ones: it says what it likes about what is theirs.

Whatever it writes carries its mark. What must hold: its mark is on nothing but its own, it is told nothing of what only
others may read, no module of the cloud fails, and nothing that people want goes away, however the honest nodes fare.
"""

import json
import random
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from beehive.codec import decode, encode
from beehive.message import Message
from beehive.names import Group, ModuleName, Operation
from metamanager.application import PatchInfo, Target, Verb, application, message_of
from modules.cloudhub.link import FrameCame, LinkOpened
from modules.edgecontroller.kinds import JsonObject, ObjectKey, reporter_of
from modules.simulate.cloud import SimulatedCloud
from modules.simulate.network import Door
from modules.simulate.world import World

NODE: Final = "mallory"
MARK: Final = "mallory-was-here"
_MIRROR: Final = "kubernetes.io/config.mirror"
_INSIDE: Final = ("connected", "disconnected", "acknowledged", "apply", "remove", "get", "call", "changed", "token")


class HostileNode:
    """Sends the cloud one message after another, and checks what must hold whatever they say.

    Args:
        world: where it is.
        cloud: whom it attacks.
        every: seconds from one of its messages to the next.
    """

    def __init__(self, world: World, cloud: SimulatedCloud, every: float) -> None:
        self._world = world
        self._cloud = cloud
        self._every = every
        self._random = random.Random(f"{world.seed} hostile")  # noqa: S311 - reproducible on purpose
        self._door: Door | None = None
        self._link = _Link()
        self._there: set[tuple[str, str]] = set()
        """What people wanted and the cloud had taken, at the last look."""

    def start(self) -> None:
        """Begin, once the cloud is there."""
        self._world.at(self._every, self._act)

    def look(self) -> None:
        """Check what must hold; called now and then."""
        if self._cloud.hive is None:
            return
        for name, count in self._cloud.hive.restarts().items():
            if count:
                self._violated("no module of the cloud fails", f"{name} was started again")
        for key, obj in self._objects().items():
            if not _is_own(key, obj) and MARK in json.dumps(obj):
                self._violated("a node changes nothing of others", str(key))
        self._look_for_secrets()
        taken = self._cloud.taken()
        for kind, name in sorted(self._there & taken):
            if self._cloud.find(kind, "default", name) is None:
                self._violated("a node deletes nothing of others", f"{kind} {name}")
        self._there = {(kind, name) for kind, name in taken if self._cloud.find(kind, "default", name) is not None}

    def _look_for_secrets(self) -> None:
        frames, self._link.frames = self._link.frames, []
        for frame in frames:
            for text in self._texts():
                if text in frame:
                    self._violated("a node reads nothing of others", f"{text!r} in {decode(frame).route.resource}")

    def _texts(self) -> list[bytes]:
        """What secrets and configmaps hold, in clear and in base64."""
        wanted = [document for document in self._cloud.wanted.values() if document is not None]
        values = [(one.get("data") or one.get("stringData") or {}).get("key") for one in wanted]
        plain = [value.encode() for value in values if isinstance(value, str)]
        return [*plain, *(b64encode(value) for value in plain)]

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{NODE}: {text}")

    def _objects(self) -> dict[ObjectKey, JsonObject]:
        store = self._cloud.cluster.store
        return {key: obj for key in store if (obj := store.find(key)) is not None}

    def _act(self) -> None:
        """Say something, if the cloud is there, and again later."""
        self._world.at(self._world.now() + self._every, self._act)
        door, process = self._cloud.lines.door, self._cloud.process
        if door is None or process is None or not process.alive:
            return
        made = self._made_up(process.clock)
        self._world.note(NODE, f"{made.route.operation} {made.route.resource} from {made.route.source}")
        process.run(partial(self._say, door, [self._keepalive(process.clock), made]))

    def _say(self, door: Door, messages: list[Message]) -> None:
        """On a thread of the cloud's process, as one that reads a connection."""
        if self._door is not door or self._link.closed:
            self._door, self._link = door, _Link()
            door.deliver(LinkOpened(NODE, self._link))
        for message in messages:
            door.deliver(FrameCame(NODE, self._link, decode(encode(message))))

    def _keepalive(self, clock: Any) -> Message:
        where = {"source": ModuleName.EDGEHUB, "group": Group.RESOURCE, "operation": Operation.KEEPALIVE}
        return Message.new(clock, resource="node", content="ping", **where)

    def _made_up(self, clock: Any) -> Message:
        kinds: tuple[Callable[[Any], Message], ...] = (self._request, self._request, self._inside, self._application)
        return self._random.choice(kinds)(clock)

    def _victim(self) -> ObjectKey:
        keys = sorted(self._objects())
        return self._random.choice(keys) if keys else ObjectKey("Node", "", NODE)

    def _request(self, clock: Any) -> Message:
        """What an edge asks or reports, about somebody else's object as often as not."""
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
        live = self._cloud.cluster.store.find(key) or {}
        meta: JsonObject = {"annotations": {_MIRROR: MARK}, "labels": {MARK: "x"}}
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
        """What modules of the cloud say to each other."""
        draw, key = self._random, self._victim()
        source = draw.choice(("control", "cloudhub", "edgecontroller", "dynamiccontroller", "registrar", "x"))
        resource = draw.choice(("cloudcore/objects", "cloudhub/acknowledged", "node/node-0"))
        content = draw.choice(
            (
                {"kind": key.kind, "name": key.name},
                {"documents": [{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": MARK}}]},
                {"event_type": "", "timestamp": 0, "client_id": "node-0"},
                {"verb": "delete", "api_version": "v1", "plural": "pods", "namespace": "default", "name": key.name},
                [["node-0", "uid", 2**40, True]],
            )
        )
        group = draw.choice(("resource", "meta", "edgecontroller"))
        operation = draw.choice(_INSIDE)
        return Message.new(clock, source=source, group=group, operation=operation, resource=resource, content=content)

    def _application(self, clock: Any) -> Message:
        """What its metaserver asks."""
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
    """The cloud's end of its connection (`modules.cloudhub.link.Link`)."""

    is_behind = False

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.closed = False

    def send(self, frame: bytes) -> None:
        """See `Link`."""
        self.frames.append(frame)

    def handled(self, size: int) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """See `Link`."""
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
