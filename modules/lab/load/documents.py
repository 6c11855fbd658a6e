"""What a real node sends: the messages of an edge as KubeEdge's, whole."""

import json
from typing import Any, Final

from modules.apimachinery.times import format_rfc3339

_TIME: Final = "2026-11-27T10:00:00Z"
_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_KUBELETS: Final = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "EdgeReady", "edge is posting ready status"),
}


def whole_patch(uid: str, number: int, *, is_steady: bool = False) -> str:
    """Return the patch of 1.1 kB that a kubelet's status manager sends, with all conditions, which change each time.

    Args:
        uid: of the pod.
        number: of the patch.
        is_steady: whether the pod is ready in each, and only the times of probes change.
    """
    ready = "True" if is_steady or number % 2 == 0 else "False"
    probed = format_rfc3339(number) if is_steady else None
    conditions = [
        {"type": each, "status": ready if "Ready" in each and "Start" not in each else "True", "lastProbeTime": probed,
         "lastTransitionTime": _TIME}
        for each in _CONDITIONS
    ]  # fmt: skip
    container = {
        "name": "c", "ready": ready == "True", "started": True, "restartCount": 0 if is_steady else number,
        "image": "docker.io/library/busybox:1.36", "imageID": "sha256:" + "ab" * 32,
        "containerID": "containerd://" + "cd" * 32, "state": {"running": {"startedAt": _TIME}}, "lastState": {},
    }  # fmt: skip
    status = {
        "$setElementOrder/conditions": [{"type": each} for each in _CONDITIONS], "conditions": conditions,
        "phase": "Running", "hostIP": "192.0.2.2", "hostIPs": [{"ip": "192.0.2.2"}], "podIP": "10.88.0.5",
        "podIPs": [{"ip": "10.88.0.5"}], "startTime": _TIME, "containerStatuses": [container],
    }  # fmt: skip
    return json.dumps({"metadata": {"uid": uid}, "status": status}, separators=(",", ":"))


def whole_node(name: str, taint: str = "", **labels: str) -> dict[str, Any]:
    """Return the Node that an edge registers, with further labels, and with a taint that keeps other pods away."""
    conditions = [
        {"type": each, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": _TIME,
         "lastTransitionTime": _TIME}
        for each, (status, reason, message) in _KUBELETS.items()
    ]  # fmt: skip
    resources = {"cpu": "2", "memory": "4Gi", "pods": "110", "ephemeral-storage": "10Gi"}
    labels |= {
        "node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/agent": "", "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    }  # fmt: skip
    info = {
        "machineID": "", "systemUUID": "", "bootID": "b", "kernelVersion": "6.1", "osImage": "Debian",
        "containerRuntimeVersion": "containerd://1.6.20", "kubeletVersion": "v1.32.10-kubeedge-v1.23.0",
        "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
    }  # fmt: skip
    status = {
        "capacity": resources, "allocatable": resources, "conditions": conditions, "nodeInfo": info,
        "addresses": [{"type": "InternalIP", "address": "192.0.2.2"}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10351}},
    }  # fmt: skip
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {},
        "status": status,
    }


def lease_of(name: str, renewed: str = "2026-11-27T10:00:00.000000Z") -> dict[str, Any]:
    """Return the first Lease of a node."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
    return {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec}
