"""Pods that wait for the owner of the node: released one by one on the node, and all by KubeEdge's request, offline."""

import pytest

from edged.pods.hold import ANNOTATION
from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.test_looking_in import edgecore
from tests.support.kubectl import Kubectl
from tests.support.ports import free_port


def held(name: str) -> JsonObject:
    """A pod that waits."""
    made = pod(name, terminationGracePeriodSeconds=0)
    made["metadata"]["annotations"] = {ANNOTATION: "true"}
    return made


def waits(found: JsonObject) -> bool:
    """Whether the cloud knows that a pod waits."""
    status = found.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return status.get("phase") == "Pending" and conditions.get("HeldUpgrade") == "True"


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_pods_wait_for_the_owner_of_the_node(stopped_machine: Machine) -> None:
    machine = stopped_machine
    machine.edge.api_port = free_port()
    machine.start()
    machine.cloud.apply(held("a"), held("b"), held("c"))
    for name in ("a", "b", "c"):
        machine.cloud.pods.wait(name, waits)
    machine.cloud.kill()

    def running() -> set[str]:
        lines = [line.split() for line in edgecore(machine, "get", "pods", "--no-headers").stdout.splitlines()]
        return {line[0] for line in lines if line[2] == "Running"}

    assert running() == set()
    done = edgecore(machine, "release", "a")
    assert (done.returncode, done.stdout) == (0, "default/a begins\n"), done.stderr
    wait_until(lambda: running() == {"a"}, "the pod runs")
    again, other = edgecore(machine, "release", "a"), edgecore(machine, "release", "none")
    assert again.returncode == other.returncode != 0
    assert "does not wait for a release" in again.stderr
    assert "is not on this node" in other.stderr
    kubectl = Kubectl(machine.edge.api_port)
    path = "/api/v1/{}/unhold-upgrade"
    asked = [("pods", b"default/b"), ("pods", b"default/a"), ("pods", b"default/none"), ("pods", b"x"), ("nodes", b"x")]
    assert [kubectl.ask(path.format(plural), method="POST", body=key).status for plural, key in asked] == [
        200, 400, 404, 400, 404,
    ]  # fmt: skip
    assert kubectl.ask(path.format("nodes"), method="POST", body=NODE.encode()).status == 200
    wait_until(lambda: running() == {"a", "b", "c"}, "all pods run")
    assert edgecore(machine, "release", "--all").stdout == "no pod waits for a release\n"
