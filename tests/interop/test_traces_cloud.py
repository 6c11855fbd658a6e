"""Our cloud with the recorded edge over a real websocket: our cloud sends all messages that the real one sent.

The test sends the edge's messages as they were recorded, with the ids, uids and versions of this run. It derives the
users' actions in the real cluster (apply, label, delete) from the cloud's unrequested messages, and repeats them over
the control socket.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.sync.client import ClientConnection, connect

from beehive import Message, RealClock, decode, encode
from beehive.decoding import convert
from modules.processes.cloudcore.config import CloudCoreConfig
from modules.processes.cloudcore.process import CloudCore
from tests.interop.entries import Json, entries, step_of
from tests.interop.forms import form_of
from tests.modules.cloud.objects import namespace
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.support.control_client import Apply, ControlClient, Delete
from tests.support.patience import PATIENCE

CLOCK = RealClock()

OTHERS = {"1460f497-3d49-4cc9-bc5f-a75a68ac20d0": "the node controller took a taint off"}
"""Messages that a real cluster sends and ours does not, by id or resource, and whose work they are."""

UNSEEN = {"/Object/metadata/labels/zone:str", "/metadata/labels/zone:str"}
"""A label that a person gave the node between two recorded files."""

AHEAD = {"insert configmap", "update secret", "insert pod", "update node", "response twin", "update detail"}
"""Additional messages of our cloud: it sends a pod's configmaps and secrets ahead of it, sends a registering node
everything
again, and sends a node of 2019 its Node object as one of today. It answers a node that asks for its devices."""


AHEAD_OF_2019 = {"update pod"}
"""The edge of 2019 reports the statuses of all pods together, too: the real cloud did not pass these changes on."""


class World:
    """Our cloud, and the recorded edge that talks to it. People write to its embedded API server, or to a cluster's.

    Args:
        directory: of its files.
        cluster: the cluster, or None.
    """

    def __init__(self, directory: Path, cluster: Cluster | None = None) -> None:
        self._cluster = cluster
        config = CloudCoreConfig(
            control_socket=directory / "control",
            listen_port=0,
            keepalive_interval=3600.0,
            ack_resend_interval=3600.0,
            kubeconfig=None if cluster is None else cluster.kubeconfig(),
            controllers="none",  # recorded owners have the uids of another cluster
        )
        self._core = CloudCore(config)
        self._core.start()
        self._link = ExitStack()
        self.people = ControlClient(config.control_socket) if cluster is None else cluster.cluster.client
        self._connection: ClientConnection | None = None
        self._came: list[Message] = []
        self._versions: Counter[tuple[str, str]] = Counter()
        """How often each version of an object was received."""
        self._ids: dict[str, str] = {}
        self._known: dict[str, Json] = {}
        self._recorded: dict[str, Json] = {}

    def close(self) -> None:
        """End the connection and the cloud."""
        self._link.close()
        self._core.stop()
        if self._cluster is not None:
            self._cluster.close()

    def connect(self, handshake: Json) -> None:
        """A handshake with the recorded headers."""
        self._link.close()
        host, port = self._core.address
        ours = ("host", "connection", "upgrade", "user-agent")
        headers = [
            (name, value)
            for name, value in handshake["headers"]
            if name.lower() not in ours and not name.lower().startswith("sec-")
        ]
        url = f"ws://{host}:{port}{handshake['line'].split()[1]}"
        self._connection = self._link.enter_context(
            connect(
                url,
                additional_headers=headers,
                compression=None,
                max_size=None,
                ping_interval=None,
                open_timeout=PATIENCE,
                close_timeout=PATIENCE,
            )
        )

    def prepare(self, *objects: Json) -> None:
        """Create the objects of the real cluster from before the recording."""
        self._apply(*objects)

    def edge_says(self, message: Json) -> None:
        """Send a recorded message of the edge, with the ids, uids and versions of this run."""
        parent = message["header"].get("parent_msg_id")
        header = message["header"] | ({"parent_msg_id": self._ids.get(parent, parent)} if parent else {})
        known = self._known.get(_key(message["route"]["resource"]), {})
        content = self._bound(_with_identity(message["content"], known), message["route"]["resource"])
        content = self._listed(content, message["route"]["resource"])
        assert self._connection is not None
        told = convert({**message, "header": header, "content": content}, Message)
        self._connection.send(encode(told), text=True)

    def _listed(self, content: Any, resource: str) -> Any:
        """The statuses of several pods in one message, with their uids of this run."""
        if not resource.endswith("/podstatus"):
            return content
        pods = resource.replace("/podstatus", "/pod")
        return [_with_identity(each, self._known.get(f"{pods}/{each['Name']}", {})) for each in content]

    def _bound(self, content: Any, resource: str) -> Any:
        """A request for a token, bound to the pod as this cloud knows it."""
        if "/serviceaccounttoken/" not in resource or content == "OK":
            return content
        reference = content["spec"]["boundObjectRef"]
        known = self._known[f"{resource.partition('/')[0]}/pod/{reference['name']}"]
        return {**content, "spec": {**content["spec"], "boundObjectRef": {**reference, "uid": known["uid"]}}}

    def cloud_said(self, recorded: Json) -> Message | None:
        """Return our cloud's counterpart of a real cloud's message; make the users' action that causes it. None for an
        update that the deletion of its object has superseded: a message that waits to be sent gives way to a later one.
        """
        if not recorded["header"].get("parent_msg_id"):
            self._act(recorded)
        ours = self._counterpart(recorded)
        if ours is not None:
            self._ids[recorded["header"]["msg_id"]] = ours.id
        return ours

    def rest(self) -> list[Message]:
        """Return the messages that the real cloud did not send, without repetitions of a version."""
        return [one for one in self._came if self._versions[_version(one)] == 1]

    def _act(self, recorded: Json) -> None:
        resource, content = recorded["route"]["resource"], recorded["content"]
        if "/pod/" not in resource or recorded["route"]["operation"] == "delete":
            return
        before = self._recorded.get(resource)
        self._recorded[resource] = content
        meta = content["metadata"]
        if recorded["route"]["operation"] == "insert":
            self._apply({"kind": "Pod", "apiVersion": "v1", **content})
        elif before is not None and meta.get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
            self._catch_up(resource, content["status"])
            self.people.run(Delete("pod", meta["name"], meta["namespace"], meta["deletionGracePeriodSeconds"]))
        elif before is not None and meta.get("labels") != before["metadata"].get("labels"):
            self._apply({"kind": "Pod", "apiVersion": "v1", **content})

    def _catch_up(self, resource: str, status: Json) -> None:
        """Send the edge's reports from the time between two recorded files."""
        patches = resource.replace("/pod/", "/podpatch/")
        patch = json.dumps({"metadata": {"uid": self._known[resource]["uid"]}, "status": status})
        report = Message.new(CLOCK, source="edged", group="meta", resource=patches, operation="patch", content=patch)
        self.edge_says(msgspec.to_builtins(report))
        for route, parent in (
            ({"operation": "response", "resource": patches}, report.id),
            ({"operation": "update", "resource": resource}, ""),
        ):
            self._counterpart({"route": route, "header": {"parent_msg_id": parent}})

    def _apply(self, *objects: Json) -> None:
        written = [{**obj, "metadata": _as_written(obj["metadata"])} for obj in objects]
        spaces = {obj["metadata"].get("namespace") or "default" for obj in written} - {"default"}
        written = [*(namespace(name) for name in sorted(spaces)), *written]
        errors = [item.error for item in self.people.run(Apply(written)) if item.error]
        assert not errors

    def _counterpart(self, recorded: Json) -> Message | None:
        route, parent = recorded["route"], recorded["header"].get("parent_msg_id", "")
        while True:
            for ours in self._came:
                same = (ours.route.operation, ours.route.resource) == (route["operation"], route["resource"])
                if same and ours.parent_id == parent:
                    self._came.remove(ours)
                    return ours
            deleted = {ours.route.resource for ours in self._came if ours.route.operation == "delete"}
            if route["operation"] == "update" and route["resource"] in deleted:
                return None
            self._came.append(self._receive())

    def _receive(self) -> Message:
        assert self._connection is not None
        message = decode(self._connection.recv(timeout=PATIENCE, decode=False))
        self._versions[_version(message)] += 1
        content = message.content_as(Any)
        obj = content.get("Object") or content if isinstance(content, dict) else {}
        if obj.get("metadata", {}).get("uid"):
            self._known[_key(message.route.resource)] = obj["metadata"]
        return message


