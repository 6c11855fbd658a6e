"""Objects of every kind that `describe` knows, with most of the fields that it shows."""

from typing import Any, Final

JsonObject = dict[str, Any]
_AT: Final = "2026-11-20T08:{}:00Z"


def _meta(name: str, namespace: str | None = "default", **more: Any) -> JsonObject:
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "uid": f"uid-{name}", "creationTimestamp": _AT.format("00"), **more}


def event(name: str, kind: str, about: str, reason: str, **more: Any) -> JsonObject:
    """An event about an object, of the kubelet unless it says otherwise."""
    involved = {"kind": kind, "name": about, "namespace": "default", "uid": f"uid-{about}"}
    if kind == "Node":
        involved |= {"uid": about, "namespace": ""}
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": _meta(name), "involvedObject": involved, "reason": reason,
        "type": "Normal", "message": f"{reason}: it happened\n", "source": {"component": "kubelet", "host": "edge-1"},
        "firstTimestamp": "2026-11-17T08:00:00Z", "lastTimestamp": "2026-11-17T08:00:00Z", "count": 1, **more,
    }  # fmt: skip


POD: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": _meta(
        "web",
        labels={"app": "web", "tier": "front"},
        annotations={"note": "short", "kubernetes.io/config.source": "api", "lines": "one\ntwo\nthree",
                     "long": "x" * 200},
        ownerReferences=[{"kind": "Job", "name": "maker", "controller": True, "apiVersion": "batch/v1", "uid": "1"}],
    ),
    "spec": {
        "nodeName": "edge-1",
        "serviceAccountName": "default",
        "priority": 5,
        "priorityClassName": "high",
        "runtimeClassName": "fast",
        "hostNetwork": True,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": {"disk": "ssd", "arch": "arm"},
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
             "tolerationSeconds": 300},
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
            {"operator": "Exists"},
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"app": "web"}}}
        ],
        "readinessGates": [{"conditionType": "example.com/gate"}],
        "initContainers": [
            {"name": "setup", "image": "busybox:1", "command": ["sh", "-c", "echo one\necho two"], "args": ["x"]},
        ],
        "containers": [
            {
                "name": "main", "image": "nginx:1.27",
                "command": ["nginx"], "args": ["-g", "daemon off;"],
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "name": "http"},
                          {"containerPort": 53, "protocol": "UDP"}],
                "resources": {"limits": {"cpu": "500m", "memory": "64Mi"},
                              "requests": {"cpu": "100m", "memory": "32Mi"}},
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1,
                                  "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
                "readinessProbe": {"tcpSocket": {"port": "http"}, "initialDelaySeconds": 5, "timeoutSeconds": 2,
                                   "periodSeconds": 3, "successThreshold": 2, "failureThreshold": 4},
                "startupProbe": {"exec": {"command": ["cat", "/ok"]}, "timeoutSeconds": 1, "periodSeconds": 10,
                                 "successThreshold": 1, "failureThreshold": 30},
                "env": [
                    {"name": "PLAIN", "value": "a"}, {"name": "LINES", "value": "a\nb"},
                    {"name": "EMPTY"},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "CONF", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
                ],
                "envFrom": [{"configMapRef": {"name": "env"}},
                            {"prefix": "P_", "secretRef": {"name": "env-s", "optional": True}}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data", "readOnly": True, "subPath": "sub"},
                    {"name": "conf", "mountPath": "/conf"},
                ],
                "volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}],
            },
            {
                "name": "side", "image": "busybox",
                "livenessProbe": {"grpc": {"port": 9000, "service": "s"}, "timeoutSeconds": 1, "periodSeconds": 10,
                                  "successThreshold": 1, "failureThreshold": 3},
                "readinessProbe": {"httpGet": {"port": "http", "host": "example.com", "scheme": "HTTPS"},
                                   "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
                                   "failureThreshold": 3},
            },
        ],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "ram", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
            {"name": "conf", "configMap": {"name": "conf", "optional": True}},
            {"name": "sec", "secret": {"secretName": "sec", "optional": False}},
            {"name": "host", "hostPath": {"path": "/var/log", "type": "Directory"}},
            {"name": "bare", "hostPath": {"path": "/srv"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "pvc"}},
            {"name": "down", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}]}},
            {"name": "all", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}},
            {"name": "csi", "csi": {"driver": "csi.example.com", "readOnly": True, "fsType": "ext4",
                                    "volumeAttributes": {"a": "b"}}},
            {"name": "net", "nfs": {"server": "nfs.example.com", "path": "/x"}},
        ],
    },
    "status": {
        "phase": "Running", "podIP": "10.0.0.5", "podIPs": [{"ip": "10.0.0.5"}, {"ip": "fd00::5"}],
        "hostIP": "192.168.1.2", "qosClass": "Burstable", "startTime": _AT.format("01"),
        "message": "a message", "reason": "AReason", "nominatedNodeName": "edge-2",
        "conditions": [
            {"type": "example.com/gate", "status": "True"},
            {"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "False"},
        ],
        "initContainerStatuses": [
            {"name": "setup", "containerID": "containerd://aa", "image": "busybox:1", "imageID": "sha256:aa",
             "ready": True, "restartCount": 0, "state": {"terminated": {
                 "exitCode": 0, "reason": "Completed", "startedAt": _AT.format("02"), "finishedAt": _AT.format("03")}}},
        ],
        "containerStatuses": [
            {"name": "main", "containerID": "containerd://bb", "image": "nginx:1.27", "imageID": "sha256:bb",
             "ready": True, "restartCount": 3, "started": True, "state": {"running": {"startedAt": _AT.format("09")}},
             "lastState": {"terminated": {
                 "exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "it was killed",
                 "startedAt": _AT.format("04"), "finishedAt": _AT.format("08")}}},
            {"name": "side", "image": "busybox", "ready": False, "restartCount": 0, "state": {"waiting": {
                "reason": "ImagePullBackOff", "message": "Back-off pulling image"}}},
        ],
    },
}  # fmt: skip

