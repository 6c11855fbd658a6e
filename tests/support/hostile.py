"""A whole cloud in virtual time with two nodes: a hostile one with generated frames, and its honest neighbour."""

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from beehive.codec import decode, encode
from beehive.errors import FrameError
from beehive.message import Message
from beehive.names import Operation, ResourceType
from beehive.testing import Harness
from modules.apimachinery.application import Application, PatchInfo, Target, Verb, key_of
from modules.apimachinery.kinds import KINDS, JsonObject, ObjectKey, kind_named, reporter_of
from modules.apimachinery.kinds import key_of as key_of_object
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.dynamiccontroller.module import DynamicController
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.websocket.link import FrameReceived, LinkEvent, LinkOpened
from tests.modules.cloud.authorization.world import ME, NEIGHBOUR, all_objects
from tests.modules.cloud.edgecontroller.controller import add_api_server
from tests.modules.cloud.objects import in_memory_states

GOLD = (b"their-gold", b"dGhlaXItZ29sZA")
"""Values of the neighbour's secrets and configmaps, in clear and in base64: no frame to the hostile node has them."""


class ListLink:
    """Link that keeps its frames in a list."""

    is_behind = is_held_back = False

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)

    def handled(self, size: int) -> None:
        """Do nothing: this link has no window."""

    def close(self) -> None:
        """Do nothing."""


class Field:
    """The cloud's modules on a hive in virtual time, and a link to each of the two nodes."""

    def __init__(self, bee: Harness) -> None:
        self.bee = bee
        self.cluster = Cluster(bee.clock)
        self._deliver: Callable[[LinkEvent], None] | None = None
        bee.add(EdgeController, add_api_server(bee, self.cluster), in_memory_states())
        bee.add(CloudHub, CloudHubSettings(keepalive_interval=1e9), self._make_transport, {})
        bee.add(DynamicController)
        bee.start()
        self.evil, self.honest = ListLink(), ListLink()
        self._happens(LinkOpened(ME, self.evil))
        self._happens(LinkOpened(NEIGHBOUR, self.honest))
        for obj in all_objects():
            command = bee.message("cloudcore/objects", "call", _applying(obj), source="control")
            bee.ask(ApiServer.name, command)
        bee.settle()

    def start(self) -> None:
        """Do nothing (transport)."""

    def stop(self) -> None:
        """As a transport."""

    def says(self, frame: bytes, node: str = ME) -> None:
        """Send a frame as the hostile node; the server drops a frame that it cannot decode."""
        link = self.evil if node == ME else self.honest
        try:
            message = decode(frame)
        except FrameError:
            return
        self._happens(FrameReceived(node, link, message))

    def foreign(self) -> dict[str, JsonObject]:
        """Return all objects but the hostile node's: its Node, its Lease, its pods, its requests and events."""
        objects = self.cluster.storage._objects
        return {str(key): deepcopy(obj) for key, obj in objects.items() if not self._is_own(key, obj)}

    def honest_is_served(self) -> bool:
        """Return whether the neighbour receives an answer to a request."""
        question = self.bee.message("default/secret/their-secret", "query", source="edged", group="meta")
        self.honest.frames.clear()
        self.says(encode(question), NEIGHBOUR)
        answers = [decode(frame) for frame in self.honest.frames]
        return any(one.parent_id == question.id and GOLD[1] in bytes(one.content_raw()) for one in answers)

    def _make_transport(self, deliver: Callable[[LinkEvent], None]) -> "Field":
        self._deliver = deliver
        return self

    def _happens(self, event: LinkEvent) -> None:
        assert self._deliver is not None
        self._deliver(event)
        self.bee.settle()

    def _is_own(self, key: ObjectKey, obj: JsonObject) -> bool:
        match key.kind:
            case "Node" | "Lease":
                return key.name == ME and key.namespace in ("", "kube-node-lease")
            case "Pod":
                return bool(obj["spec"].get("nodeName") == ME)
            case "CertificateSigningRequest":
                return bool(obj["spec"].get("username") == f"system:node:{ME}")
            case "Event":
                return reporter_of(obj) in ("", ME)
        return False


SOURCES = ("edged", "metamanager", "metaManager", "metaserver", "twin", "control", "cloudhub", "edgecontroller",
           "dynamiccontroller", "registrar", "websocket", "", "system:node:n2")  # fmt: skip
