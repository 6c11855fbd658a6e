"""A node whose disk is full: a file system of 3 MB with everything of the node on it."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, phase, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import OciUnderTest
from tests.support.full_disk import fill
from tests.support.leftovers import unmount_under

FILL = "sleep 1; cat /dev/zero > /v/large; sleep 1000"


@pytest.fixture
def small(stopped_machine: Machine) -> Iterator[Machine]:
    """A machine whose node has such a disk; DiskPressure is over five seconds after it was last the case."""
    if os.geteuid():
        pytest.skip("only root may mount")
    machine = stopped_machine
    if machine.runtime.name == OciUnderTest.name:
        pytest.skip("its images alone take more than such a disk")
    machine.edge.root.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "small", machine.edge.root], check=False)
    if made.returncode:
        pytest.skip("this machine allows no mount")
    machine.edge.kubelet |= {"eviction_pressure_transition_period": 5.0}
    try:
        machine.start()
        yield machine
    finally:
        machine.edge.kill()
        (machine.edge.root / "ballast").unlink(missing_ok=True)
        machine.runtime.clear(machine.edge.root / "edged")
        unmount_under(machine.edge.root / "edged")
        subprocess.run(["umount", "--lazy", machine.edge.root], check=True)


def with_volume(name: str, script: str) -> JsonObject:
    """A pod with a directory of its own on the disk."""
    volume: JsonObject = {"name": "v", "emptyDir": {}}
    return pod(name, container(script, volumeMounts=[mount("v", "/v")]), volumes=(volume,), restartPolicy="Never")


def condition(node: JsonObject, kind: str) -> str:
    """One of the node's."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == kind), "")


@pytest.mark.slow
def test_who_fills_the_disk_is_evicted_with_his_files_and_the_node_recovers_by_itself(small: Machine) -> None:
    """No innocent pod goes, the cloud gets every status, and later pods run."""
    cloud, nodes = small.cloud, small.cloud.mirror("Node")
    cloud.apply(with_volume("innocent", "echo here > /v/file; sleep 1000"))
    cloud.pods.wait("innocent", is_ready)
    cloud.apply(with_volume("filler", FILL))
    evicted = cloud.pods.wait("filler", lambda each: phase(each) == "Failed")
    assert evicted["status"]["reason"] == "Evicted"
    assert "low on resource: ephemeral-storage" in evicted["status"]["message"]
    nodes.wait(NODE, lambda each: condition(each, "DiskPressure") == "True")
    directory = small.edge.root / "edged" / "pods" / str(evicted["metadata"]["uid"])
    wait_until(lambda: not (directory / "volumes").exists(), "its volume is gone")
    nodes.wait(NODE, lambda each: condition(each, "DiskPressure") == "False")
    cloud.apply(with_volume("late", "sleep 1000"))
    cloud.pods.wait("late", is_ready)
    assert {phase(each) for each in cloud.pods.history("innocent")} <= {"None", "Pending", "Running"}
    assert {condition(each, "Ready") for each in nodes.history(NODE)[-3:]} == {"True"}


@pytest.mark.slow
def test_a_disk_that_somebody_else_fills_lets_pods_be_deleted_and_is_reported(small: Machine) -> None:
    """Gracefully and by force. What is applied meanwhile comes when there is room again."""
    cloud, nodes = small.cloud, small.cloud.mirror("Node")
    for name in ("one", "two"):
        critical = pod(name, priorityClassName="system-node-critical", priority=2_000_001_000)
        cloud.apply(critical)
        cloud.pods.wait(name, is_ready)
    ballast = fill(small.edge.root)
    cloud.delete("Pod", "one")
    cloud.pods.wait_gone("one")
    cloud.delete("Pod", "two", grace=0)
    wait_until(lambda: not small.edge.pods(), "the node has none of them")
    nodes.wait(NODE, lambda each: condition(each, "DiskPressure") == "True")
    wait_until(lambda: small.runtime.pods(small.edge.root / "edged") == 0, "nor has the runtime")
    cloud.apply(config_map("settings", key="value"), pod("held", container("sleep 1000")))
    ballast.unlink()
    nodes.wait(NODE, lambda each: condition(each, "DiskPressure") == "False")
    cloud.pods.wait("held", lambda each: is_ready(each) or phase(each) == "Failed")