BARE_POD: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": _meta("bare", deletionTimestamp=_AT.format("30"), deletionGracePeriodSeconds=30),
    "spec": {"containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Pending"},
}  # fmt: skip

NODE: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "Node",
    "metadata": _meta("edge-1", None, labels={"node-role.kubernetes.io/edge": "", "arch": "arm64"},
                      annotations={"a": "b"}),
    "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "edge://1", "unschedulable": True,
             "taints": [{"key": "b", "effect": "NoSchedule"},
                        {"key": "a", "value": "v", "effect": "NoExecute"}]},
    "status": {
        "addresses": [{"type": "InternalIP", "address": "192.168.1.2"}, {"type": "Hostname", "address": "edge-1"}],
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"},
        "allocatable": {"cpu": "3800m", "memory": "7Gi", "pods": "110", "ephemeral-storage": "9Gi"},
        "conditions": [
            {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "enough",
             "lastHeartbeatTime": _AT.format("40"), "lastTransitionTime": _AT.format("10")},
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting ready status",
             "lastHeartbeatTime": _AT.format("40"), "lastTransitionTime": _AT.format("10")},
        ],
        "nodeInfo": {"machineID": "m1", "systemUUID": "u1", "bootID": "b1", "kernelVersion": "6.1", "osImage": "Debian",
                     "operatingSystem": "linux", "architecture": "arm64", "containerRuntimeVersion": "containerd://1.7",
                     "kubeletVersion": "v1.32.1", "kubeProxyVersion": ""},
    },
}  # fmt: skip

LEASE: Final[JsonObject] = {
    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": _meta("edge-1", "kube-node-lease"),
    "spec": {"holderIdentity": "edge-1", "leaseDurationSeconds": 40, "renewTime": "2026-11-20T08:45:00.123456Z"},
}  # fmt: skip

CONFIG_MAP: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta("conf", labels={"a": "b"}),
    "data": {"a.conf": "one\ntwo\n"}, "binaryData": {"bin": "AAEC"}, "immutable": True,
}  # fmt: skip

