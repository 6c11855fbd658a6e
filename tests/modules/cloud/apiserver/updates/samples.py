"""One object of each kind that the API server stores, for tests of its updates."""

from typing import Any

from tests.modules.cloud.objects import SIGNING_REQUEST

Json = dict[str, Any]

_CONTAINERS = [{"name": "main", "image": "busybox:1.35"}]
_LABELS = {"app": "x"}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": {"containers": _CONTAINERS}}
_SELECTED = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
_JOB_TEMPLATE = {"spec": {"containers": _CONTAINERS, "restartPolicy": "Never"}}
_STORAGE = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
_RBAC = "rbac.authorization.k8s.io"
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REQUEST = {"request": SIGNING_REQUEST, "signerName": "example.com/any", "usages": ["client auth"]}

_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
_SAMPLES: dict[str, tuple[str, Json]] = {
    "Pod": ("v1", {"spec": {"nodeName": "n1", "containers": _CONTAINERS}}),
    "ConfigMap": ("v1", {"data": {"a": "one"}}),
    "Secret": ("v1", {"type": "Opaque", "data": {"a": "b25l"}}),
    "Node": ("v1", {"spec": {"podCIDRs": ["10.1.0.0/24"], "podCIDR": "10.1.0.0/24", "providerID": "a://b"}}),
    "Namespace": ("v1", {}),
    "Event": ("v1", {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"}, "reason": "Started"}),
    "ServiceAccount": ("v1", {}),
    "PersistentVolume": (
        "v1",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}},
    ),
    "PersistentVolumeClaim": ("v1", {"spec": {**_STORAGE, "storageClassName": "none"}}),
    "VolumeAttachment": (
        "storage.k8s.io/v1",
        {"spec": {"attacher": "a.b", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}},
    ),
    "CSIDriver": ("storage.k8s.io/v1", {}),
    "Service": ("v1", {"spec": {"ports": [{"port": 80}], "selector": _LABELS}}),
    "Endpoints": ("v1", {"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}),
    "EndpointSlice": ("discovery.k8s.io/v1", {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]}),
    "Lease": ("coordination.k8s.io/v1", {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10}}),
    "CertificateSigningRequest": ("certificates.k8s.io/v1", {"spec": _REQUEST}),
    "Deployment": ("apps/v1", {"spec": _SELECTED}),
    "ReplicaSet": ("apps/v1", {"spec": _SELECTED}),
    "DaemonSet": ("apps/v1", {"spec": _SELECTED}),
    "StatefulSet": ("apps/v1", {"spec": {**_SELECTED, "serviceName": "x"}}),
    "ControllerRevision": ("apps/v1", {"data": {"a": "one"}, "revision": 1}),
    "Job": ("batch/v1", {"spec": {"template": _JOB_TEMPLATE}}),
    "CronJob": ("batch/v1", {"spec": {"schedule": "@hourly", "jobTemplate": {"spec": {"template": _JOB_TEMPLATE}}}}),
    "ReplicationController": ("v1", {"spec": {"template": _TEMPLATE}}),
    "StorageClass": ("storage.k8s.io/v1", {"provisioner": "a.b/c", "parameters": {"a": "one"}}),
    "CSINode": ("storage.k8s.io/v1", {"spec": {"drivers": [{"name": "a.b", "nodeID": "n1"}]}}),
    "CSIStorageCapacity": ("storage.k8s.io/v1", {"storageClassName": "fast", "capacity": "1Gi"}),
    "ResourceQuota": ("v1", {"spec": {"hard": {"pods": "5"}}}),
    "LimitRange": ("v1", {"spec": {"limits": [{"type": "shop.example/Sign", "max": {"memory": "2Gi"}}]}}),
    "ResourceClaim": (
        "resource.k8s.io/v1",
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}},
    ),
    "ResourceSlice": (
        "resource.k8s.io/v1",
        {"spec": {"driver": "a.b", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}},
    ),
    "DeviceClass": ("resource.k8s.io/v1", {"spec": {}}),
    "PodDisruptionBudget": ("policy/v1", {"spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}}),
    "PodTemplate": ("v1", {"template": _TEMPLATE}),
    "Ingress": (
        "networking.k8s.io/v1",
        {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
    ),
    "IngressClass": ("networking.k8s.io/v1", {"spec": {"controller": "example.com/one"}}),
    "NetworkPolicy": ("networking.k8s.io/v1", {"spec": {"podSelector": {"matchLabels": _LABELS}}}),
    "HorizontalPodAutoscaler": (
        "autoscaling/v2",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}},
    ),
    "FlowSchema": (_FLOW_CONTROL, {"spec": {"priorityLevelConfiguration": {"name": "one"}}}),
    "PriorityLevelConfiguration": (
        _FLOW_CONTROL,
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}},
    ),
    "PriorityClass": ("scheduling.k8s.io/v1", {"value": 10}),
    "RuntimeClass": ("node.k8s.io/v1", {"handler": "crun"}),
    "Role": (f"{_RBAC}/v1", {"rules": _RULES}),
    "ClusterRole": (f"{_RBAC}/v1", {"rules": _RULES}),
    "RoleBinding": (f"{_RBAC}/v1", {"roleRef": {"kind": "Role", "name": "a"}}),
    "ClusterRoleBinding": (f"{_RBAC}/v1", {"roleRef": {"kind": "ClusterRole", "name": "a"}}),
    "CustomResourceDefinition": (
        "apiextensions.k8s.io/v1",
        {
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "samples", "kind": "Sample"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}],
            }
        },
    ),
}
"""By kind: its API version, and what an object has beside metadata."""

KINDS = tuple(_SAMPLES)


def sample(kind: str, name: str, **fields: Any) -> Json:
    """Return an object of a kind; `spec` is merged with the sample's, other fields replace its."""
    version, content = _SAMPLES[kind]
    spec = {**content.get("spec", {}), **fields.pop("spec", {})}
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content, **fields}
    return {**made, "spec": spec} if spec else made
