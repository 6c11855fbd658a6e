"""Objects of any shape are printed: what a node or another client wrote may have any."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from modules.apimachinery.printing.columns import columns_of
from modules.apimachinery.printing.tables import TableOptions, aligned, layout

NOW = 1_795_139_690.0
WHEN = "2026-11-20T01:54:00Z"
KINDS = (
    "Pod", "Node", "Event", "ConfigMap", "Secret", "Namespace", "ServiceAccount", "CertificateSigningRequest",
    "CSIDriver", "Lease", "PersistentVolume", "PersistentVolumeClaim", "Service", "Endpoints", "EndpointSlice",
    "VolumeAttachment", "X",
)  # fmt: skip
_STATUS: dict[str, Any] = {
    "name": "s", "ready": True, "started": False, "restartCount": 2,
    "state": {"waiting": {"reason": "r"}, "terminated": {"exitCode": 1, "signal": 9, "reason": ""}, "running": {}},
    "lastState": {"terminated": {"finishedAt": WHEN}},
}  # fmt: skip
SAMPLE: dict[str, Any] = {
    "metadata": {"name": "x", "namespace": "n", "creationTimestamp": WHEN, "deletionTimestamp": WHEN,
                 "labels": {"a": "b", "node-role.kubernetes.io/edge": ""}},
    "data": {"a": "b"}, "binaryData": {"a": "b"}, "type": "t", "reason": "r", "message": "m", "count": 2,
    "firstTimestamp": WHEN, "lastTimestamp": WHEN, "eventTime": WHEN, "reportingComponent": "c",
    "series": {"count": 2, "lastObservedTime": WHEN}, "source": {"component": "c", "host": "h"},
    "involvedObject": {"kind": "Pod", "name": "x", "fieldPath": "f"}, "secrets": [{}],
    "subsets": [{"addresses": [{"ip": "i"}], "ports": [{"port": 1}]}],
    "spec": {
        "containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}], "nodeName": "n",
        "readinessGates": [{"conditionType": "g"}], "unschedulable": True, "signerName": "s", "username": "u",
        "expirationSeconds": 7200, "attachRequired": True, "tokenRequests": [{"audience": "a"}], "type": "ClusterIP",
        "volumeLifecycleModes": ["Ephemeral"], "holderIdentity": "h", "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "claimRef": {"name": "c", "namespace": "n"}, "clusterIP": "i",
        "externalIPs": ["i"], "ports": [{"port": 1, "nodePort": 2, "protocol": "TCP"}], "selector": {"a": "b"},
        "source": {"persistentVolumeName": "v"}, "attacher": "a",
        "scaleTargetRef": {"kind": "k", "name": "n"}, "minReplicas": 1,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 1}}}],
        "podSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
    },
    "status": {
        "phase": "Pending", "reason": "r", "podIP": "i", "containerStatuses": [_STATUS],
        "initContainerStatuses": [_STATUS], "addresses": [{"type": "InternalIP", "address": "a"}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "r"}], "certificate": "c", "attached": True,
        "nodeInfo": {"kubeletVersion": "v"}, "loadBalancer": {"ingress": [{"ip": "i", "hostname": "h"}]},
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 1}}}],
    },
}  # fmt: skip
ODD: tuple[Any, ...] = (None, True, -7, 10**30, 0.5, "", "0001-01-01T00:00:00Z", [], {}, [None], [[]], [{}], {"a": []})


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each part."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (key,)
        yield from ((key, *rest) for rest in _places(part))


def _changed(place: tuple[Any, ...], part: Any) -> dict[str, Any]:
    obj = deepcopy(SAMPLE)
    inner: Any = obj
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = part
    return obj


@cache
def _objects() -> list[dict[str, Any]]:
    """All objects with one odd part."""
    return [_changed(place, part) for place in _places(SAMPLE) for part in ODD]


@pytest.mark.parametrize("kind", KINDS)
def test_any_part_may_be_odd(kind: str) -> None:
    options = TableOptions(wide=True, namespaces=True, labels=True, label_columns=("a",), kinds=True)
    made = layout(columns_of(kind), [*_objects(), {}, SAMPLE], NOW, options)
    assert all(line.isprintable() for line in aligned([made.head, *made.rows]))
