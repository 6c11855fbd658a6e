"""The page and the commands say the same of each cause, which is planted at a real cloudcore."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.clock import RealClock
from beehive.http.request import Request
from modules.cli.rest import MERGE_PATCH, RestClient
from modules.page.api import About, FleetApi, fleet_api
from modules.processes.cloudcore.cli import main
from tests.end_to_end.processes import wait_until
from tests.modules.page.test_browser import PromptLinks
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.control_client import Apply

BEFORE = "2025-01-15T07:58:20Z"
RUNS = {"running": {"startedAt": BEFORE}}


def status(state: dict[str, Any], *, ready: bool = False, restarts: int = 0, **more: Any) -> dict[str, Any]:
    """Return the status of a pod with one container."""
    about = {"name": "main", "image": "web:1", "imageID": "", "ready": ready, "restartCount": restarts, "state": state}
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": BEFORE}]
    own = {"phase": "Running" if "running" in state else "Pending", "startTime": BEFORE, "conditions": conditions}
    return {**own, "containerStatuses": [{**about, **more}]}


def waits(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    """Return the status of a pod whose container waits."""
    return status({"waiting": {"reason": reason, "message": message}}, **more)


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    """Return how a container has ended."""
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": BEFORE, "finishedAt": BEFORE}}


CAUSES: dict[str, tuple[dict[str, Any], dict[str, Any] | None, str]] = {
    "runs": ({}, status(RUNS, ready=True, started=True), "runs on n1"),
    "image": ({}, waits("ImagePullBackOff", "no image for linux/arm/v7"), "cannot be had (ImagePullBackOff): no image"),
    "crash": ({}, waits("CrashLoopBackOff", restarts=4, lastState=ended(1)), "it was restarted 4 times, and waits"),
    "memory": (
        {}, waits("CrashLoopBackOff", restarts=2, lastState=ended(137, "OOMKilled")), "exit code 137 (OOMKilled)",
    ),
    "command": (
        {}, waits("CrashLoopBackOff", restarts=1, lastState=ended(127)), "the command does not exist in the image",
    ),
    "configmap": (
        {"volumes": [{"name": "v", "configMap": {"name": "nowhere"}}]}, waits("ContainerCreating"),
        "needs the ConfigMap nowhere, which does not exist",
    ),
    "key": (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "none"}}}]},
        waits("CreateContainerConfigError"), "needs the ConfigMap settings, which has no key none",
    ),
    "claim": (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}, waits("ContainerCreating"),
        "needs the PersistentVolumeClaim data, which does not exist",
    ),
    "probe": ({}, status(RUNS, started=True), "the readiness probe of container main does not succeed"),
    "evicted": (
        {}, {"phase": "Failed", "reason": "Evicted", "message": "the disk is full"}, "has failed: Evicted: the disk",
    ),
    "done": ({}, {"phase": "Succeeded"}, "has ended: all its containers ended with exit code 0"),
    "unheard": ({"nodeName": "n2"}, None, "node n2 has never been connected, and has not taken the pod"),
    "nowhere": ({"nodeName": "n9"}, None, "is bound to the node n9, which does not exist"),
    "gate": ({"nodeName": "", "schedulingGates": [{"name": "quota"}]}, None, "its scheduling gates are closed: quota"),
}  # fmt: skip


def plant(stub: Stub) -> None:
    """Make the nodes, and a pod for each cause."""
    documents: list[dict[str, Any]] = [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2", "n3")]
    documents.append({"kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}})
    for name, (extra, _, _) in CAUSES.items():
        container = {"name": "main", "image": "web:1"} | ({"env": extra["env"]} if "env" in extra else {})
        spec = {"nodeName": "n1", "containers": [container]} | {key: extra[key] for key in extra if key != "env"}
        documents.append({"kind": "Pod", "metadata": {"name": name}, "spec": {k: v for k, v in spec.items() if v}})
    for item in stub.client.run(Apply([{"apiVersion": "v1", **each} for each in documents])):
        assert not item.error, item.error
    client = RestClient(stub.config.control_socket)
    full = {"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}
    client.request("PATCH", "/api/v1/nodes/n3/status", body=full, content_type=MERGE_PATCH)
    for name, (_, found, _) in CAUSES.items():
        if found is not None:
            path = f"/api/v1/namespaces/default/pods/{name}/status"
            client.request("PATCH", path, body={"status": found}, content_type=MERGE_PATCH)


def asked(api: FleetApi, path: str) -> Any:
    """Return the answer to a question of the page."""
    parts = tuple(path.split("/"))
    return msgspec.json.decode(api.serve(Request(method="GET", target=path, parts=parts), parts).body)


def test_the_page_and_the_commands_agree_on_each_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock, socket = RealClock(), str(tmp_path / "control")

    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert main([*arguments, "--socket", socket]) == 0
        return capsys.readouterr().out

    with Stub(tmp_path, controllers="none") as stub, stub.edge("n1"):
        plant(stub)
        about = About("here", "1", "cloudcore")
        with closing(fleet_api(RestClient(stub.config.control_socket), PromptLinks(stub.client), clock, about)) as api:
            wait_until(lambda: asked(api, "changes")["is_read"], "the fleet is read")
            rows = {each["name"]: each for each in asked(api, "nodes/n1")["pods"]}
            listed = {line.split()[0]: line.split()[2] for line in said("get", "pods").splitlines()[1:]}
            for name, (_, _, words) in CAUSES.items():
                story = asked(api, f"explain/default/{name}")
                command = json.loads(said("why", "pod", name, "-o", "json"))
                assert words in story["answer"]["sentence"]
                assert story["answer"] == command
                assert story["row"]["status"] == listed[name]
                assert name not in rows or rows[name] == story["row"]
            troubled = sorted(pod["name"] for group in asked(api, "pods")["groups"] for pod in group["pods"])
            assert troubled == sorted(set(CAUSES) - {"runs", "done"})
            states = {each["name"]: each["state"] for each in asked(api, "changes")["set"]}
            shown = {line.split()[0]: line for line in said("nodes").splitlines()[1:]}
            assert states == {"n1": "connected", "n2": "never", "n3": "never"}
            assert [shown[name].split()[2] == "never" for name in ("n1", "n2", "n3")] == [False, True, True]
    clock.close()
