"""People at the Kubernetes API of a cloudcore, who make jobs of nodes; and nodes that carry them out."""

import json
from typing import Any

from beehive.message import Message
from modules.apimachinery.node_jobs import API_VERSION
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge
from tests.support.control_client import ControlClient

Json = dict[str, Any]
EDGE = {"node-role.kubernetes.io/edge": ""}


class JobAuthors:
    """Write Nodes and jobs, and read statuses.

    Args:
        client: of the control socket.
    """

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def wait(self) -> None:
        """Wait until cloudcore knows the kinds."""
        wait_until(lambda: self._client.request("GET", self._path("ConfigUpdateJob"))[0] == 200, "the kinds")

    def node(self, name: str, **labels: str) -> None:
        """Create an edge node."""
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {**EDGE, **labels}}}
        self._create("/api/v1/nodes", body)

    def create(self, kind: str, name: str, spec: Json, **metadata: Any) -> None:
        """Create a job."""
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
        self._create(self._path(kind), body)

    def delete(self, kind: str, name: str) -> None:
        """Delete a job."""
        assert self._client.request("DELETE", f"{self._path(kind)}/{name}")[0] == 200

    def status(self, kind: str, name: str) -> Json:
        """Return the status of a job, or nothing."""
        code, text = self._client.request("GET", f"{self._path(kind)}/{name}")
        return dict(json.loads(text).get("status") or {}) if code == 200 else {}

    def ended(self, kind: str, name: str) -> Json:
        """Wait until a job has ended, and return its status."""
        over = ("Completed", "Failure")
        wait_until(lambda: self.status(kind, name).get("phase") in over, f"{kind} {name} has ended")
        return self.status(kind, name)

    def _create(self, path: str, body: Json) -> None:
        code, text = self._client.request("POST", path, json.dumps(body).encode())
        assert code == 201, text

    def _path(self, kind: str) -> str:
        return f"/apis/{API_VERSION}/{kind.lower()}s"


def next_job(edge: Edge) -> Message:
    """Return the next message of taskmanager."""
    while (message := edge.next()).route.source != "taskmanager":
        edge.acknowledge(message)
    return message


def report(edge: Edge, resource: str, action: str, reason: str = "", extend: str = "") -> None:
    """Report the end of an action."""
    content = {
        "action": action, "succ": not reason, "finishTime": "2026-11-20T16:45:54Z", "reason": reason, "extend": extend,
    }  # fmt: skip
    fields = {"source": "websocket", "group": "hub", "operation": "UpdateNodeActionStatus"}
    edge.send(Message.new(CLOCK, resource=resource, content=content, **fields))
