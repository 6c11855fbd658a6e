"""What a node says of what its pods use, on both runtimes."""

import json
from typing import Any

import pytest

from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, is_ready, mount, pod
from tests.end_to_end.processes import wait_until

_WORK = "while :; do i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; sleep 0.3; done"
"""A script that uses some processor time again and again; all of it would be missing elsewhere."""


@pytest.mark.gives_its_machine_back
def test_a_pods_usage_is_seen(machine: Machine) -> None:
    """Processor time that grows, memory, its volume on the disk; on containerd its processes too."""
    script = f"dd if=/dev/zero of=/data/file bs=1024 count=200 2>/dev/null; {_WORK}"
    volume = {"name": "data", "emptyDir": {}}
    busy = container(script, volumeMounts=[mount("data", "/data")])
    machine.cloud.apply(pod("busy", busy, volumes=(volume,), terminationGracePeriodSeconds=1))
    made = machine.cloud.pods.wait("busy", is_ready)
    file = machine.edge.volume(made, "empty-dir", "data") / "file"
    wait_until(lambda: file.exists() and file.stat().st_size == 200 * 1024, "the file is there")
    wait_until(lambda: bool(_cpu(machine).get("usageNanoCores")), "there is an average of processor time")
    pod_stats, node = _pod(machine), _summary(machine)["node"]
    assert [each["name"] for each in pod_stats["containers"]] == ["app"]
    assert pod_stats["memory"]["workingSetBytes"] > 0
    (data,) = pod_stats["volume"]
    assert (data["name"], data["usedBytes"] >= 200 * 1024) == ("data", True)
    assert pod_stats["ephemeral-storage"]["usedBytes"] >= data["usedBytes"]
    assert node["nodeName"] == NODE
    assert node["fs"]["capacityBytes"] > 0
    if machine.runtime.name == "containerd":
        assert pod_stats["process_stats"]["process_count"] >= 2
        assert {each["name"] for each in node["systemContainers"]} == {"kubelet", "pods"}
        assert node["runtime"]["imageFs"]["capacityBytes"] > 0
    status, text = machine.edge.get("/metrics/resource")
    assert status == 200
    assert 'container_cpu_usage_seconds_total{container="app",namespace="default",pod="busy"}' in text
    status, text = machine.edge.get("/metrics/cadvisor")
    assert status == 200
    assert 'container_memory_working_set_bytes{container="app",id="/kubepods/pod' in text


def _summary(machine: Machine) -> dict[str, Any]:
    status, body = machine.edge.get("/stats/summary")
    assert status == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


def _pod(machine: Machine) -> dict[str, Any]:
    return next((each for each in _summary(machine)["pods"] if each["podRef"]["name"] == "busy"), {})


def _cpu(machine: Machine) -> dict[str, Any]:
    return _pod(machine).get("cpu") or {}
