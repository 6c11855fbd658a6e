"""Our node with the messages of a real cloudcore (KubeEdge v1.23) about its Node object.

In `tests/recordings/kubeedge/start.jsonl` the controller manager annotates and taints the node, takes the taint away,
and cloudstream writes the tunnel's port over the node's own. metamanager and edged are ours, on
a real file.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beehive import Group, Message, ModuleName, Operation, Source
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from edged.host import Host
from edged.module import Edged
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from metamanager.module import MetaManager, MetaSettings
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.doubles.container_runtime.machine_info import FakeMachineInfo
from tests.edged.conftest import IMAGE, pod
from tests.interop.traces import KUBEEDGE

START = KUBEEDGE / "start.jsonl"
NODE = "cap-edge"
RESOURCE = f"null/node/{NODE}"
NOT_FOUND = {"ErrStatus": {"status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"}}
Json = dict[str, Any]


def recorded() -> list[Json]:
    """The websocket messages, in order."""
    lines = map(json.loads, START.read_text().splitlines())
    return [line["msg"] | {"dir": line["dir"]} for line in lines if line["kind"] == "ws"]


def updates() -> list[Json]:
    """The real cloud's unrequested messages about the node."""
    return [one for one in recorded() if one["route"]["operation"] == "update" and one["route"]["resource"] == RESOURCE]


class Cloud:
    """The recorded cloud: it sends the recorded answers, and stores the Node object that it received last."""

    def __init__(self, bee: Harness) -> None:
        self._bee = bee
        self.node: Json | None = None
        self.patches: list[Json] = []
        self.registrations = 0
        self.acknowledged: dict[str, Message] = {}
        self.statuses: list[Json] = []
        registered = next(one for one in recorded() if "Object" in str(one) and one["route"]["resource"] == RESOURCE)
        self._registered = registered["content"]["Object"]

    def __call__(self, message: Message) -> Message | None:
        resource, operation = message.route.resource, message.route.operation
        if message.parent_id:
            self.acknowledged[message.parent_id] = message
            return None
        if "/nodepatch/" in resource:
            return self._patched(message)
        if resource == RESOURCE:
            return self._about_node(message)
        if "/podpatch/" in resource:
            self.statuses.append(json.loads(message.content_as(str))["status"])
        if "/lease/" in resource and operation == Operation.QUERY:
            return self._reply(message, {"Object": None, "Err": NOT_FOUND})
        return self._reply(message, {"Object": message.content if operation != "patch" else {}, "Err": None})

    def says(self, update: Json) -> str:
        """Send a recorded message as the cloud; return its id."""
        self.node = update["content"]
        route = update["route"]
        message = self._bee.message(
            route["resource"], route["operation"], update["content"], source=route["source"], group=route["group"]
        ).with_header(msg_id=update["header"]["msg_id"])
        self._bee.send(ModuleName.METAMANAGER, message)
        return message.id

    def _patched(self, message: Message) -> Message:
        self.patches.append(json.loads(message.content_as(str)))
        if self.node is None:
            return self._reply(message, {"Object": None, "Err": NOT_FOUND})
        return self._reply(message, {"Object": {"metadata": {"name": NODE}}, "Err": None})

    def _about_node(self, message: Message) -> Message:
        if message.route.operation == Operation.INSERT:
            self.registrations += 1
            own = message.content_as(dict)
            self.node = {**own, "metadata": self._registered["metadata"], "spec": self._registered.get("spec", {})}
            return self._reply(message, {"Object": self.node, "Err": None})
        return self._reply(message, self.node or NOT_FOUND)

    def _reply(self, message: Message, content: Any) -> Message:
        reply = message.reply(self._bee.clock, content, source=ModuleName.EDGECONTROLLER)
        return reply.with_route(group=Group.RESOURCE)


@contextmanager
def node_and_cloud(path: Path) -> Iterator[tuple[Harness, Cloud]]:
    """The node of the recording with a fake link and a fake runtime; not connected yet."""
    with Harness(1) as bee:
        runtime = FakeRuntime(bee.simulation, [IMAGE])
        cloud = Cloud(bee)
        bee.answer(ModuleName.EDGEHUB, cloud)
        bee.answer(Group.HUB, cloud)
        settings = EdgedSettings(
            node_name=NODE,
            root=path / "edged",
            pod_logs=path / "logs",
            runtime_endpoint="unix:///fake",
            node_ip="192.0.2.2",
        )
        bee.add(MetaManager, MetaSettings(str(path / "edgecore.db")))
        bee.add(Edged, settings, runtime.connect, Snapshots(), "v1.32", Host(machine_info=FakeMachineInfo()))
        bee.start()
        bee.run_for(1)
        yield bee, cloud