GROUPS = ("meta", "resource", "dynamiccontroller", "edgecontroller", "cloudhub", "control", "twin", "user", "hub", "")
OPERATIONS = (
    *(operation.value for operation in Operation),
    "call", "watch", "changed", "acknowledged", "token", "null", "",
)  # fmt: skip
TYPES = (*(kind.value for kind in ResourceType), "pods", "secrets", "namespace", "serviceaccount", "acknowledged", "x")
NAMESPACES = ("default", "null", "kube-node-lease", "kube-system", "finance", "node", "")
_PARTS = ("pod", "secret", "volume-secret", "config", "account", "volume", "claim", "attachment", "event", "request")
NAMES = (
    "n1",
    "n2",
    "n3",
    "new-pod",
    "new-event",
    "new-request",
    *(f"mine-{part}" for part in _PARTS),
    *(f"their-{part}" for part in _PARTS),
)
WORDS: tuple[Any, ...] = (
    *NAMES,
    "",
    None,
    0,
    -1,
    2**63,
    True,
    [],
    {},
    "their-word",
    "a/b",
    "node-role.kubernetes.io/x",
)


def made_up(random: Random) -> bytes:
    """Return a well-formed frame of an edge with a random request; sometimes a malformed one."""
    usual = random.random() < 0.7
    namespace, kind, name = _place(random)
    resource = random.choice((f"{namespace}/{kind}/{name}", f"{namespace}/{kind}", f"node/n2/{namespace}/{kind}/{name}",
                              "cloudcore/objects", "cloudhub/acknowledged", "node/n2"))  # fmt: skip
    source, group = ("edged", "meta") if usual else (random.choice(SOURCES), random.choice(GROUPS))
    operation = random.choice(OPERATIONS[:6]) if usual else random.choice(OPERATIONS)
    if usual:
        resource = f"{namespace}/{kind}/{name}"
    content: Any = _content(random, name)
    if random.random() < 0.3:
        source, group, operation, resource = "metaserver", "dynamiccontroller", "null", "null"
        return _frame(random, source, group, operation, resource, _application(random, name))
    if kind in (ResourceType.PODPATCH, ResourceType.NODEPATCH) and random.random() < 0.8:
        operation, content = "patch", json.dumps(content)
    return _frame(random, source, group, operation, resource, content)


_FITTING = {
    "pod": ("pod", "podpatch", "podstatus"),
    "config": ("configmap",),
    "account": ("serviceaccounttoken",),
    "volume": ("persistentvolume",),
    "claim": ("persistentvolumeclaim",),
    "attachment": ("volumeattachment",),
    "event": ("event",),
    "request": ("certificatesigningrequest",),
}


def _place(random: Random) -> tuple[str, str, str]:
    """Return namespace, type and name, mostly of an existing object."""
    name = random.choice(NAMES)
    if random.random() < 0.2:
        return random.choice(NAMESPACES), random.choice(TYPES), name
    part = name.partition("-")[2]
    if not part:
        kind = random.choice(("node", "nodepatch", "nodestatus", "lease"))
        return ("kube-node-lease" if kind == "lease" else "null"), kind, name
    return "default", random.choice(_FITTING.get(part, ("secret",))), name


def _frame(random: Random, source: str, group: str, operation: str, resource: str, content: Any) -> bytes:
    header = {"msg_id": f"{random.getrandbits(64):x}", "timestamp": 1, "sync": random.random() < 0.1}
    if random.random() < 0.1:
        header["parent_msg_id"] = f"{random.getrandbits(64):x}"
    route = {"source": source, "group": group, "operation": operation, "resource": resource}
    return json.dumps({"header": header, "route": route, "content": content}).encode()


