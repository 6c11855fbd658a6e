"""What a real node sends: the messages of an edge as KubeEdge's, whole."""

import json
from typing import Any, Final

_TIME: Final = "2026-11-27T10:00:00Z"
_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_KUBELETS: Final = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "EdgeReady", "edge is posting ready status"),
}


def whole_patch(uid: str, number: int) -> str:
    """Return the patch of 1.1 kB that a kubelet's status manager sends, with all conditions; they change each time."""
    ready = "True" if number % 2 == 0 else "False"
    conditions = [
        {"type": each, "status": ready if "Ready" in each and "Start" not in each else "True", "lastProbeTime": None,
         "lastTransitionTime": _TIME}
        for each in _CONDITIONS
    ]  # fmt: skip
    container = {
        "name": "c", "ready": ready == "True", "started": True, "restartCount": number,
        "image": "docker.io/library/busybox:1.36", "imageID": "sha256:" + "ab" * 32,
        "containerID": "containerd://" + "cd" * 32, "state": {"running": {"startedAt": _TIME}}, "lastState": {},
    }  # fmt: skip
    status = {
        "$setElementOrder/conditions": [{"type": each} for each in _CONDITIONS], "conditions": conditions,
        "phase": "Running", "hostIP": "192.0.2.2", "hostIPs": [{"ip": "192.0.2.2"}], "podIP": "10.88.0.5",
        "podIPs": [{"ip": "10.88.0.5"}], "startTime": _TIME, "containerStatuses": [container],
    }  # fmt: skip
    return json.dumps({"metadata": {"uid": uid}, "status": status}, separators=(",", ":"))


def whole_node(name: str) -> dict[str, Any]:
    """Return the Node that an edge registers."""
    conditions = [
        {"type": each, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": _TIME,
         "lastTransitionTime": _TIME}
        for each, (status, reason, message) in _KUBELETS.items()
    ]  # fmt: skip
    resources = {"cpu": "2", "memory": "4Gi", "pods": "110", "ephemeral-storage": "10Gi"}
    labels = {
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
        "spec": {},
        "status": status,
    }


def lease_of(name: str) -> dict[str, Any]:
    """Return the Lease of a node."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-11-27T10:00:00.000000Z"}
    return {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec}