SECRET: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "Secret", "metadata": _meta("sec"), "type": "Opaque",
    "data": {"password": "aHVudGVyMg==", "user": "bWU="},
}  # fmt: skip

TOKEN: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "Secret", "metadata": _meta("token"), "type": "kubernetes.io/service-account-token",
    "data": {"token": "aHVudGVyMg=="},
}  # fmt: skip

SERVICE: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "Service", "metadata": _meta("svc", labels={"app": "web"}),
    "spec": {
        "type": "NodePort", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "selector": {"app": "web"}, "sessionAffinity": "None",
        "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "externalIPs": ["1.2.3.4"],
        "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080, "protocol": "TCP"},
                  {"port": 53, "targetPort": "dns", "protocol": "UDP"}],
    },
    "status": {"loadBalancer": {}},
}  # fmt: skip

ENDPOINTS: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "Endpoints", "metadata": _meta("svc"),
    "subsets": [{"addresses": [{"ip": "10.0.0.5"}, {"ip": "10.0.0.6"}], "notReadyAddresses": [{"ip": "10.0.0.9"}],
                 "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}],
}  # fmt: skip

CLAIM: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
    "metadata": _meta("pvc", finalizers=["kubernetes.io/pvc-protection"]),
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv",
             "storageClassName": "fast", "volumeMode": "Filesystem"},
    "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
}  # fmt: skip

VOLUME: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "PersistentVolume", "metadata": _meta("pv", None),
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
             "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast", "volumeMode": "Filesystem",
             "claimRef": {"namespace": "default", "name": "pvc"},
             "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                 {"key": "kubernetes.io/hostname", "operator": "In", "values": ["edge-1", "edge-2"]}]}]}},
             "csi": {"driver": "csi.example.com", "volumeHandle": "h1", "fsType": "ext4",
                     "volumeAttributes": {"a": "b"}}},
    "status": {"phase": "Bound"},
}  # fmt: skip

LOCAL_VOLUME: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "PersistentVolume", "metadata": _meta("local", None),
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
             "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/mnt", "type": ""}},
    "status": {"phase": "Available", "message": "well"},
}  # fmt: skip

NAMESPACE: Final[JsonObject] = {
    "apiVersion": "v1", "kind": "Namespace", "metadata": _meta("default", None, labels={"a": "b"}),
    "status": {"phase": "Active"},
}  # fmt: skip

DEVICE: Final[JsonObject] = {
    "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": _meta("lamp", labels={"a": "b"}),
    "spec": {"nodeName": "edge-1", "emptyList": [], "nothing": None, "isOn": True, "ratio": 1.5,
             "properties": [{"name": "colour", "desired": {"value": "red"}}, {"name": "level", "list": [1, 2]}],
             "protocolURL": "modbus://x"},
    "status": {"lastOnlineTime": _AT.format("00"), "twins": []},
}  # fmt: skip

EVENTS: Final = [
    event("e2", "Pod", "web", "Started", lastTimestamp="2026-11-17T09:00:00Z", count=4,
          firstTimestamp="2026-11-15T09:00:00Z"),
    event("e1", "Pod", "web", "Pulled"),
    event("e3", "Pod", "web", "BackOff", type="Warning", lastTimestamp="2026-11-17T10:00:00Z"),
    event("e4", "Pod", "web", "Newer", source=None, firstTimestamp=None, lastTimestamp=None, count=None,
          eventTime="2026-11-16T08:00:00.000000Z", reportingComponent="scheduler",
          series={"count": 3, "lastObservedTime": "2026-11-16T11:00:00.000000Z"}),
    event("e5", "Node", "edge-1", "NodeReady"),
    event("e6", "PersistentVolumeClaim", "pvc", "Bound"),
    event("e7", "Device", "lamp", "Lit"),
]  # fmt: skip

ALL: Final = [POD, BARE_POD, NODE, LEASE, CONFIG_MAP, SECRET, TOKEN, SERVICE, ENDPOINTS, CLAIM, VOLUME, LOCAL_VOLUME,
              NAMESPACE, DEVICE, *EVENTS]  # fmt: skip
