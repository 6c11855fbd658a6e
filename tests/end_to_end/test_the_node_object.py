"""What people and controllers do to the Node object reaches the node, with a cloudcore of ours."""

from copy import deepcopy
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import is_ready, phase, pod
from tests.end_to_end.processes import wait_until
from tests.support.kubectl import Kubectl
from tests.support.ports import free_port

pytestmark = pytest.mark.parametrize("runtime", ["embedded"], indirect=True)


def changed_node(machine: Machine, **metadata: Any) -> JsonObject:
    """The Node object as it is, with other metadata."""
    node = deepcopy(machine.cloud.get("Node", NODE))
    for name, value in metadata.items():
        node["metadata"][name] = {**node["metadata"].get(name, {}), **value}
    del node["metadata"]["resourceVersion"]
    return node


def ready(node: JsonObject) -> str:
    """The status of its condition Ready."""
    conditions: list[JsonObject] = (node.get("status") or {}).get("conditions") or []
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


def test_a_label_set_later_lets_the_pods_run_that_ask_for_it(machine: Machine) -> None:
    """Label and pods come together. A pod that was bound to the node before stays Failed, as with a kubelet; one for
    which there was no node has one now.
    """
    machine.cloud.apply(pod("waits", nodeSelector={"disk": "ssd"}))
    machine.cloud.apply(pod("early", nodeSelector={"disk": "ssd"}, nodeName=NODE))
    refused = machine.cloud.pods.wait("early", lambda obj: phase(obj) == "Failed")
    assert refused["status"]["reason"] == "NodeAffinity"
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    machine.cloud.apply(
        changed_node(machine, labels={"disk": "ssd"}),
        *(pod(f"selects-{number}", nodeSelector={"disk": "ssd"}) for number in range(3)),
        pod("likes", affinity=affinity),
    )
    for name in ("waits", "selects-0", "selects-1", "selects-2", "likes"):
        machine.cloud.pods.wait(name, is_ready)
    assert machine.cloud.get("Node", NODE)["metadata"]["labels"]["disk"] == "ssd", "it is not the node's to take away"


def test_a_taint_keeps_away_who_does_not_tolerate_it(machine: Machine) -> None:
    node = changed_node(machine)
    node["spec"] = {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}
    tolerates = [{"key": "maintenance", "operator": "Exists"}]
    machine.cloud.apply(node, pod("kept-out", nodeName=NODE), pod("stands-it", tolerations=tolerates))
    refused = machine.cloud.pods.wait("kept-out", lambda obj: phase(obj) == "Failed")
    assert refused["status"]["reason"] == "TaintToleration"
    machine.cloud.pods.wait("stands-it", is_ready)
    assert machine.cloud.get("Node", NODE)["spec"]["taints"][0]["key"] == "maintenance"


def test_conditions_are_the_nodes_own_and_others_stay(stopped_machine: Machine) -> None:
    """Another writer gives them up, as the node controller does, and adds one, as a network plug-in does."""
    machine = stopped_machine
    machine.edge.api_port = free_port()
    machine.start()
    unknown = {"status": "Unknown", "reason": "NodeStatusUnknown"}
    conditions = [{"type": kind, **unknown} for kind in ("Ready", "MemoryPressure")]
    conditions.append({"type": "NetworkUnavailable", "status": "False", "reason": "CalicoIsUp"})
    path = f"/api/v1/nodes/{NODE}/status"
    kubectl = Kubectl(machine.edge.api_port)
    wait_until(lambda: kubectl.ask(path[: -len("/status")]).status == 200, "the node's API is there")
    patch = {"status": {"conditions": conditions}}
    answer = kubectl.ask(path, method="PATCH", body=patch, Content_Type="application/strategic-merge-patch+json")
    assert answer.status == 200, answer
    found = machine.cloud.mirror("Node").wait(NODE, lambda obj: is_calico_there(obj) and ready(obj) == "True")
    assert "Unknown" in [ready(state) for state in machine.cloud.mirror("Node").history(NODE)]
    assert "Unknown" not in [each["status"] for each in found["status"]["conditions"]]


def is_calico_there(node: JsonObject) -> bool:
    """Whether the network's condition is."""
    return any(each["type"] == "NetworkUnavailable" for each in node["status"]["conditions"])


def test_a_node_that_was_deleted_is_there_again_and_its_pods_run_on(machine: Machine) -> None:
    machine.cloud.apply(pod("web"))
    started = machine.cloud.pods.wait("web", is_ready)["status"]["startTime"]
    first = machine.cloud.get("Node", NODE)["metadata"]["uid"]
    machine.cloud.delete("Node", NODE)

    def is_another(node: JsonObject) -> bool:
        return node["metadata"]["uid"] != first and ready(node) == "True"

    second = machine.cloud.mirror("Node").wait(NODE, is_another)["metadata"]["uid"]
    lease = machine.cloud.mirror("Lease")
    lease.wait(NODE, lambda obj: obj["metadata"]["ownerReferences"][0]["uid"] == second)
    machine.cloud.apply(pod("later"))
    machine.cloud.pods.wait("later", is_ready)
    wait_until(lambda: is_ready(machine.edge.pods().get("web", {})), "the pod runs on")
    assert machine.edge.pods()["web"]["status"]["startTime"] == started
