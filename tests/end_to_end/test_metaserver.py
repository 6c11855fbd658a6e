"""The Kubernetes API on the node, as kubectl uses it, with and without the cloud."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import service
from tests.support.kubectl import TABLE, Kubectl
from tests.support.ports import free_port

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
_SETTINGS: JsonObject = {"name": "settings", "configMap": {"name": "settings"}}


def started(machine: Machine) -> Kubectl:
    """A node with its API and one pod that runs."""
    machine.edge.api_port = free_port()
    machine.start()
    machine.cloud.apply(config_map("settings", colour="blue"))
    reader = container("echo hello; exec sleep 600", volumeMounts=[mount("settings", "/settings")])
    machine.cloud.apply(pod("web", reader, volumes=(_SETTINGS,), terminationGracePeriodSeconds=0))
    machine.cloud.pods.wait("web", is_ready)
    return Kubectl(machine.edge.api_port)


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_a_node_is_read_and_changed_through_its_own_api(stopped_machine: Machine) -> None:
    """get, describe, logs, watch; patch and delete, which the cloud carries out where a node may. Then without it."""
    machine = stopped_machine
    kubectl = started(machine)
    assert kubectl.resources()["pods"] == "v1"
    wait_until(lambda: [row[:4] for row in kubectl.rows(PODS)] == [["web", "1/1", "Running", "0"]], "get pods")
    node = [NODE, "Ready", "agent,edge"]
    wait_until(lambda: [row[:3] for row in kubectl.rows("/api/v1/nodes")] == [node], "get nodes")
    assert [row[:2] for row in kubectl.rows("/api/v1/namespaces/default/configmaps")] == [["settings", 1]]
    described(kubectl)
    wait_until(lambda: kubectl.ask(f"{PODS}/web/log?container=app").body == "hello\n", "its log")
    changed(kubectl, machine)
    without_cloud(kubectl, machine)


def described(kubectl: Kubectl) -> None:
    """What `kubectl describe pod web` asks."""
    web = kubectl.ask(f"{PODS}/web").body
    fields = ",".join(
        f"involvedObject.{key}={value}"
        for key, value in (("name", "web"), ("namespace", "default"), ("uid", web["metadata"]["uid"]))
    )
    path = f"/api/v1/namespaces/default/events?fieldSelector={fields}&limit=500"
    wait_until(
        lambda: "Started" in {each["reason"] for each in kubectl.ask(path).body["items"]}, "its events are there"
    )


def changed(kubectl: Kubectl, machine: Machine) -> None:
    """`kubectl create` and `patch`, which no node may, `label node`, `delete`; watched by `kubectl get -w`."""
    listed = kubectl.ask(f"{PODS}?limit=500", TABLE).body
    revision = listed["metadata"]["resourceVersion"]
    with kubectl.watch(f"{PODS}?resourceVersion={revision}&watch=true", TABLE) as events:
        other = pod("other", terminationGracePeriodSeconds=0)
        refused = kubectl.ask(f"{PODS}?fieldManager=kubectl-create", method="POST", body=other)
        assert (refused.status, refused.body["reason"]) == (403, "Forbidden"), "a node makes mirror pods only"
        machine.cloud.apply(other)
        seen = rows_until(events, lambda _, row: (row[0], row[2]) == ("other", "Running"))
        assert next(kind for kind, name in seen if name == "other") == "ADDED"
        strategic = "application/strategic-merge-patch+json"
        patch = {"metadata": {"labels": {"colour": "red"}}}
        assert kubectl.ask(f"{PODS}/other", method="PATCH", body=patch, Content_Type=strategic).status == 403
        answer = kubectl.ask(f"/api/v1/nodes/{NODE}", method="PATCH", body=patch, Content_Type=strategic)
        assert answer.body["metadata"]["labels"]["colour"] == "red"
        wait_until(lambda: len(kubectl.rows("/api/v1/nodes?labelSelector=colour%3Dred")) == 1, "label")
        assert kubectl.ask(f"{PODS}/other", method="DELETE", body={"gracePeriodSeconds": 0}).body["status"] == "Success"
        rows_until(events, lambda kind, row: (kind, row[0]) == ("DELETED", "other"))
    refused = kubectl.ask(f"{PODS}/other", method="DELETE")
    assert (refused.status, refused.body["reason"]) == (404, "NotFound")


def without_cloud(kubectl: Kubectl, machine: Machine) -> None:
    """What the node has is read all the same, also after a restart; what changes something is refused."""
    machine.cloud.kill()
    machine.edge.kill()
    machine.start_edge()
    wait_until(lambda: answers(machine), "the node is back")
    wait_until(lambda: [row[:3] for row in kubectl.rows(PODS)] == [["web", "1/1", "Running"]], "get pods offline")
    wait_until(lambda: [row[:2] for row in kubectl.rows("/api/v1/nodes")] == [[NODE, "Ready"]], "the node itself")
    refused = kubectl.ask(f"{PODS}/web", method="DELETE")
    assert (refused.status, refused.body["reason"]) == (503, "ServiceUnavailable")
    assert "not connected to the cloud" in refused.body["message"]
    with kubectl.watch(f"{PODS}?watch=true&resourceVersion=0") as events:
        assert next(events)["object"]["metadata"]["name"] == "web"


def answers(machine: Machine) -> bool:
    try:
        return Kubectl(machine.edge.api_port).ask("/readyz").status == 200
    except OSError:
        return False


def rows_until(events: Any, reached: Any) -> list[tuple[str, str]]:
    """The rows of a table that is watched, up to one: what happened, and to what."""
    seen = []
    for event in events:
        for row in event["object"]["rows"]:
            seen.append((event["type"], row["cells"][0]))
            if reached(event["type"], row["cells"]):
                return seen
    raise AssertionError(seen)


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_services_come_from_the_cloud_when_a_client_watches_them(stopped_machine: Machine) -> None:
    """Present and later ones; they are there without the cloud, and what has changed meanwhile comes with it."""
    machine = stopped_machine
    kubectl = started(machine)
    machine.cloud.apply(service("first"))
    namespaces = "/api/v1/namespaces"
    wait_until(lambda: "default" in {row[0] for row in kubectl.rows(namespaces)}, "namespaces come")
    assert kubectl.ask("/apis/networking.istio.io/v1alpha3/destinationrules?limit=500").body["items"] == []
    with kubectl.watch(f"{SERVICES}?watch=true", TABLE) as events:
        rows_until(events, lambda kind, row: (kind, row[0]) == ("ADDED", "first"))
        machine.cloud.apply(service("second"))
        rows_until(events, lambda kind, row: (kind, row[0]) == ("ADDED", "second"))
        machine.cloud.kill()
        assert {row[0] for row in kubectl.rows(SERVICES)} == {"first", "second"}
        assert "default" in {row[0] for row in kubectl.rows(namespaces)}
        machine.cloud.start()
        machine.cloud.delete("service", "first")
        machine.cloud.apply(service("third"))
        seen = rows_until(events, lambda kind, row: (kind, row[0]) == ("ADDED", "third"))
        wait_until(lambda: {row[0] for row in kubectl.rows(SERVICES)} == {"second", "third"}, "the deletion arrives")
        assert ("ADDED", "second") not in seen, "it is not sent again"
