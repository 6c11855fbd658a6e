"""People at the Kubernetes API of a cloudcore, who make devices; and devices for tests."""

import json
from typing import Any

from beehive.message import Message
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import namespace
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge
from tests.support.control_client import Apply, ControlClient

GROUP = "/apis/devices.kubeedge.io/v1beta1"
Json = dict[str, Any]


class People:
    """Write Devices and DeviceModels, and read DeviceStatuses.

    Args:
        client: of the control socket.
        namespace: of all of them.
    """

    def __init__(self, client: ControlClient, namespace: str = "default") -> None:
        self._client = client
        self._namespace = namespace

    def wait(self) -> None:
        """Wait until cloudcore knows the kinds."""
        wait_until(lambda: all(self._client.request("GET", self._path(kind))[0] == 200 for kind in KINDS), "the kinds")
        if self._namespace != "default":
            self._client.run(Apply([namespace(self._namespace)]))

    def apply(self, obj: Json) -> Json:
        """Create or change an object; return when devicecontroller knows of a new Device."""
        body = {"apiVersion": "devices.kubeedge.io/v1beta1", **obj}
        body["metadata"] = {"namespace": self._namespace, **obj["metadata"]}
        path = f"{self._path(KINDS_BY_NAME[obj['kind']])}/{obj['metadata']['name']}?fieldManager=test&force=true"
        status, text = self._client.request("PATCH", path, json.dumps(body).encode(), "application/apply-patch+yaml")
        assert status in (200, 201), text
        if obj["kind"] == "Device":
            wait_until(lambda: bool(self.status(obj["metadata"]["name"])), "the status of the device")
        return dict(json.loads(text))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; return when devicecontroller knows of the end of a Device."""
        assert self._client.request("DELETE", f"{self._path(kind)}/{name}")[0] == 200
        if kind == "devices":
            wait_until(lambda: self.get("devicestatuses", name) is None, "the status goes with the device")

    def get(self, kind: str, name: str) -> Json | None:
        """Return an object, or None."""
        status, text = self._client.request("GET", f"{self._path(kind)}/{name}")
        return dict(json.loads(text)) if status == 200 else None

    def status(self, name: str) -> Json:
        """Return what the DeviceStatus of a device says, or nothing."""
        return dict((self.get("devicestatuses", name) or {}).get("status") or {})

    def reported(self, name: str) -> dict[str, str]:
        """Return the reported values of a device."""
        twins = self.status(name).get("twins") or []
        return {twin["propertyName"]: twin["reported"]["value"] for twin in twins if "reported" in twin}

    def _path(self, kind: str) -> str:
        return f"{GROUP}/namespaces/{self._namespace}/{kind}"


KINDS_BY_NAME = {"DeviceModel": "devicemodels", "Device": "devices", "DeviceStatus": "devicestatuses"}
KINDS = tuple(KINDS_BY_NAME.values())


def model(name: str = "thermo-model") -> Json:
    """A DeviceModel."""
    properties = [
        {"name": "temperature", "type": "INT", "accessMode": "ReadOnly", "minimum": "-40", "maximum": "125"},
        {"name": "threshold", "type": "FLOAT", "accessMode": "ReadWrite"},
    ]
    return {"kind": "DeviceModel", "metadata": {"name": name}, "spec": {"properties": properties, "protocol": "demo"}}


def device(name: str = "thermo", node: str = "n1", desired: str = "30.5", of: str = "thermo-model") -> Json:
    """A Device."""
    spec = {
        "deviceModelRef": {"name": of},
        "nodeName": node,
        "properties": [{"name": "temperature"}, {"name": "threshold", "desired": {"value": desired}}],
        "protocol": {"protocolName": "demo", "configData": {"port": "/dev/ttyS0"}},
    }
    return {"kind": "Device", "metadata": {"name": name, "labels": {"description": "lab"}}, "spec": spec}


def twins(values: dict[str, str], timestamp: int = 1000) -> Json:
    """An update of twins as an edge sends it."""
    metadata = {"type": "int"}
    return {
        "event_id": "e", "timestamp": timestamp,
        "twin": {
            name: {"actual": {"value": value, "metadata": {"timestamp": timestamp}}, "metadata": metadata}
            for name, value in values.items()
        },
    }  # fmt: skip


def reports(edge: Edge, what: str, content: Any, name: str = "thermo", operation: str = "update") -> Any:
    """What the cloud answers to a report of the node's devicetwin."""
    resource = f"device/default/{name}/{what}" if name else what
    told = Message.new(CLOCK, source="twin", group="resource", resource=resource, operation=operation, content=content)
    answer = edge.answer_to(told)
    assert (answer.route.source, answer.route.group, answer.route.resource) == ("devicecontroller", "twin", "twin")
    return answer.content_as(Any)
