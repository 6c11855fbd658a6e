"""A device plug-in beside edgecore: the cloud counts its devices, and a container gets what it was given."""

from __future__ import annotations

from modules.cloud.apiserver.kinds import JsonObject
from protos.podresources.v1 import api_pb2 as resources
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, is_ready, pod, state_of
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest
from tests.support.device_plugin import RESOURCE, DevicePluginDouble, ask_pod_resources


def counts(node: JsonObject) -> tuple[str | None, str | None]:
    """How many devices the node has, and how many it can give, as the cloud knows it."""
    status = node.get("status") or {}
    return (status.get("capacity") or {}).get(RESOURCE), (status.get("allocatable") or {}).get(RESOURCE)


def wanting(name: str, script: str, count: int = 1) -> JsonObject:
    """A pod that wants devices."""
    amounts = {RESOURCE: str(count)}
    return pod(
        name,
        container(script, resources={"limits": amounts, "requests": amounts}),
        nodeName=NODE,
        terminationGracePeriodSeconds=1,
    )


def test_devices_of_a_plugin(machine: Machine) -> None:
    """A container has the variables and the device file that the plug-in answered with; the node says who has what,
    also after edgecore was killed. A pod waits while its plug-in is away, and what a pod had is free when it is gone.
    """
    root = machine.edge.root / "edged"
    nodes = machine.cloud.mirror("Node")
    look = "echo $DEVICES; echo swallowed > /dev/given && test -c /dev/given && echo written; exec sleep 600"
    if machine.runtime.name != ContainerdUnderTest.name:
        look = "echo $DEVICES; echo written; exec sleep 600"  # the machine's own /dev is all that a process sees
    with DevicePluginDouble(root, "a", "b") as plugin:
        nodes.wait(NODE, lambda node: counts(node) == ("2", "2"))
        plugin.say(b="Unhealthy")
        nodes.wait(NODE, lambda node: counts(node) == ("2", "1"))
        machine.cloud.apply(wanting("first", look))
        first = machine.cloud.pods.wait("first", is_ready)
        wait_until(lambda: machine.edge.lines(first) == ["a", "written"], "the container has its device")
        machine.cloud.apply(wanting("much", look, 3))
        refused = machine.cloud.pods.wait("much", lambda made: (made.get("status") or {}).get("phase") == "Failed")
        assert refused["status"]["reason"] == f"OutOf{RESOURCE}"
        plugin.say(b="Healthy")
        nodes.wait(NODE, lambda node: counts(node) == ("2", "2"))
        machine.edge.kill()
        machine.start_edge()
        nodes.wait(NODE, lambda node: counts(node) == ("2", "0"))
        machine.cloud.apply(wanting("second", look))
        machine.cloud.pods.wait("second", lambda made: "plug-in is away" in str(state_of(made, "waiting")))
        plugin.serve_again()
        second = machine.cloud.pods.wait("second", is_ready)
        wait_until(lambda: machine.edge.lines(second) == ["b", "written"], "the other device")
        assert plugin.allocated == [["a"], ["b"]]
        answer = ask_pod_resources(
            root, "List", resources.ListPodResourcesRequest(), resources.ListPodResourcesResponse
        )
        given = {each.name: [list(d.device_ids) for d in each.containers[0].devices] for each in answer.pod_resources}
        assert given == {"first": [["a"]], "second": [["b"]]}
        machine.cloud.delete("Pod", "first")
        machine.cloud.apply(wanting("third", look))
        third = machine.cloud.pods.wait("third", is_ready)
        wait_until(lambda: machine.edge.lines(third) == ["a", "written"], "the device of the pod that is gone")
    nodes.wait(NODE, lambda node: counts(node) == ("2", "0"))
