"""Pods that the cloud has forgotten, and such as it has never told of: the node asks for the list and for each."""

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import is_ready, pod, status_of
from tests.end_to_end.processes import wait_until

pytestmark = pytest.mark.parametrize("runtime", ["embedded"], indirect=True)


def of_node(name: str) -> JsonObject:
    """A bound pod, whether or not the cloud knows the node, that obeys immediately."""
    return pod(name, nodeName=NODE, terminationGracePeriodSeconds=5)


def uid(obj: JsonObject) -> str:
    """Which object it is."""
    return str(obj["metadata"]["uid"])


def test_what_happened_to_pods_while_their_node_was_not_there(stopped_machine: Machine) -> None:
    """With a cloud that, as KubeEdge's, loses it: deleted, replaced, begun to be deleted, made. One stays as it is."""
    machine = stopped_machine
    machine.cloud.module = "tests.end_to_end.forgetful_cloud"
    machine.start()
    cloud, edge = machine.cloud, machine.edge
    cloud.apply(*(of_node(name) for name in ("stays", "deleted", "db-0")))
    before = {name: cloud.pods.wait(name, is_ready) for name in ("stays", "deleted", "db-0")}
    edge.kill()
    cloud.delete("Node", NODE)
    for name in ("deleted", "db-0"):
        cloud.delete("Pod", name, grace=0)
    cloud.apply(*(of_node(name) for name in ("db-0", "made", "doomed")))
    cloud.delete("Pod", "doomed")
    machine.start_edge()
    successor = cloud.pods.wait("db-0", lambda obj: is_ready(obj) and uid(obj) != uid(before["db-0"]))
    cloud.pods.wait("made", is_ready)
    cloud.pods.wait_gone("doomed")
    wait_until(lambda: set(edge.pods()) == {"stays", "db-0", "made"}, "only pods that the cloud has are here")
    assert uid(edge.pods()["db-0"]) == uid(successor) != uid(before["db-0"])
    assert status_of(edge.pods()["stays"])["containerID"] == status_of(before["stays"])["containerID"]
    gone = [uid(before[name]) for name in ("deleted", "db-0")]
    wait_until(lambda: not any((edge.root / "edged" / "pods" / each).exists() for each in gone), "nothing is left")


def test_a_cloud_that_has_lost_its_objects_ends_nothing(stopped_machine: Machine) -> None:
    """It says of its list that there may be more: it is asked for no pod, and the pod that nobody knows runs on."""
    machine = stopped_machine
    machine.start()
    edge = machine.edge
    machine.cloud.apply(of_node("web"))
    container = status_of(machine.cloud.pods.wait("web", is_ready))["containerID"]
    machine.cloud.kill()
    for file in machine.directory.glob("cloud.db*"):
        file.unlink()
    machine.cloud.start()
    machine.cloud.mirror("Node").wait(NODE, lambda _: True)
    machine.cloud.apply(of_node("later"))
    machine.cloud.pods.wait("later", is_ready)
    wait_until(
        lambda: "received the cloud's list" in edge.process.text().rpartition("is registered")[2], "the list is taken"
    )
    machine.cloud.apply(of_node("last"))
    machine.cloud.pods.wait("last", is_ready)
    assert status_of(edge.pods()["web"])["containerID"] == container