def _version(message: Message) -> tuple[str, str]:
    """Return key and version of the object; a message without an object is its own key."""
    return message.route.resource, message.header.resourceversion or message.id


def _key(resource: str) -> str:
    """Return the key of an object, also for its patches and statuses."""
    return resource.replace("patch/", "/").replace("status/", "/")


def _with_identity(content: Any, known: Json) -> Any:
    """Return an edge's content for an object, with the uid and version that this cloud gave the object."""
    if isinstance(content, str) and content.startswith('{"metadata":{"uid"'):
        return json.dumps(_with_identity(json.loads(content), known))
    if not isinstance(content, dict):
        return content
    if "preconditions" in content:
        return {**content, "preconditions": {"uid": known["uid"]}}
    if "UID" in content and known:
        return {**content, "UID": known["uid"]}
    meta = content.get("metadata", {})
    mine = {name: known[name] for name in ("uid", "resourceVersion") if name in meta and name in known}
    return {**content, "metadata": {**meta, **mine}} if mine else content


@pytest.fixture
def world(tmp_path: Path, engine: str) -> Iterator[World]:
    made = World(tmp_path, Cluster(tmp_path, controllers="none") if engine == "cluster" else None)
    yield made
    made.close()


def objects_before(year: str) -> list[Json]:
    """The configmaps and secrets that the real cloud knew."""
    found = {}
    for _, entry in entries(year):
        if entry["kind"] == "ws" and entry["msg"]["route"]["operation"] == "response":
            resource, content = entry["msg"]["route"]["resource"], entry["msg"]["content"]
            for kind in ("ConfigMap", "Secret"):
                if f"/{kind.lower()}/" in resource and isinstance(content, dict):
                    found[resource] = {"apiVersion": "v1", **content, "kind": kind}
    return list(found.values())


