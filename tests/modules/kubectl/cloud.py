"""kubectl's verbs against a real cloudcore in this process."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from modules.cli.rest import MERGE_PATCH, RestClient
from modules.kubectl.session import Session
from modules.processes.cloudcore.cli import main
from tests.modules.cloud.objects import namespace
from tests.modules.processes.cloudcore.stubs import Stub


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output."""
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """The words of standard output."""
        return [line.split() for line in self.lines]

    @property
    def object(self) -> Any:
        """Standard output, read as JSON."""
        return json.loads(self.out)


class Cloud:
    """A cloudcore, and its command line."""

    def __init__(self, stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
        self.stub = stub
        self.client = RestClient(stub.config.control_socket)
        self.session = Session("cloudcore", self.client)
        self._capsys = capsys

    @property
    def socket(self) -> Path:
        """The control socket."""
        return self.stub.config.control_socket

    def run(self, *words: str) -> Done:
        """Run `cloudcore WORDS` to its end."""
        self._capsys.readouterr()
        try:
            status = main([*words, "--socket", str(self.socket)])
        except SystemExit as ended:
            status = int(ended.code or 0)
        shown = self._capsys.readouterr()
        return Done(status, shown.out, shown.err)

    def make(self, *objects: dict[str, Any]) -> None:
        """Create objects, and the namespaces that they are in."""
        spaces = {obj["metadata"].get("namespace", "default") for obj in objects} - {"default", "kube-node-lease"}
        for obj in (*map(namespace, sorted(spaces)), *objects):
            resource = self.session.discovery.of_manifest(obj["apiVersion"], obj["kind"])
            space = obj["metadata"].get("namespace", "default")
            self.client.request("POST", resource.path(space), body=obj)
            if "status" in obj:
                path = resource.path(space, obj["metadata"]["name"], "status")
                self.client.request("PATCH", path, (), {"status": obj["status"]}, MERGE_PATCH)


def pod(name: str = "web", namespace: str = "default", status: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None) -> dict[str, Any]:  # fmt: skip
    """Return a manifest of a pod on the node n1."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "busybox:1.35"}]}
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return made | ({"status": status} if status else {})


def config_map(name: str = "colours", **data: str) -> dict[str, Any]:
    """Return a manifest of a configmap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def node(name: str = "n1") -> dict[str, Any]:
    """Return a manifest of a node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def event(name: str, last: str, target: str = "web", kind: str = "Normal", **more: Any) -> dict[str, Any]:
    """Return a manifest of an event of a pod."""
    involved = {"kind": "Pod", "name": target, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}, "type": kind,
            "reason": "Pulled", "message": f"message of {name}", "involvedObject": involved,
            "firstTimestamp": last, "lastTimestamp": last, **more}  # fmt: skip
