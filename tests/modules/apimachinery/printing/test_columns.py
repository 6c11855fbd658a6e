"""The cells of each kind, as an API server prints them."""

from typing import Any

import pytest

from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.columns import columns_of

NOW = 1_795_139_690.0
CREATED = "2026-11-20T01:54:00Z"


def cells(kind: str, **fields: Any) -> list[str | float | None]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **fields.pop("metadata", {})}
    obj = {"kind": kind, "metadata": metadata, **fields}
    return [column.cell(obj, NOW) for column in columns_of(kind)]


RESTARTED: dict[str, Any] = {
    "restartCount": 2, "ready": True, "state": {"running": {}},
    "lastState": {"terminated": {"finishedAt": "2026-11-20T01:49:50Z"}},
}  # fmt: skip


def measured(kind: str, name: str = "", **amounts: Any) -> dict[str, Any]:
    """Return a metric of a HorizontalPodAutoscaler, and its state, with the same amounts."""
    place = f"{kind[:1].lower()}{kind[1:]}"
    return {"type": kind, place: {"name": name, "target": amounts, "current": amounts}}


@pytest.mark.parametrize(
    ("kind", "fields", "wanted"),
    [
        ("Thing", {}, ["x", "50s"]),
        ("CustomResourceDefinition", {}, ["x", CREATED]),
        ("Pod", {"spec": {"containers": [{}], "nodeName": "n", "readinessGates": [{"conditionType": "g"}]},
                 "status": {"phase": "Running", "podIP": "192.0.2.1", "containerStatuses": [RESTARTED]}},
         ["x", "1/1", "Running", "2 (5m ago)", "50s", "192.0.2.1", "n", "<none>", "0/1"]),
        ("Node", {"spec": {"unschedulable": True},
                  "status": {"conditions": [{"type": "Ready", "status": "False"}],
                             "addresses": [{"type": "InternalIP", "address": "192.0.2.2"}],
                             "nodeInfo": {"kubeletVersion": "v1", "osImage": "o", "kernelVersion": "k"}}},
         ["x", "NotReady,SchedulingDisabled", "<none>", "50s", "v1", "192.0.2.2", "<none>", "o", "k", "<unknown>"]),
        ("Node", {"metadata": {"name": "x", "creationTimestamp": CREATED, "labels": {
            "node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/": "", "kubernetes.io/role": "worker"}}},
         ["x", "Unknown", "edge,worker", "50s", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]),
        ("Event", {"lastTimestamp": CREATED, "type": "Warning", "reason": "BackOff", "message": " m\n", "count": 3,
                   "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec"},
                   "source": {"component": "kubelet", "host": "n"}},
         ["50s", "Warning", "BackOff", "pod/web", "spec", "kubelet, n", "m", "<unknown>", 3, "x"]),
        ("Event", {"eventTime": CREATED, "series": {"count": 2}, "involvedObject": {"kind": "Node"},
                   "reportingComponent": "example.org/a", "reportingInstance": "i"},
         ["50s", "", "", "node", "", "example.org/a, i", "", "50s", 2, "x"]),
        ("ConfigMap", {"data": {"a": ""}, "binaryData": {"b": ""}}, ["x", 2, "50s"]),
        ("Secret", {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, "50s"]),
        ("Namespace", {}, ["x", "Active", "50s"]),
        ("Namespace", {"status": {"phase": "Terminating"}}, ["x", "Terminating", "50s"]),
        ("ServiceAccount", {"secrets": [{}, {}]}, ["x", 2, "50s"]),
        ("CertificateSigningRequest",
         {"spec": {"signerName": "s", "username": "u", "expirationSeconds": 7200},
          "status": {"conditions": [{"type": "Approved"}], "certificate": "c"}},
         ["x", "50s", "s", "u", "120m", "Approved,Issued"]),
        ("CertificateSigningRequest", {}, ["x", "50s", "<none>", "", "<none>", "Pending"]),
        ("CertificateSigningRequest", {"status": {"conditions": [{"type": "Failed"}, {"type": "Other"}]}},
         ["x", "50s", "<none>", "", "<none>", "Pending,Failed"]),
        ("CSIDriver",
         {"spec": {"attachRequired": False, "tokenRequests": [{"audience": "a"}],
                   "volumeLifecycleModes": ["Ephemeral"]}},
         ["x", False, False, False, "a", False, "Ephemeral", "50s"]),
        ("Lease", {"spec": {"holderIdentity": "n"}}, ["x", "n", "50s"]),
        ("PersistentVolume",
         {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
                   "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "ns", "name": "c"},
                   "storageClassName": "s", "volumeMode": "Block"}, "status": {"phase": "Bound"}},
         ["x", "1Gi", "RWO,ROX", "Retain", "Bound", "ns/c", "s", "<unset>", "", "50s", "Block"]),
        ("PersistentVolumeClaim",
         {"metadata": {"deletionTimestamp": "t"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}},
         ["x", "Terminating", "v", "0", "", "", "<unset>", "50s", "<unset>"]),
        ("PersistentVolumeClaim",
         {"spec": {"volumeName": "v"}, "status": {"capacity": {"storage": "2Gi"}, "accessModes":
          ["ReadWriteMany", "ReadWriteMany", "ReadWriteOncePod", "ReadOnlyMany"]}},
         ["x", "", "v", "2Gi", "ROX,RWX,RWOP", "", "<unset>", "50s", "<unset>"]),
        ("PersistentVolumeClaim",
         {"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteMany"]}},
         ["x", "Bound", "", "", "", "", "<unset>", "50s", "<unset>"]),
        ("Service", {"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 3}, {"port": 53,
                     "protocol": "UDP"}], "selector": {"b": "2", "a": "1"}, "externalIPs": ["192.0.2.9"]}},
         ["x", "ClusterIP", "10.0.0.1", "192.0.2.9", "80:3/TCP,53/UDP", "50s", "a=1,b=2"]),
        ("Service", {"spec": {}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}},
         ["x", "ClusterIP", "<none>", "<none>", "<none>", "50s", "<none>"]),
        ("Service", {"spec": {"type": "LoadBalancer"}},
         ["x", "LoadBalancer", "<none>", "<pending>", "<none>", "50s", "<none>"]),
        ("Service", {"spec": {"type": "ExternalName", "externalName": "example.org"}},
         ["x", "ExternalName", "<none>", "example.org", "<none>", "50s", "<none>"]),
        ("Endpoints", {"subsets": [{"ports": [{"port": 1}, {"port": 2}], "addresses": [{"ip": "a"}, {"ip": "b"}]}]},
         ["x", "a:1,b:1,a:2 + 1 more...", "50s"]),
        ("Endpoints",
         {"subsets": [{"addresses": [{"ip": "a"}]}, {"ports": [{"port": 1}], "addresses": [{"ip": "::1"}]}]},
         ["x", "a,[::1]:1", "50s"]),
        ("Endpoints", {"subsets": [{"notReadyAddresses": [{"ip": "a"}], "ports": [{"port": 1}]}]}, ["x", "", "50s"]),
        ("StorageClass", {"metadata": {"name": "x", "creationTimestamp": CREATED, "annotations": {
            "storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"},
         ["x (default)", "p", "Delete", "Immediate", False, "50s"]),
        ("Scale", {"spec": {"replicas": 3}, "status": {"replicas": 2}}, ["x", 3, 2, "50s"]),
        ("EndpointSlice", {"ports": [{"name": "http"}, {"name": "", "port": 1}]},
         ["x", "", "http,1", "<unset>", "50s"]),
        ("EndpointSlice", {"addressType": "IPv4", "ports": [{"port": 80}, {}], "endpoints": [
            {"addresses": ["a", "b"]}, {"addresses": ["c", "d"]}]}, ["x", "IPv4", "80,*", "a,b,c + 1 more...", "50s"]),
        ("EndpointSlice", {}, ["x", "", "<unset>", "<unset>", "50s"]),
        ("VolumeAttachment", {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
                              "status": {"attached": True}}, ["x", "d", "v", "n", True, "50s"]),
        ("PodTemplate", {"template": {"metadata": {"labels": {"a": "b"}},
                                      "spec": {"containers": [{"name": "c", "image": "i"}]}}},
         ["x", "c", "i", "a=b"]),
        ("Ingress", {"spec": {"rules": [{"host": host} for host in "abcd"], "tls": [{}], "ingressClassName": "n"},
                     "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "h"}]}}},
         ["x", "n", "a,b,c + 1 more...", "192.0.2.1,h", "80, 443", "50s"]),
        ("Ingress", {"spec": {"rules": [{}]}}, ["x", "<none>", "*", "", "80", "50s"]),
        ("Ingress", {"spec": {"rules": [{}, {"host": "a"}, {"host": "b"}, {"host": "c"}]},
                     "status": {"loadBalancer": {"ingress": [{}, {"ip": "192.0.2.1"}]}}},
         ["x", "<none>", "a,b,c", "192.0.2.1", "80", "50s"]),
        ("RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u", "namespace": "n"}, {"kind": "ServiceAccount", "name": "s"}]},
         ["x", "Role/r", "50s", "u", "", "/s"]),
        ("IngressClass", {"spec": {"controller": "a/b", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}},
         ["x", "a/b", "K.g/n", "50s"]),
        ("IngressClass", {"spec": {"controller": "a/b"}}, ["x", "a/b", "<none>", "50s"]),
        ("NetworkPolicy", {"spec": {"podSelector": {"matchLabels": {"c": "d"}, "matchExpressions": [
            {"key": "a", "operator": "Exists"}]}}}, ["x", "a,c=d", "50s"]),
        ("NetworkPolicy", {"spec": {"podSelector": {}}}, ["x", "<none>", "50s"]),
        *(
            ("HorizontalPodAutoscaler",
             {"spec": {"scaleTargetRef": {"kind": "K", "name": "n"}, "maxReplicas": 3, **spec}, "status": status},
             ["x", "K/n", targets, "<unset>", 3, status.get("currentReplicas", 0), "50s"])
            for spec, status, targets in (
                ({}, {}, "<none>"),
                ({"metrics": [measured("Resource", name="cpu", averageUtilization=80)]}, {}, "cpu: <unknown>/80%"),
                ({"metrics": [measured("Resource", name="cpu")]}, {}, "cpu: <unknown>/<auto>"),
                ({"metrics": [measured("ContainerResource", name="memory", averageValue="1Mi")]},
                 {"currentReplicas": 2, "currentMetrics": [measured("ContainerResource", averageValue="2Mi")]},
                 "memory: 2Mi/1Mi"),
                ({"metrics": [measured("Resource", name="cpu", averageUtilization=80)]},
                 {"currentMetrics": [measured("Resource", averageUtilization=50)]}, "cpu: 50%/80%"),
                ({"metrics": [measured("Object", value="1"), measured("External", averageValue="2")]},
                 {"currentMetrics": [measured("Object", value="3")]}, "3/1, <unknown>/2 (avg)"),
                ({"metrics": [measured("Pods", averageValue="1"), measured("Other"), measured("Pods")]},
                 {}, "<unknown>/1, <unknown type> + 1 more..."),
            )
        ),
        ("Device.devices.kubeedge.io",
         {"spec": {"nodeName": "n1", "deviceModelRef": {"name": "m"}, "properties": [
             {"name": "temperature"}, {"name": "on", "desired": {"value": "true"}},
             {"name": "text", "desired": {"value": "x" * 100}}]}},
         ["x", "n1", "m", "50s", f"on=true,text={'x' * 63}…"]),
        ("Device.devices.kubeedge.io",
         {"status": {"twins": [{"propertyName": "on", "desired": {"value": "true"}}]}},
         ["x", "", "", "50s", "on=true"]),
        ("DeviceStatus.devices.kubeedge.io",
         {"status": {"conditions": [{"status": "True"}], "state": "online", "lastOnlineTime": "t", "twins": [
             {"propertyName": "a", "reported": {"value": "1"}},
             {"propertyName": "b", "reported": {"value": "2"}, "observedDesired": {"value": "3"}},
             {"propertyName": "c", "observedDesired": {"value": "4"}},
             {"propertyName": "d", "reported": {"value": "60.0", "metadata": {"type": "float"}},
              "observedDesired": {"value": "60"}}]}},
         ["x", "True", "online", "t", "50s", "a=1,b=2 (3 is desired),c= (4 is desired),d=60.0"]),
        ("FlowSchema", {"spec": {"priorityLevelConfiguration": {"name": "n"}, "matchingPrecedence": 7,
                                 "distinguisherMethod": {"type": "ByUser"}},
                        "status": {"conditions": [{"type": "Dangling", "status": "True"}]}},
         ["x", "n", 7, "ByUser", "50s", "True"]),
        ("FlowSchema", {"spec": {"priorityLevelConfiguration": {"name": "n"}}}, ["x", "n", 0, "<none>", "50s", "?"]),
        ("PriorityLevelConfiguration",
         {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 3, "limitResponse": {
             "queuing": {"queues": 1, "handSize": 2, "queueLengthLimit": 3}}}}},
         ["x", "Limited", 3, 1, 2, 3, "50s"]),
        ("PriorityLevelConfiguration", {"spec": {"type": "Exempt"}},
         ["x", "Exempt", "<none>", "<none>", "<none>", "<none>", "50s"]),
    ],
)  # fmt: skip
def test_cells(kind: str, fields: dict[str, Any], wanted: list[str | float | None]) -> None:
    assert cells(kind, **fields) == wanted


@pytest.mark.parametrize(
    "kind",
    [
        "Pod",
        "Node",
        "Event",
        "PersistentVolume",
        "Service",
        "Endpoints",
        "Lease",
        "Ingress",
        "FlowSchema",
        "Device.devices.kubeedge.io",
        "DeviceStatus.devices.kubeedge.io",
    ],
)
def test_nothing_need_be_there(kind: str) -> None:
    """Nor be of the form it should be."""
    for odd in ({}, {"status": None, "spec": 7}, {"spec": {"ports": None, "containers": None}, "status": []}):
        assert cells(kind, **odd)


@pytest.mark.parametrize(("days", "text"), [(700, "700d"), (800, "2y70d"), (365 * 9, "9y")])
def test_long_ages(days: int, text: str) -> None:
    assert human_duration(days * 86400) == text