@pytest.mark.parametrize("year", ["today", "2019"])
@pytest.mark.parametrize("engine", ["embedded", "cluster"])
def test_our_cloud_sends_all_messages_of_the_real_one(world: World, year: str) -> None:
    """The whole recording, file after file, as one life of a node; routes, header fields and forms are compared."""
    world.prepare(*objects_before(year))
    reached = 0
    for file, entry in entries(year):
        if entry["kind"] == "http-request":
            world.connect(entry)
        elif entry["dir"] == "edge->cloud":
            world.edge_says(entry["msg"])
        elif not {entry["msg"]["header"]["msg_id"], entry["msg"]["route"]["resource"]} & OTHERS.keys():
            _compare(world, file, entry["msg"], exactly=year == "today")
            reached += 1
    assert reached > 20
    beyond = {f"{one.route.operation} {one.route.resource.split('/')[:2][-1]}" for one in world.rest()}
    assert beyond <= AHEAD | (AHEAD_OF_2019 if year == "2019" else set())


def _compare(world: World, file: str, recorded: Json, *, exactly: bool) -> None:
    route = recorded["route"]
    where = f"{file}: {step_of(recorded)}"
    try:
        ours = world.cloud_said(recorded)
    except TimeoutError:
        came = [(one.route.operation, one.route.resource) for one in world.rest()]
        pytest.fail(f"{where} did not come; came: {came}")
    if ours is None:
        return
    assert msgspec.to_builtins(ours.route) == route, where
    if exactly:
        assert json.loads(encode(ours))["header"].keys() == recorded["header"].keys(), where
        lacking = form_of(recorded["content"]) - form_of(ours.content_as(Any)) - UNSEEN
        assert not lacking, where


def _as_written(metadata: Json) -> Json:
    """The metadata without what a server has added, which is refused in an apply or binds it to one state."""
    return {name: value for name, value in metadata.items() if name not in ("managedFields", "uid", "resourceVersion")}