def connect(bee: Harness, content: str = CLOUD_CONNECTED) -> None:
    """Report the state of the link to both modules."""
    for module in (ModuleName.METAMANAGER, ModuleName.EDGED):
        message = bee.message(CONNECTION_RESOURCE, Operation.CONNECT, content, source=Source.EDGEHUB)
        bee.send(module, message)
    bee.run_for(1)


def as_ours(update: Json, cloud: Cloud) -> Json:
    """Return a recorded update with this machine's capacity, as a recording of this node would have it."""
    assert cloud.node is not None
    status = {**update["content"]["status"]}
    conditions = {each["type"]: each for each in status["conditions"]}
    ours = cloud.node["status"]
    status |= {key: ours[key] for key in ("capacity", "allocatable", "nodeInfo", "images", "addresses") if key in ours}
    status["conditions"] = [
        {**each, **({"status": "True", "reason": "EdgeReady"} if each["type"] == "Ready" else {})}
        for each in conditions.values()
    ]
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    ready["message"] = "edge is posting ready status"
    return {**update, "content": {**update["content"], "status": status}}


def test_recorded_updates_are_acknowledged_taken_and_leave_others_parts_alone(tmp_path: Path) -> None:
    """No patch answers the taint, the annotations or the tunnel's port; the labels count for pods immediately."""
    with node_and_cloud(tmp_path) as (bee, cloud):
        connect(bee)
        assert cloud.registrations == 1
        before = len(cloud.patches)
        for update in updates():
            sent = cloud.says(as_ours(update, cloud))
            acknowledgement = cloud.acknowledged[sent]
            assert (acknowledgement.route.resource, acknowledgement.content) == (RESOURCE, "OK")
            bee.run_for(11)
        assert cloud.node is not None
        assert cloud.node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10351
        assert cloud.patches[before:] == []


def test_a_recorded_update_with_a_label_reaches_admission_before_the_pod_that_follows(tmp_path: Path) -> None:
    """Both are in metamanager at the same time; after a restart without the cloud, they come from the store."""
    with node_and_cloud(tmp_path) as (bee, cloud):
        connect(bee)
        update = as_ours(updates()[-1], cloud)
        metadata = update["content"]["metadata"]
        metadata |= {"labels": {**metadata["labels"], "disk": "ssd"}, "resourceVersion": "28700"}
        cloud.says(update)
        bee.send(ModuleName.METAMANAGER, from_cloud(bee, "first"))
        bee.run_for(3)
        assert [status["phase"] for status in cloud.statuses if "phase" in status] == ["Running"]
        cloud.statuses.clear()
        connect(bee, CLOUD_DISCONNECTED)
    with node_and_cloud(tmp_path) as (bee, cloud):
        bee.send(ModuleName.METAMANAGER, from_cloud(bee, "second"))
        bee.run_for(3)
        connect(bee)
        bee.run_for(3)
        phases = [status["phase"] for status in cloud.statuses if "phase" in status]
        assert set(phases) == {"Running"}


def from_cloud(bee: Harness, name: str) -> Message:
    """A pod that wants the label."""
    wanted = pod(name, nodeName=NODE, nodeSelector={"disk": "ssd"})
    return bee.message(
        f"default/pod/{name}", Operation.INSERT, wanted, source=ModuleName.EDGECONTROLLER, group=Group.RESOURCE
    )


def test_a_recorded_node_whose_ready_was_given_up_reports_it_immediately(tmp_path: Path) -> None:
    with node_and_cloud(tmp_path) as (bee, cloud):
        connect(bee)
        update = as_ours(updates()[-1], cloud)
        for condition in update["content"]["status"]["conditions"]:
            condition |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
        before = len(cloud.patches)
        cloud.says(update)
        bee.run_for(0.1)
        [patch] = cloud.patches[before:]
        assert {each["type"]: each["status"] for each in patch["status"]["conditions"]} == {
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
            "Ready": "True",
        }


def test_a_recorded_node_that_is_deleted_registers_again(tmp_path: Path) -> None:
    """By a message as KubeEdge sends it: `delete null/node/NAME` without a content."""
    with node_and_cloud(tmp_path) as (bee, cloud):
        connect(bee)
        cloud.node = None
        message = bee.message(RESOURCE, Operation.DELETE, None, source=ModuleName.EDGECONTROLLER, group=Group.RESOURCE)
        bee.send(ModuleName.METAMANAGER, message)
        bee.run_for(1)
        assert cloud.registrations == 2
        assert cloud.acknowledged[message.id].content == "OK"