def _content(random: Random, name: str) -> Any:
    whose = random.choice(("mine", "their"))
    node = random.choice((ME, NEIGHBOUR))
    meta: JsonObject = {"name": name if random.random() < 0.8 else random.choice(NAMES)}
    if random.random() < 0.3:
        meta["uid"] = random.choice(WORDS)
    labels = {"a": "x", "node-role.kubernetes.io/x": "", "kubernetes.io/config.mirror": "x"}
    meta |= {random.choice(("labels", "annotations")): dict([random.choice(list(labels.items()))])}
    container = {"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": f"{whose}-secret"}}]}
    volumes = [{"name": "v", "projected": {"sources": [{"configMap": {"name": f"{whose}-config"}}]}}]
    spec = {"nodeName": node, "containers": [container], "volumes": volumes, "holderIdentity": node, "taints": []}
    bound = {"kind": "Pod", "apiVersion": "v1", "name": f"{whose}-pod", "uid": random.choice(WORDS)}
    choices: tuple[Any, ...] = (
        {"metadata": meta, "spec": spec, "status": {"phase": "Failed"}},
        {"metadata": meta, "spec": {"boundObjectRef": bound}},
        {"metadata": {"name": name}, "spec": {**spec, "containers": [{"name": "c", "image": "i"}], "volumes": []}},
        {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": f"{whose}-pod", "namespace": "default"}},
        {"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": random.choice(WORDS)}]}},
        {"Name": f"{whose}-pod", "UID": random.choice(WORDS), "Status": {"phase": "Failed"}},
        [{"Name": f"{whose}-pod", "Status": {"phase": "Failed"}}],
        {"Status": {"phase": "x"}, "ExtendResources": {"a": [{"name": "x"}]}},
        {"gracePeriodSeconds": random.choice(WORDS), "preconditions": {"uid": random.choice(WORDS)}},
        {"event_type": "disconnected", "timestamp": 0, "client_id": NEIGHBOUR, "connection": random.choice(WORDS)},
        [[NEIGHBOUR, "uid", 2**40, random.random() < 0.5]],
        {"verb": "get", "api_version": "v1", "plural": "secrets", "namespace": "default", "name": "their-secret"},
        {"verb": "list", "api_version": "v1", "plural": "secrets", "node": NEIGHBOUR},
        {random.choice(("metadata", "spec", "status")): random.choice(WORDS)},
        random.choice(WORDS),
    )
    content = random.choice(choices)
    if isinstance(content, dict) and random.random() < 0.2:
        content = {**content, random.choice(("metadata", "spec", "status", "kind", "$patch")): random.choice(WORDS)}
    return content


def _application(random: Random, name: str) -> Any:
    fitting = [kind for kind in KINDS if kind.singular == _place_of(name)]
    kind = random.choice(fitting if fitting and random.random() < 0.8 else KINDS)
    group, slash, version = kind.api_version.partition("/")
    plural = random.choice((kind.plural, kind.plural, "deployments"))
    namespace = "default" if random.random() < 0.8 else random.choice(NAMESPACES)
    called = random.choice((name, name, ""))
    subresource = random.choice(("", "", "", "status", "exec"))
    target = Target(group if slash else "", version or group, plural, namespace, called, subresource)
    verb = random.choice(list(Verb))
    body = json.dumps(_content(random, name)).encode()
    option = json.dumps({"fieldSelector": f"spec.nodeName={random.choice((ME, NEIGHBOUR))}"}).encode()
    if verb is Verb.PATCH:
        media = random.choice(_PATCHES)
        if media == JSON_PATCH:
            body = json.dumps(_json_patch(random)).encode()
        options = {"dryRun": ["All"]} if random.random() < 0.1 else {}
        option = json.dumps(_builtins(PatchInfo(name=name, patch_type=media, data=body, options=options))).encode()
    node = random.choice((ME, NEIGHBOUR))
    app = Application(key=key_of(target), verb=verb, nodename=node, option=option, req_body=body,
                      subresource=subresource)  # fmt: skip
    return _builtins(app)


_PATCHES = (MERGE, STRATEGIC, JSON_PATCH, APPLY)


def _json_patch(random: Random) -> list[JsonObject]:
    """Return operations that may make the object another's, or one of another node."""
    path = random.choice(("", "/metadata", "/metadata/name", "/spec/nodeName", "/metadata/labels", "/status"))
    value = random.choice((random.choice(NAMES), {"name": random.choice(NAMES)}, {}, None))
    return [{"op": random.choice(("add", "replace", "remove")), "path": path, "value": value}]


def _applying(obj: JsonObject) -> ApiCall:
    """Return an administrator's call that applies an object."""
    key = key_of_object(obj)
    kind = kind_named(key.kind)
    return ApiCall(
        verb="patch", patch_type=APPLY, api_version=kind.api_version, plural=kind.plural, namespace=key.namespace,
        name=key.name, body=obj,
    )  # fmt: skip


def _place_of(name: str) -> str:
    """Return the type of the objects with this name."""
    part = name.partition("-")[2]
    return {"": "node", "account": "serviceaccount"}.get(part) or _FITTING.get(part, ("secret",))[0]


def _builtins(value: Any) -> Any:
    message = Message(content=value)
    return json.loads(bytes(message.content_raw()))
