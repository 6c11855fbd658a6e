"""What a container may use, as it finds it, and which pods there is no room or place for."""

from typing import Any

import pytest

from tests.end_to_end.crowd.crowd import Crowd, lasting, once, wants
from tests.end_to_end.pods import GREEDY, container, is_ready, phase
from tests.support.ports import free_port

_FIRST_OF = "for f in {}; do [ -e /sys/fs/cgroup/$f ] && {{ cut -d ' ' -f 1 /sys/fs/cgroup/$f; break; }}; done"
_MEMORY = _FIRST_OF.format("memory/memory.limit_in_bytes memory.max")
_QUOTA = _FIRST_OF.format("cpu/cpu.cfs_quota_us cpu.max")


@wants(once("resources-limits", f"{_MEMORY}; {_QUOTA}", resources={"limits": {"memory": "20Mi", "cpu": "250m"}}))
def test_a_container_finds_its_limits(crowd: Crowd) -> None:
    assert crowd.said("resources-limits") == [str(20 * 2**20), "25000"]


@wants(
    lasting(
        "resources-oom",
        container(GREEDY, "greedy", resources={"limits": {"memory": "12Mi"}}),
        container(name="app"),
        restartPolicy="Never",
    )
)
def test_only_the_container_that_takes_too_much_is_killed(crowd: Crowd) -> None:
    def killed(obj: Any) -> bool:
        states = {each["name"]: each["state"] for each in obj.get("status", {}).get("containerStatuses", [])}
        return bool(states.get("greedy", {}).get("terminated", {}).get("reason") == "OOMKilled")

    assert phase(crowd.wait("resources-oom", killed)) == "Running"


@wants(once("resources-as-a-whole", "true", resources={}))
def test_a_pod_that_asks_for_nothing_is_best_effort(crowd: Crowd) -> None:
    crowd.said("resources-as-a-whole")
    assert crowd.machine.cloud.get("Pod", "resources-as-a-whole")["status"]["qosClass"] == "BestEffort"


def _terms(key: str, value: str) -> dict[str, Any]:
    requirement = {"key": key, "operator": "In", "values": [value]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}}  # fmt: skip


_REFUSED = {
    "OutOfcpu": once("refused-cpu", "true", resources={"requests": {"cpu": "1000"}}),
    "OutOfmemory": once("refused-memory", "true", resources={"requests": {"memory": "900Ti"}}),
    "OutOfephemeral-storage": once("refused-disk", "true", resources={"requests": {"ephemeral-storage": "900Ti"}}),
    "OutOfexample.com/gpu": once("refused-device", "true", resources={"limits": {"example.com/gpu": "1"}}),
    "OutOfhugepages-2Mi": once("refused-pages", "true", resources={
        "limits": {"hugepages-2Mi": "900Ti", "memory": "1Mi", "cpu": "1m"}}),
    "NodeAffinity": once("refused-node", "true", nodeSelector={"disk": "ssd"}),
    "NodeAffinity by expression": once("refused-affinity", "true", affinity=_terms("zone", "far")),
    "PodOSNotSupported": once("refused-system", "true", os={"name": "windows"}),
}  # fmt: skip


@pytest.mark.parametrize("reason", _REFUSED)
@wants(*_REFUSED.values())
def test_a_pod_without_room_or_a_fitting_node_is_refused(crowd: Crowd, reason: str) -> None:
    """For good, with a kubelet's reason, and nothing of it is made."""
    name = _REFUSED[reason]["metadata"]["name"]
    said, message = crowd.failed(name)
    assert said == reason.partition(" by ")[0]
    assert message
    made = crowd.machine.cloud.get("Pod", name)
    assert not (crowd.machine.edge.pod_logs / f"default_{name}_{made['metadata']['uid']}").exists()


@wants(once("resources-here", "true", affinity=_terms("kubernetes.io/os", "linux")))
def test_a_pod_that_belongs_here_is_taken(crowd: Crowd) -> None:
    crowd.said("resources-here")


_PORT = free_port()


def _owner(name: str) -> Any:
    return lasting(name, container(ports=[{"containerPort": 80, "hostPort": _PORT}]))


@wants(_owner("resources-port-1"), _owner("resources-port-2"))
def test_a_port_of_the_node_belongs_to_one_pod(crowd: Crowd) -> None:
    """To whichever came first; the other one is refused."""

    def is_refused(obj: Any) -> bool:
        return obj["metadata"]["name"].startswith("resources-port") and phase(obj) == "Failed"

    refused = crowd.machine.cloud.pods.wait_any(is_refused, "pod that is refused")
    assert refused["status"]["reason"] == "NodePorts"
    other = {"resources-port-1", "resources-port-2"} - {refused["metadata"]["name"]}
    crowd.wait(other.pop(), is_ready)
