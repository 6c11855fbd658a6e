# ruff: noqa: E501 - a row of the table is a line
"""Each rule of the API server's kinds is a row: an object that breaks it, the path of the field, and the words.

The objects are completed as a request's are, so only the broken field is written.
"""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.objects import validate_object
from modules.cloud.apiserver.kind_defaults import with_defaults
from tests.modules.cloud.objects import SIGNING_REQUEST

_LONG = "x" * 64
_PORT = "must be between 1 and 65535, inclusive"
_LABEL_VALUE = "a valid label must be an empty string or consist of alphanumeric"
_LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
_SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
_NEGATIVE = "must be greater than or equal to 0"
_TWO_HANDLERS: dict[str, Any] = {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}
_COST = "controller.kubernetes.io/pod-deletion-cost"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_MODE = "service.kubernetes.io/topology"
_REQUESTED = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
_CLAIMED: dict[str, Any] = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": _REQUESTED}}}
_MOUNT = {"name": "v", "mountPath": "/v"}


def pod(spec: JsonObject | None = None, **metadata: Any) -> JsonObject:
    """A pod with these fields."""
    whole = {"containers": [{"name": "main", "image": "i"}], **(spec or {})}
    return {"kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": whole}


def container(spec: JsonObject | None = None, **fields: Any) -> JsonObject:
    """A pod whose only container has these fields."""
    return pod({"containers": [{"name": "main", "image": "i", **fields}], **(spec or {})})


def init(**fields: Any) -> JsonObject:
    """A pod whose init container has these fields."""
    return pod({"initContainers": [{"name": "init", "image": "i", **fields}]})


def mounting(**fields: Any) -> JsonObject:
    """A pod that mounts its volume with these fields."""
    return container({"volumes": [{"name": "v", "emptyDir": {}}]}, volumeMounts=[{**_MOUNT, **fields}])


def volume(**source: Any) -> JsonObject:
    """A pod with a volume."""
    return pod({"volumes": [{"name": "v", **source}]})


def projected(**source: Any) -> JsonObject:
    """A pod with a volume of one source."""
    return volume(projected={"sources": [source]})


def affinity(kind: str, strength: str, *terms: Any) -> JsonObject:
    """A pod with an affinity."""
    return pod({"affinity": {kind: {f"{strength}DuringSchedulingIgnoredDuringExecution": list(terms)}}})


def on_node(**expression: Any) -> JsonObject:
    """A pod that requires something of its node."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return pod({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})


def with_kind(kind: str, /, **fields: Any) -> JsonObject:
    """An object of a kind."""
    return {"kind": kind, "metadata": {"name": "x", **fields.pop("metadata", {})}, **fields}


def service(**spec: Any) -> JsonObject:
    """A Service."""
    return with_kind("Service", spec={"ports": [{"port": 80}], **spec})


def annotated(name: str, value: str, hints: str = "", **spec: Any) -> JsonObject:
    """A Service with an annotation, and perhaps another one for hints of its topology."""
    annotations = {name: value, **({f"{_MODE}-aware-hints": hints} if hints else {})}
    return with_kind("Service", metadata={"annotations": annotations}, spec={"ports": [{"port": 80}], **spec})


def claim(**spec: Any) -> JsonObject:
    """A claim for a volume."""
    good = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return with_kind("PersistentVolumeClaim", spec={**good, **spec})


def persistent(**spec: Any) -> JsonObject:
    """A PersistentVolume."""
    good = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    return with_kind("PersistentVolume", spec={**good, **spec})


def owned(**owner: Any) -> JsonObject:
    """A ConfigMap with an owner."""
    one = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", **owner}
    return with_kind("ConfigMap", metadata={"ownerReferences": [one]})


_C = "spec.containers[0]"


def attachment(**spec: Any) -> JsonObject:
    """A VolumeAttachment."""
    return with_kind(
        "VolumeAttachment", spec={"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}, **spec}
    )


def csi_node(**driver: Any) -> JsonObject:
    """A CSINode with one driver."""
    return with_kind("CSINode", spec={"drivers": [{"name": "d", "nodeID": "n", **driver}]})


_METADATA = [
    (with_kind("ConfigMap", metadata={"name": "A_b"}), "metadata.name", f'Invalid value: "A_b": {_SUBDOMAIN}'),
    (with_kind("ConfigMap", metadata={"generateName": "A_b-"}), "metadata.generateName", f'Invalid value: "A_b-": {_SUBDOMAIN}'),
    (with_kind("ConfigMap", metadata={"name": ""}), "metadata.name", "Required value: name or generateName is required"),
    (with_kind("ConfigMap", metadata={"namespace": "a.b"}), "metadata.namespace", 'Invalid value: "a.b": must not contain dots'),
    (with_kind("Service", metadata={"name": "1a"}, spec={"ports": [{"port": 1}]}), "metadata.name", 'Invalid value: "1a": a DNS-1035 label'),
    (with_kind("Namespace", metadata={"name": "a.b"}), "metadata.name", 'Invalid value: "a.b": must not contain dots'),
    (pod(labels={"a b": "c"}), "metadata.labels", 'Invalid value: "a b": name part must consist of alphanumeric'),
    (pod(labels={"a/b/c": "c"}), "metadata.labels", 'Invalid value: "a/b/c": a qualified name must consist'),
    (pod(labels={"/b": "c"}), "metadata.labels", 'Invalid value: "/b": prefix part must be non-empty'),
    (pod(labels={"a/": "c"}), "metadata.labels", 'Invalid value: "a/": name part must be non-empty'),
    (pod(labels={"a": _LONG}), "metadata.labels", f'Invalid value: "{_LONG}": must be no more than 63 characters'),
    (pod(labels={"a": "-"}), "metadata.labels", f'Invalid value: "-": {_LABEL_VALUE}'),
    (pod(annotations={"a b": ""}), "metadata.annotations", 'Invalid value: "a b": name part must consist'),
    (pod(annotations={"a": "x" * 2**18}), "metadata.annotations", "Too long: may not be more than 262144 bytes"),
    (pod(annotations={_COST: "008"}), f"metadata.annotations[{_COST}]", 'Invalid value: "008": must be a 32bit integer'),
    (pod(annotations={_COST: "2147483648"}), f"metadata.annotations[{_COST}]", 'Invalid value: "2147483648": must be a 32bit integer'),
    (pod({"volumes": [_CLAIMED, {"name": "c", "persistentVolumeClaim": {"claimName": "p-v"}}]}), "spec.volumes[1].persistentVolumeClaim.claimName", 'Invalid value: "p-v": must not reference a PVC that gets created for an ephemeral volume'),
    (pod({"volumes": [_CLAIMED]}, name="x" * 252), "spec.volumes[0].name", f'Invalid value: "v": PVC name "{"x" * 252}-v": must be no more than 253 characters'),
    (pod(annotations={"kubernetes.io/config.mirror": "h"}), "metadata.annotations[kubernetes.io/config.mirror]", 'Invalid value: "h": must set spec.nodeName'),
    (owned(uid=""), "metadata.ownerReferences.uid", 'Invalid value: "": uid must not be empty'),
    (owned(kind=""), "metadata.ownerReferences.kind", 'Invalid value: "": kind must not be empty'),
    (owned(name=""), "metadata.ownerReferences.name", 'Invalid value: "": name must not be empty'),
    (owned(apiVersion=""), "metadata.ownerReferences.apiVersion", 'Invalid value: "": version must not be empty'),
    (owned(kind="Event"), "metadata.ownerReferences", "Invalid value: "),
    (with_kind("ConfigMap", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": True} for name in "ab"]}),
     "metadata.ownerReferences", "Invalid value: "),
    (pod(finalizers=["a b"]), "metadata.finalizers", 'Invalid value: "a b": name part'),
    (pod(finalizers=["a"]), "metadata.finalizers[0]", 'Invalid value: "a": name is neither a standard finalizer'),
    (pod(finalizers=["orphan", "foregroundDeletion"]), "metadata.finalizers", "Invalid value: "),
]  # fmt: skip
_PODS = [
    (pod({"containers": []}), "spec.containers", "Required value"),
    (pod({"ephemeralContainers": [{"name": "d", "image": "i"}]}), "spec.ephemeralContainers", "Forbidden: cannot be set on create"),
    (pod({"nodeName": "n", "schedulingGates": [{"name": "a"}]}), "spec.nodeName", "Forbidden: cannot be set until all schedulingGates"),
    (pod({"schedulingGates": [{"name": "a"}] * 2}), "spec.schedulingGates[1]", 'Duplicate value: "a"'),
    (pod({"schedulingGates": [{"name": "a b"}]}), "spec.schedulingGates[0]", 'Invalid value: "a b": name part'),
    (pod({"restartPolicy": "Sometimes"}), "spec.restartPolicy", 'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'),
    (pod({"dnsPolicy": "X"}), "spec.dnsPolicy", 'Unsupported value: "X": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"'),
    (pod({"dnsPolicy": "None"}), "spec.dnsConfig", "Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
    (pod({"dnsPolicy": "None", "dnsConfig": {}}), "spec.dnsConfig.nameservers", "Required value: must provide at least one DNS nameserver"),
    (pod({"dnsConfig": {"nameservers": ["x"]}}), "spec.dnsConfig.nameservers[0]", 'Invalid value: "x": must be a valid IP address'),
    (pod({"dnsConfig": {"nameservers": ["fe80::1%a\nsearch x"]}}), "spec.dnsConfig.nameservers[0]", 'Invalid value: "fe80::1%a'),
    (pod({"dnsConfig": {"nameservers": ["1.1.1.1"] * 4}}), "spec.dnsConfig.nameservers", "Invalid value: "),
    (pod({"dnsConfig": {"searches": ["a_b"]}}), "spec.dnsConfig.searches[0]", 'Invalid value: "a_b": '),
    (pod({"dnsConfig": {"searches": ["a"] * 33}}), "spec.dnsConfig.searches", "Invalid value: "),
    (pod({"dnsConfig": {"searches": ["x" * 200] * 11}}), "spec.dnsConfig.searches", "Invalid value: "),
    (pod({"dnsConfig": {"options": [{"value": "1"}]}}), "spec.dnsConfig.options[0]", "Required value: must not be empty"),
    (pod({"nodeSelector": {"a": "b c"}}), "spec.nodeSelector", f'Invalid value: "b c": {_LABEL_VALUE}'),
    (pod({"nodeName": "A"}), "spec.nodeName", f'Invalid value: "A": {_SUBDOMAIN}'),
    (pod({"serviceAccountName": "A"}), "spec.serviceAccountName", f'Invalid value: "A": {_SUBDOMAIN}'),
    (pod({"priorityClassName": "A"}), "spec.priorityClassName", f'Invalid value: "A": {_SUBDOMAIN}'),
    (pod({"runtimeClassName": "A"}), "spec.runtimeClassName", f'Invalid value: "A": {_SUBDOMAIN}'),
    (pod({"preemptionPolicy": "X"}), "spec.preemptionPolicy", 'Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"'),
    (pod({"hostname": "a.b"}), "spec.hostname", 'Invalid value: "a.b": must not contain dots'),
    (pod({"subdomain": "A"}), "spec.subdomain", f'Invalid value: "A": {_LABEL}'),
    (pod({"activeDeadlineSeconds": 0}), "spec.activeDeadlineSeconds", "Invalid value: 0: must be between 1 and 2147483647, inclusive"),
    (pod({"terminationGracePeriodSeconds": 2**63}), "spec.terminationGracePeriodSeconds", "Invalid value: "),
    (pod({"os": {"name": ""}}), "spec.os.name", "Required value: cannot be empty"),
    (pod({"os": {"name": "beos"}}), "spec.os", 'Unsupported value: "beos": supported values: "linux", "windows"'),
    (pod({"overhead": {"cpu": "-1"}}), "spec.overhead.limits[cpu]", f'Invalid value: "-1": {_NEGATIVE}'),
    (pod({"hostAliases": [{"ip": "x"}]}), "spec.hostAliases[0].ip", 'Invalid value: "x": must be a valid IP address'),
    (pod({"hostAliases": [{"ip": "fe80::1%eth0"}]}), "spec.hostAliases[0].ip", 'Invalid value: "fe80::1%eth0": must be a valid IP address'),
    (pod({"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["A"]}]}), "spec.hostAliases[0].hostnames[0]", 'Invalid value: "A": '),
    (pod({"readinessGates": [{"conditionType": "a b"}]}), "spec.readinessGates[0].conditionType", 'Invalid value: "a b": '),
    (pod({"hostUsers": False, "hostNetwork": True}), "spec.hostNetwork", "Forbidden: when `pod.Spec.HostUsers` is false"),
    (pod({"hostUsers": False, "hostPID": True}), "spec.HostPID", "Forbidden: when `pod.Spec.HostUsers` is false"),
    (pod({"shareProcessNamespace": True, "hostPID": True}), "spec.securityContext.shareProcessNamespace", "Invalid value: true: ShareProcessNamespace and HostPID"),
    (pod({"resources": {"limits": {"storage": "1"}}}), "spec.resources.limits[storage]", 'Unsupported value: "storage": supported values: "cpu", "memory"'),
    (pod({"tolerations": [{"operator": "Equal"}]}), "spec.tolerations[0].operator", 'Invalid value: "Equal": operator must be Exists when `key` is empty'),
    (pod({"tolerations": [{"key": "a", "operator": "Like"}]}), "spec.tolerations[0].operator", 'Unsupported value: "Like": supported values: "Equal", "Exists"'),
    (pod({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}), "spec.tolerations[0].operator", 'Invalid value: "b": value must be empty'),
    (pod({"tolerations": [{"key": "a", "value": "b c"}]}), "spec.tolerations[0].operator", 'Invalid value: "b c": '),
    (pod({"tolerations": [{"key": "a b"}]}), "spec.tolerations[0].key", 'Invalid value: "a b": '),
    (pod({"tolerations": [{"key": "a", "effect": "X"}]}), "spec.tolerations[0].effect", 'Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'),
    (pod({"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]}), "spec.tolerations[0].effect", "Invalid value: \"NoSchedule\": effect must be 'NoExecute'"),
    (on_node(key="a", operator="Like"), "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator", 'Invalid value: "Like": not a valid selector operator'),
    (on_node(key="a", operator="In"), "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values", "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
    (on_node(key="a", operator="Exists", values=["b"]), "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values", "Forbidden: may not be specified"),
    (on_node(key="a", operator="Gt"), "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values", "Required value: must be specified single value"),
    (pod({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}), "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", "Required value: must have at least one node selector term"),
    (pod({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}}}),
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key", 'Invalid value: "a": not a valid field selector key'),
    (affinity("nodeAffinity", "preferred", {"weight": 0, "preference": {}}), "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight", "Invalid value: 0: must be in the range 1-100"),
    (affinity("podAffinity", "required", {}), "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey", "Required value: can not be empty"),
    (affinity("podAntiAffinity", "preferred", {"weight": 101, "podAffinityTerm": {"topologyKey": "a"}}), "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight", "Invalid value: 101: must be in the range 1-100"),
    (affinity("podAffinity", "required", {"topologyKey": "a", "namespaces": ["A"]}), "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace", f'Invalid value: "A": {_LABEL}'),
    (affinity("podAffinity", "required", {"topologyKey": "a", "matchLabelKeys": ["a"]}), "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys", "Forbidden: must not be specified when labelSelector is not set"),
    (affinity("podAffinity", "required", {"topologyKey": "a", "labelSelector": {"matchLabels": {"a": "b c"}}}), "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels", f'Invalid value: "b c": {_LABEL_VALUE}'),
    (pod({"topologySpreadConstraints": [{"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]}), "spec.topologySpreadConstraints[0].maxSkew", "Invalid value: 0: must be greater than zero"),
    (pod({"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}), "spec.topologySpreadConstraints[0].topologyKey", "Required value: can not be empty"),
    (pod({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a"}]}), "spec.topologySpreadConstraints[0].whenUnsatisfiable", 'Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"'),
    (pod({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}] * 2}), "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}", 'Duplicate value: "{a, DoNotSchedule}"'),
    (pod({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}]}), "spec.topologySpreadConstraints[0].minDomains", "Invalid value: 1: can only use minDomains if"),
    (pod({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["a"]}]}), "spec.topologySpreadConstraints[0].matchLabelKeys", "Forbidden: must not be specified"),
]  # fmt: skip
_CONTAINERS = [
    (container(name="A"), f"{_C}.name", f'Invalid value: "A": {_LABEL}'),
    (container(name=""), f"{_C}.name", "Required value"),
    (pod({"containers": [{"name": "a", "image": "i"}] * 2}), "spec.containers[1].name", 'Duplicate value: "a"'),
    (pod({"initContainers": [{"name": "main", "image": "i"}]}), "spec.initContainers[0].name", 'Duplicate value: "main"'),
    (container(image=""), f"{_C}.image", "Required value"),
    (init(image="i "), "spec.initContainers[0].image", 'Invalid value: "i ": must not have leading or trailing whitespace'),
    (pod({"os": {}}), "spec.os.name", "Required value: cannot be empty"),
    (volume(image={}), "spec.volumes[0].image.reference", "Required value"),
    (container(image=" i"), f"{_C}.image", 'Invalid value: " i": must not have leading or trailing whitespace'),
    (container(terminationMessagePolicy="X"), f"{_C}.terminationMessagePolicy", 'Unsupported value: "X": supported values: "File", "FallbackToLogsOnError"'),
    (container(imagePullPolicy="Sometimes"), f"{_C}.imagePullPolicy", 'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"'),
    (container(restartPolicy="X"), f"{_C}.restartPolicy", 'Unsupported value: "X"'),
    (container(ports=[{"containerPort": 99999}]), f"{_C}.ports[0].containerPort", f"Invalid value: 99999: {_PORT}"),
    (container(ports=[{}]), f"{_C}.ports[0].containerPort", "Required value"),
    (container(ports=[{"containerPort": 1, "hostPort": -1}]), f"{_C}.ports[0].hostPort", f"Invalid value: -1: {_PORT}"),
    (container(ports=[{"containerPort": 1, "protocol": "ICMP"}]), f"{_C}.ports[0].protocol", 'Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'),
    (container(ports=[{"containerPort": 1, "name": "A"}]), f"{_C}.ports[0].name", 'Invalid value: "A": must contain only alpha-numeric'),
    (container(ports=[{"containerPort": 1, "name": "1"}]), f"{_C}.ports[0].name", 'Invalid value: "1": must contain at least one letter'),
    (container(ports=[{"containerPort": 1, "name": "a--b"}]), f"{_C}.ports[0].name", 'Invalid value: "a--b": must not contain consecutive'),
    (container(ports=[{"containerPort": 1, "name": "-a"}]), f"{_C}.ports[0].name", 'Invalid value: "-a": must not begin or end'),
    (container(ports=[{"containerPort": 1, "name": "x" * 16}]), f"{_C}.ports[0].name", f'Invalid value: "{"x" * 16}": must be no more than 15'),
    (container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]), f"{_C}.ports[1].name", 'Duplicate value: "a"'),
    (container(ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]), f"{_C}.ports[1].hostPort", 'Duplicate value: "TCP//5"'),
    (container(ports=[{"containerPort": 1, "hostPort": 5}] + [{"containerPort": 1, "hostPort": 5, "protocol": "UDP"}] * 2), f"{_C}.ports[2].hostPort", 'Duplicate value: "UDP//5"'),
    (container({"hostNetwork": True}, ports=[{"containerPort": 1, "hostPort": 2}]), f"{_C}.ports[0].hostPort", "Invalid value: 2: must match `containerPort`"),
    (container(env=[{"value": "x"}]), f"{_C}.env[0].name", "Required value"),
    (container(env=[{"name": "a=b"}]), f"{_C}.env[0].name", 'Invalid value: "a=b": a valid environment variable name must consist only of printable'),
    (container(env=[{"name": "a", "valueFrom": {}}]), f"{_C}.env[0].valueFrom", 'Invalid value: "": must specify one of: `fieldRef`'),
    (container(env=[{"name": "a", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]), f"{_C}.env[0].valueFrom", 'Invalid value: "": may not be specified when `value` is not empty'),
    (container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}}]), f"{_C}.env[0].valueFrom", 'Invalid value: "": may not have more than one field'),
    (container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]), f"{_C}.env[0].valueFrom.fieldRef.fieldPath", 'Invalid value: "spec.x": error converting fieldPath: field label not supported: spec.x'),
    (container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]), f"{_C}.env[0].valueFrom.fieldRef.fieldPath", 'Unsupported value: "status.phase"'),
    (container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x['a']"}}}]), f"{_C}.env[0].valueFrom.fieldRef", 'Invalid value: "spec.x": does not support subscript'),
    (container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}]), f"{_C}.env[0].valueFrom.fieldRef", 'Invalid value: "a b": '),
    (container(env=[{"name": "a", "valueFrom": {"fieldRef": {}}}]), f"{_C}.env[0].valueFrom.fieldRef.fieldPath", "Required value"),
    (container(env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "x"}}}]), f"{_C}.env[0].valueFrom.resourceFieldRef.resource", 'Unsupported value: "x"'),
    (container(env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]), f"{_C}.env[0].valueFrom.resourceFieldRef.divisor", 'Invalid value: "limits.cpu": only divisor\'s values 1m and 1'),
    (container(env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "2"}}}]), f"{_C}.env[0].valueFrom.resourceFieldRef.divisor", 'Invalid value: "limits.memory": only divisor'),
    (container(env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "c"}}}]), f"{_C}.env[0].valueFrom.configMapKeyRef.key", "Required value"),
    (container(env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": "A", "key": "k"}}}]), f"{_C}.env[0].valueFrom.secretKeyRef.name", 'Invalid value: "A": '),
    (container(env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": "a", "key": ".."}}}]), f"{_C}.env[0].valueFrom.secretKeyRef.key", "Invalid value: \"..\": must not be '..'"),
    (container(envFrom=[{}]), f"{_C}.envFrom", 'Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
    (container(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]), f"{_C}.envFrom", 'Invalid value: "": may not have more than one'),
    (container(envFrom=[{"configMapRef": {}}]), f"{_C}.envFrom[0].configMapRef.name", "Required value"),
    (container(envFrom=[{"prefix": "=", "configMapRef": {"name": "a"}}]), f"{_C}.envFrom[0].prefix", 'Invalid value: "=": '),
    (container(volumeMounts=[_MOUNT]), f"{_C}.volumeMounts[0].name", 'Not found: "v"'),
    (mounting(mountPath=""), f"{_C}.volumeMounts[0].mountPath", "Required value"),
    (mounting(subPath="../e"), f"{_C}.volumeMounts.subPath", "Invalid value: \"../e\": must not contain '..'"),
    (mounting(subPath="/e"), f"{_C}.volumeMounts.subPath", 'Invalid value: "/e": must be a relative path'),
    (mounting(subPathExpr="/e"), f"{_C}.volumeMounts.subPathExpr", 'Invalid value: "/e": must be a relative path'),
    (mounting(subPath="a", subPathExpr="a"), f"{_C}.volumeMounts[0].subPathExpr", 'Invalid value: "a": subPathExpr and subPath are mutually exclusive'),
    (mounting(mountPropagation="X"), f"{_C}.volumeMounts.mountPropagation", 'Unsupported value: "X": supported values: "Bidirectional", "HostToContainer", "None"'),
    (mounting(mountPropagation="Bidirectional"), f"{_C}.volumeMounts.mountPropagation", "Forbidden: Bidirectional mount propagation is available only to privileged"),
    (mounting(recursiveReadOnly="Enabled"), f"{_C}.volumeMounts.recursiveReadOnly", "Forbidden: may only be specified when readOnly is true"),
    (mounting(recursiveReadOnly="X"), f"{_C}.volumeMounts.recursiveReadOnly", 'Unsupported value: "X"'),
    (mounting(recursiveReadOnly="Enabled", readOnly=True, mountPropagation="HostToContainer"), f"{_C}.volumeMounts.recursiveReadOnly", "Forbidden: may only be specified when mountPropagation is None"),
    (container({"volumes": [{"name": "v", "emptyDir": {}}]}, volumeMounts=[_MOUNT] * 2), f"{_C}.volumeMounts[1].mountPath", 'Invalid value: "/v": must be unique'),
    (container({"volumes": [{"name": "v", "emptyDir": {}}]}, volumeDevices=[{"name": "v", "devicePath": "/d"}]), f"{_C}.volumeDevices[0].name", 'Invalid value: "v": can only use volume source type'),
    (container(volumeDevices=[{"name": "v", "devicePath": "/d"}]), f"{_C}.volumeDevices[0].name", 'Not found: "v"'),
    (container({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, volumeDevices=[{"name": "v"}]), f"{_C}.volumeDevices[0].devicePath", "Required value"),
    (container({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, volumeDevices=[{"name": "v", "devicePath": "/a/../b"}]), f"{_C}.volumeDevices[0].devicePath", 'Invalid value: "/a/../b": can not contain backsteps'),
    (container({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, volumeMounts=[_MOUNT], volumeDevices=[{"name": "v", "devicePath": "/d"}]), f"{_C}.volumeMounts[0].name", 'Invalid value: "v": must not already exist in volumeDevices'),
    (container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), f"{_C}.resources.requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1'),
    (container(resources={"limits": {"cpu": "-1"}}), f"{_C}.resources.limits[cpu]", f'Invalid value: "-1": {_NEGATIVE}'),
    (container(resources={"limits": {"wheels": "1"}}), f"{_C}.resources.limits[wheels]", 'Invalid value: "wheels": must be a standard resource type or fully qualified'),
    (container(resources={"limits": {"pods": "1"}}), f"{_C}.resources.limits[pods]", 'Invalid value: "pods": must be a standard resource for containers'),
    (container(resources={"limits": {"a b/c": "1"}}), f"{_C}.resources.limits[a b/c]", 'Invalid value: "a b/c": prefix part'),
    (container(resources={"limits": {"requests.x.io/a": "1"}}), f"{_C}.resources.limits[requests.x.io/a]", 'Invalid value: "requests.x.io/a": doesn\'t follow extended'),
    (container(resources={"limits": {"x.io/a": "1.5"}}), f"{_C}.resources.limits[x.io/a]", 'Invalid value: "1.5": must be an integer'),
    (container(resources={"requests": {"x.io/a": "1"}}), f"{_C}.resources.limits", "Required value: Limit must be set for non overcommitable resources"),
    (container(resources={"limits": {"x.io/a": "2"}, "requests": {"x.io/a": "1"}}), f"{_C}.resources.requests", 'Invalid value: "1": must be equal to x.io/a limit of 2'),
    (container(resources={"limits": {"hugepages-2Mi": "2Mi"}}), f"{_C}.resources", "Forbidden: HugePages require cpu or memory"),
    (container(resources={"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}), f"{_C}.resources.limits[hugepages-2Mi]", 'Invalid value: "3Mi": 3Mi is not positive integer multiple'),
    (container(resources={"limits": {"cpu": "1", "hugepages-2Mi": "0"}}), f"{_C}.resources.limits[hugepages-2Mi]", 'Invalid value: "0": 0 is not positive integer multiple'),
    (container(resizePolicy=[{"resourceName": "x", "restartPolicy": "NotRequired"}]), f"{_C}.resizePolicy", 'Unsupported value: "x": supported values: "cpu", "memory"'),
    (container(resizePolicy=[{"resourceName": "cpu"}]), f"{_C}.resizePolicy", "Required value"),
    (container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2), f"{_C}.resizePolicy[1]", 'Duplicate value: "cpu"'),
    (container(livenessProbe={}), f"{_C}.livenessProbe", "Required value: must specify a handler type"),
    (container(livenessProbe=_TWO_HANDLERS), f"{_C}.livenessProbe.tcpSocket", "Forbidden: may not specify more than 1 handler type"),
    (container(livenessProbe={"exec": {}}), f"{_C}.livenessProbe.exec.command", "Required value"),
    (container(livenessProbe={"tcpSocket": {"port": 0}}), f"{_C}.livenessProbe.tcpSocket.port", f"Invalid value: 0: {_PORT}"),
    (container(readinessProbe={"httpGet": {"port": "A"}}), f"{_C}.readinessProbe.httpGet.port", 'Invalid value: "A": must contain only'),
    (container(readinessProbe={"httpGet": {"port": 1, "scheme": "FTP"}}), f"{_C}.readinessProbe.httpGet.scheme", 'Unsupported value: "FTP": supported values: "HTTP", "HTTPS"'),
    (container(readinessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "a b"}]}}), f"{_C}.readinessProbe.httpGet.httpHeaders", 'Invalid value: "a b": a valid HTTP header'),
    (container(startupProbe={"grpc": {"port": 70000}}), f"{_C}.startupProbe.grpc.port", f"Invalid value: 70000: {_PORT}"),
    *((container(startupProbe={"tcpSocket": {"port": 1}, name: -1}), f"{_C}.startupProbe.{name}", f"Invalid value: -1: {_NEGATIVE}")
      for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")),
    (container(livenessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}), f"{_C}.livenessProbe.successThreshold", "Invalid value: 2: must be 1"),
    (container(readinessProbe={"tcpSocket": {"port": 1}, "successThreshold": -1}), f"{_C}.readinessProbe.successThreshold", f"Invalid value: -1: {_NEGATIVE}"),
    (container(livenessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 0}), f"{_C}.livenessProbe.terminationGracePeriodSeconds", "Invalid value: 0: must be greater than 0"),
    (container(readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 1}), f"{_C}.readinessProbe.terminationGracePeriodSeconds", "Invalid value: 1: must not be set for readinessProbes"),
    (container(lifecycle={"preStop": {}}), f"{_C}.lifecycle.preStop", "Required value: must specify a handler type"),
    (container(lifecycle={"postStart": _TWO_HANDLERS}), f"{_C}.lifecycle.postStart.tcpSocket", "Forbidden: may not specify more than 1 handler type"),
    (container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}), f"{_C}.lifecycle.preStop.sleep", "Invalid value: 31: must be greater than 0 and less than terminationGracePeriodSeconds (30)"),
    (init(livenessProbe={"tcpSocket": {"port": 1}}), "spec.initContainers[0].livenessProbe", "Forbidden: may not be set for init containers without restartPolicy=Always"),
    (init(lifecycle={"preStop": {"exec": {"command": ["a"]}}}), "spec.initContainers[0].lifecycle", "Forbidden: may not be set for init containers"),
    (init(restartPolicy="Always", livenessProbe={}), "spec.initContainers[0].livenessProbe", "Required value: must specify a handler type"),
]  # fmt: skip
_SECURITY = [
    (container(securityContext={"procMount": "Half"}), f"{_C}.securityContext.procMount", 'Unsupported value: "Half": supported values: "Default", "Unmasked"'),
    (container(securityContext={"procMount": "Unmasked"}), f"{_C}.securityContext.procMount", 'Invalid value: "Unmasked": `hostUsers` must be false'),
    (container(securityContext={"runAsUser": -1}), f"{_C}.securityContext.runAsUser", "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    (container(securityContext={"runAsGroup": 2**31}), f"{_C}.securityContext.runAsGroup", "Invalid value: 2147483648: "),
    (container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}), f"{_C}.securityContext", "Invalid value: "),
    (container(securityContext={"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": False}), f"{_C}.securityContext", "Invalid value: "),
    (container(securityContext={"seccompProfile": {"type": "X"}}), f"{_C}.securityContext.seccompProfile.type", 'Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"'),
    (container(securityContext={"seccompProfile": {}}), f"{_C}.securityContext.seccompProfile.type", "Required value: type is required when seccompProfile is set"),
    (container(securityContext={"seccompProfile": {"type": "Localhost"}}), f"{_C}.securityContext.seccompProfile.localhostProfile", "Required value: must be set when seccomp type is Localhost"),
    (container(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "../x"}}), f"{_C}.securityContext.seccompProfile.localhostProfile", "Invalid value: \"../x\": must not contain '..'"),
    (container(securityContext={"seccompProfile": {"type": "Unconfined", "localhostProfile": "x"}}), f"{_C}.securityContext.seccompProfile.localhostProfile", 'Invalid value: "x": can only be set when seccomp type is Localhost'),
    (container(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": " x"}}), f"{_C}.securityContext.appArmorProfile.localhostProfile", 'Invalid value: " x": must not be padded with whitespace'),
    (container(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": ""}}), f"{_C}.securityContext.appArmorProfile.localhostProfile", "Required value: must be set when AppArmor type is Localhost"),
    (pod({"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x" * 4096}}}), "spec.securityContext.appArmorProfile.localhostProfile", "Too long: may not be more than 4095 bytes"),
    (pod({"securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "A"}}}), "spec.securityContext.windowsOptions.gmsaCredentialSpecName", 'Invalid value: "A": '),
    (pod({"securityContext": {"fsGroup": -1}}), "spec.securityContext.fsGroup", "Invalid value: -1: "),
    (pod({"securityContext": {"supplementalGroups": [-1]}}), "spec.securityContext.supplementalGroups[0]", "Invalid value: -1: "),
    (pod({"securityContext": {"fsGroupChangePolicy": "X"}}), "spec.securityContext.fsGroupChangePolicy", 'Unsupported value: "X": supported values: "Always", "OnRootMismatch"'),
    (pod({"securityContext": {"supplementalGroupsPolicy": "X"}}), "spec.securityContext.supplementalGroupsPolicy", 'Unsupported value: "X": supported values: "Merge", "Strict"'),
    (pod({"securityContext": {"sysctls": [{"name": "foo-"}]}}), "spec.securityContext.sysctls[0].name", 'Invalid value: "foo-": must have at most 253 characters and match regex'),
    (pod({"securityContext": {"sysctls": [{"value": "1"}]}}), "spec.securityContext.sysctls[0].name", "Required value"),
    (pod({"securityContext": {"sysctls": [{"name": "a"}] * 2}}), "spec.securityContext.sysctls[1].name", 'Duplicate value: "a"'),
    (pod({"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net.ipv4.x"}]}}), "spec.securityContext.sysctls[0].name", "Invalid value: \"net.ipv4.x\": may not be specified when 'hostNetwork' is true"),
    (pod({"hostIPC": True, "securityContext": {"sysctls": [{"name": "kernel.sem"}]}}), "spec.securityContext.sysctls[0].name", "Invalid value: \"kernel.sem\": may not be specified when 'hostIPC' is true"),
]  # fmt: skip
_VOLUMES = [
    (pod({"volumes": [{"name": "v", "nothing": {}}]}), "spec.volumes[0]", "Required value: must specify a volume type"),
    (volume(emptyDir={}, hostPath={"path": "/x"}), "spec.volumes[0].hostPath", "Forbidden: may not specify more than 1 volume type"),
    (pod({"volumes": [{"name": "v", "emptyDir": {}}] * 2}), "spec.volumes[1].name", 'Duplicate value: "v"'),
    (pod({"volumes": [{"name": "A", "emptyDir": {}}]}), "spec.volumes[0].name", f'Invalid value: "A": {_LABEL}'),
    (volume(emptyDir={"sizeLimit": "-1"}), "spec.volumes[0].emptyDir.sizeLimit", "Forbidden: SizeLimit field must be a valid resource quantity"),
    (volume(hostPath={}), "spec.volumes[0].hostPath.path", "Required value"),
    (volume(hostPath={"path": "/a/../b"}), "spec.volumes[0].hostPath.path", "Invalid value: \"/a/../b\": must not contain '..'"),
    (volume(hostPath={"path": "/a", "type": "X"}), "spec.volumes[0].hostPath.type", 'Unsupported value: "X": supported values: "", "BlockDevice"'),
    (volume(gitRepo={}), "spec.volumes[0].gitRepo.repository", "Required value"),
    (volume(secret={}), "spec.volumes[0].secret.secretName", "Required value"),
    (volume(secret={"secretName": "s", "defaultMode": 512}), "spec.volumes[0].secret.defaultMode", "Invalid value: 512: must be a number between 0 and 0777 (octal)"),
    (volume(configMap={}), "spec.volumes[0].configMap.name", "Required value"),
    (volume(configMap={"name": "c", "items": [{"path": "a"}]}), "spec.volumes[0].configMap.items[0].key", "Required value"),
    (volume(configMap={"name": "c", "items": [{"key": "a"}]}), "spec.volumes[0].configMap.items[0].path", "Required value"),
    (volume(configMap={"name": "c", "items": [{"key": "a", "path": "..a"}]}), "spec.volumes[0].configMap.items[0].path", "Invalid value: \"..a\": must not start with '..'"),
    (volume(configMap={"name": "c", "items": [{"key": "a", "path": "a", "mode": -1}]}), "spec.volumes[0].configMap.items[0].mode", "Invalid value: -1: must be a number"),
    (volume(persistentVolumeClaim={}), "spec.volumes[0].persistentVolumeClaim.claimName", "Required value"),
    (volume(downwardAPI={"items": [{"path": "a"}]}), "spec.volumes[0].downwardAPI", "Required value: one of fieldRef and resourceFieldRef is required"),
    (volume(downwardAPI={"items": [{"fieldRef": {"fieldPath": "metadata.name"}}]}), "spec.volumes[0].downwardAPI.path", "Required value"),
    (volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}), "spec.volumes[0].downwardAPI.fieldRef.fieldPath", 'Unsupported value: "spec.nodeName"'),
    (volume(downwardAPI={"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}), "spec.volumes[0].downwardAPI.resourceFieldRef.containerName", "Required value"),
    (volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}, "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}), "spec.volumes[0].downwardAPI", 'Invalid value: "resource": fieldRef and resourceFieldRef'),
    (projected(secret={"name": "a"}, configMap={"name": "b"}), "spec.volumes[0].projected.sources[0]", "Forbidden: may not specify more than 1 volume type per source"),
    (projected(secret={}), "spec.volumes[0].projected.sources[0].secret.name", "Required value"),
    (projected(serviceAccountToken={"path": "a", "expirationSeconds": 599}), "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds", "Invalid value: 599: may not specify a duration less than 10 minutes"),
    (projected(serviceAccountToken={"path": "a", "expirationSeconds": 2**33}), "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds", "Invalid value: 8589934592: may not specify a duration larger"),
    (projected(serviceAccountToken={}), "spec.volumes[0].projected.path", "Required value"),
    (projected(configMap={"name": "a", "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "a"}]}), "spec.volumes[0].projected", 'Invalid value: "a": conflicting duplicate paths'),
    (volume(nfs={"server": "s", "path": "x"}), "spec.volumes[0].nfs.path", 'Invalid value: "x": must be an absolute path'),
    (volume(iscsi={"iqn": "iqn"}), "spec.volumes[0].iscsi.targetPortal", "Required value"),
    (volume(fc={}), "spec.volumes[0].fc.targetWWNs", "Required value: must specify either targetWWNs or wwids"),
    (volume(fc={"targetWWNs": ["a"], "wwids": ["b"], "lun": 1}), "spec.volumes[0].fc.targetWWNs", "Invalid value: "),
    (volume(fc={"targetWWNs": ["a"]}), "spec.volumes[0].fc.lun", "Required value: lun is required if targetWWNs"),
    (volume(flexVolume={"driver": "a/b", "options": {"kubernetes.io/x": "1"}}), "spec.volumes[0].flexVolume.options[kubernetes.io/x]", "Invalid value: \"kubernetes.io/x\": kubernetes.io and k8s.io"),
    (volume(csi={}), "spec.volumes[0].csi.driver", "Required value"),
    (volume(csi={"driver": "a" * 64}), "spec.volumes[0].csi.driver", "Too long: may not be more than 63 bytes"),
    (volume(csi={"driver": "a b"}), "spec.volumes[0].csi.driver", 'Invalid value: "a b": '),
    (volume(ephemeral={}), "spec.volumes[0].ephemeral.volumeClaimTemplate", "Required value"),
    (volume(ephemeral={"volumeClaimTemplate": {"metadata": {"labels": {"a b": ""}}}}), "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels", 'Invalid value: "a b": '),
    (volume(ephemeral={"volumeClaimTemplate": {"metadata": {"finalizers": ["a.b/c"]}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}}), "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.finalizers", "Forbidden: cannot be set"),
    (volume(ephemeral={"volumeClaimTemplate": {"metadata": {}}}), "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes", "Required value: at least 1 access mode is required"),
]  # fmt: skip
_OTHERS = [
    (with_kind("ConfigMap", data={"a/b": ""}), "data[a/b]", 'Invalid value: "a/b": a valid config key must consist of'),
    (with_kind("ConfigMap", data={"..a": ""}), "data[..a]", "Invalid value: \"..a\": must not start with '..'"),
    (with_kind("ConfigMap", binaryData={"a b": ""}), "binaryData[a b]", 'Invalid value: "a b": '),
    (with_kind("ConfigMap", data={"a": ""}, binaryData={"a": ""}), "data[a]", 'Invalid value: "a": duplicate of key present in binaryData'),
    (with_kind("ConfigMap", data={"a": "x" * (2**20 + 1)}), "[]", "Too long: may not be more than 1048576 bytes"),
    (with_kind("Secret", stringData={"a b": ""}), "data[a b]", 'Invalid value: "a b": '),
    (with_kind("Secret", stringData={"a": "x" * (2**20 + 1)}), "data", "Too long: may not be more than 1048576 bytes"),
    (with_kind("Secret", type="kubernetes.io/tls"), "data[tls.crt]", "Required value"),
    (with_kind("Secret", type="kubernetes.io/ssh-auth"), "data[ssh-privatekey]", "Required value"),
    (with_kind("Secret", type="kubernetes.io/basic-auth"), "data[password]", "Required value"),
    (with_kind("Secret", type="kubernetes.io/dockerconfigjson"), "data[.dockerconfigjson]", "Required value"),
    (with_kind("Secret", type="kubernetes.io/dockercfg", stringData={".dockercfg": "["}), "data[.dockercfg]", 'Invalid value: "<secret contents redacted>"'),
    (with_kind("Secret", type="kubernetes.io/service-account-token"), "metadata.annotations[kubernetes.io/service-account.name]", "Required value"),
    (with_kind("Service", spec={}), "spec.ports", "Required value"),
    (with_kind("Service"), "spec.ports", "Required value"),
    (service(type="Nonsense"), "spec.type", 'Unsupported value: "Nonsense": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'),
    (service(ports=[{"port": 0}]), "spec.ports[0].port", f"Invalid value: 0: {_PORT}"),
    (service(ports=[{"port": 1, "protocol": "X"}]), "spec.ports[0].protocol", 'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"'),
    (service(ports=[{"port": 1, "targetPort": "A"}]), "spec.ports[0].targetPort", 'Invalid value: "A": must contain only'),
    (service(ports=[{"port": 1}, {"port": 2}]), "spec.ports[0].name", "Required value"),
    (service(ports=[{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]), "spec.ports[1].name", 'Duplicate value: "a"'),
    (service(ports=[{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]), "spec.ports[1]", "Duplicate value: "),
    (service(ports=[{"port": 1, "name": "A"}]), "spec.ports[0].name", f'Invalid value: "A": {_LABEL}'),
    (service(ports=[{"port": 1, "appProtocol": "a b"}]), "spec.ports[0].appProtocol", 'Invalid value: "a b": '),
    (service(ports=[{"port": 1, "nodePort": 30000}]), "spec.ports[0].nodePort", "Forbidden: may not be used when `type` is 'ClusterIP'"),
    (service(type="NodePort", ports=[{"port": 1, "name": "a", "nodePort": 30000}, {"port": 2, "name": "b", "nodePort": 30000}]), "spec.ports[1].nodePort", "Duplicate value: 30000"),
    (service(selector={"a": "b c"}), "spec.selector", f'Invalid value: "b c": {_LABEL_VALUE}'),
    (service(sessionAffinity="X"), "spec.sessionAffinity", 'Unsupported value: "X": supported values: "ClientIP", "None"'),
    (service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}), "spec.sessionAffinityConfig.clientIP.timeoutSeconds", "Invalid value: 0: must be greater than 0 and less than 86400"),
    (service(sessionAffinity="X", sessionAffinityConfig={}), "spec.sessionAffinity", 'Unsupported value: "X": supported values: "ClientIP", "None"'),
    (service(ports=[{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]), "spec.ports[1].name", 'Duplicate value: "a"'),
    (service(clusterIP="x"), "spec.clusterIPs[0]", 'Invalid value: "x": must be a valid IP address'),
    (service(clusterIP="1.1.1.1", clusterIPs=["1.1.1.2"]), "spec.clusterIPs", "Invalid value: "),
    (service(clusterIPs=["1.1.1.2"]), "spec.clusterIPs", "Invalid value: "),
    (service(clusterIP="None", clusterIPs=["None", "1.1.1.1"]), "spec.clusterIPs", "Invalid value: "),
    (service(type="NodePort", clusterIP="None"), "spec.clusterIPs[0]", "Invalid value: \"None\": may not be set to 'None' for NodePort services"),
    (service(type="ExternalName"), "spec.externalName", "Required value"),
    (service(type="ExternalName", externalName="A"), "spec.externalName", f'Invalid value: "A": {_SUBDOMAIN}'),
    (service(type="ExternalName", externalName="a", clusterIP="None"), "spec.clusterIPs", "Forbidden: may not be set for ExternalName services"),
    (service(externalIPs=["127.0.0.1"]), "spec.externalIPs[0]", 'Invalid value: "127.0.0.1": may not be in the loopback range'),
    (service(externalIPs=["x"]), "spec.externalIPs[0]", 'Invalid value: "x": must be a valid IP address'),
    (service(ipFamilies=["IPv5"]), "spec.ipFamilies[0]", 'Unsupported value: "IPv5": supported values: "IPv4", "IPv6"'),
    (service(ipFamilyPolicy="X"), "spec.ipFamilyPolicy", 'Unsupported value: "X"'),
    (service(internalTrafficPolicy="X"), "spec.internalTrafficPolicy", 'Unsupported value: "X": supported values: "Cluster", "Local"'),
    (service(externalTrafficPolicy="Local"), "spec.externalTrafficPolicy", 'Invalid value: "Local": may only be set for externally-accessible services'),
    (service(type="ExternalName", externalName="a", externalIPs=["192.0.2.1"], externalTrafficPolicy="Local"), "spec.externalTrafficPolicy", 'Invalid value: "Local": may only be set for externally-accessible services'),
    (service(type="NodePort", externalTrafficPolicy="X"), "spec.externalTrafficPolicy", 'Unsupported value: "X"'),
    (service(trafficDistribution="X"), "spec.trafficDistribution", 'Unsupported value: "X": supported values: "PreferClose"'),
    (service(type="LoadBalancer", ports=[{"port": 80, "name": "a"}, {"port": 10250, "name": "b"}]), "spec.ports[1]", "Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet"),
    (service(type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=-1), "spec.healthCheckNodePort", f"Invalid value: -1: {_PORT}"),
    (annotated(_RANGES, "10.0.0.0/8", type="ClusterIP"), f"metadata.annotations[{_RANGES}]", "Forbidden: may only be used when `type` is 'LoadBalancer'"),
    (annotated(_RANGES, " 10.0.0.0/8 , 10.0.0.1", type="LoadBalancer"), f"metadata.annotations[{_RANGES}]", 'Invalid value: "10.0.0.1": must be a valid CIDR value'),
    (annotated(f"{_MODE}-mode", "Auto", hints="auto"), f"metadata.annotations[{_MODE}-mode]", f'Invalid value: "Auto": must match annotations[{_MODE}-aware-hints] when both are specified'),
    (service(healthCheckNodePort=1), "spec.healthCheckNodePort", "Invalid value: 1: may only be set when"),
    (service(loadBalancerSourceRanges=["1.1.1.0/24"]), "spec.LoadBalancerSourceRanges", "Forbidden: may only be used when `type` is 'LoadBalancer'"),
    (service(externalIPs=["fd00::1%eth0"]), "spec.externalIPs[0]", 'Invalid value: "fd00::1%eth0": must be a valid IP address'),
    (service(type="LoadBalancer", loadBalancerSourceRanges=["1.1.1.1"]), "spec.loadBalancerSourceRanges[0]", 'Invalid value: "1.1.1.1": must be a valid CIDR value'),
    (service(type="LoadBalancer", loadBalancerSourceRanges=["1.1.1.0/255.255.255.0"]), "spec.loadBalancerSourceRanges[0]", "Invalid value: "),
    (service(type="LoadBalancer", loadBalancerSourceRanges=["x"]), "spec.loadBalancerSourceRanges[0]", 'Invalid value: "x": must be a valid CIDR value'),
    (with_kind("Endpoints", subsets=[{"addresses": [{"ip": "127.0.0.1"}]}]), "subsets[0].addresses[0].ip", 'Invalid value: "127.0.0.1": may not be in the loopback'),
    (with_kind("Endpoints", subsets=[{"addresses": [{"ip": "::"}]}]), "subsets[0].addresses[0].ip", 'Invalid value: "::": may not be unspecified'),
    (with_kind("Endpoints", subsets=[{}]), "subsets[0]", "Required value: must specify `addresses` or `notReadyAddresses`"),
    (with_kind("Endpoints", subsets=[{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 0}]}]), "subsets[0].ports[0].port", f"Invalid value: 0: {_PORT}"),
    (with_kind("Endpoints", subsets=[{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 1}, {"port": 2}]}]), "subsets[0].ports[0].name", "Required value"),
    (with_kind("EndpointSlice"), "addressType", "Required value"),
    (with_kind("EndpointSlice", addressType="X"), "addressType", 'Unsupported value: "X": supported values: "FQDN", "IPv4", "IPv6"'),
    (with_kind("EndpointSlice", addressType="IPv4", endpoints=[{}]), "endpoints[0].addresses", "Required value: must contain at least 1 address"),
    (with_kind("EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["fd00::1"]}]), "endpoints[0].addresses[0]", 'Invalid value: "fd00::1": must be a valid IPv4 address'),
    (with_kind("EndpointSlice", addressType="IPv6", endpoints=[{"addresses": ["::ffff:1.1.1.1"]}]), "endpoints[0].addresses[0]", 'Invalid value: "::ffff:1.1.1.1": must be a valid IPv6 address'),
    (with_kind("EndpointSlice", addressType="FQDN", endpoints=[{"addresses": ["A"]}]), "endpoints[0].addresses[0]", 'Invalid value: "A": '),
    (with_kind("EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["1.1.1.1"]}] * 1001), "endpoints", "Too many: 1001: must have at most 1000 items"),
    (persistent(hostPath=None), "spec", "Required value: must specify a volume type"),
    (persistent(nfs={"server": "s", "path": "/"}), "spec.nfs", "Forbidden: may not specify more than 1 volume type"),
    (persistent(capacity={}), "spec.capacity", "Required value"),
    (persistent(capacity={"cpu": "1"}), "spec.capacity", "Unsupported value: "),
    (persistent(capacity={"storage": "0"}), "spec.capacity[storage]", 'Invalid value: "0": must be greater than zero'),
    (persistent(accessModes=[]), "spec.accessModes", "Required value"),
    (persistent(accessModes=["W"]), "spec.accessModes", 'Unsupported value: "W": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'),
    (persistent(persistentVolumeReclaimPolicy="X"), "spec.persistentVolumeReclaimPolicy", 'Unsupported value: "X": supported values: "Delete", "Recycle", "Retain"'),
    (persistent(hostPath={"path": "/"}, persistentVolumeReclaimPolicy="Recycle"), "spec.persistentVolumeReclaimPolicy", "Forbidden: may not be 'recycle' for a hostPath mount of '/'"),
    (persistent(hostPath=None, local={"path": "/x"}), "spec.nodeAffinity", "Required value: Local volume requires node affinity"),
    (persistent(nodeAffinity={}), "spec.nodeAffinity.required", "Required value: must specify required node constraints"),
    (persistent(hostPath=None, csi={"driver": "d"}), "spec.csi.volumeHandle", "Required value"),
    (persistent(hostPath=None, csi={"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s"}}), "spec.csi.nodePublishSecretRef.namespace", "Required value"),
    (persistent(storageClassName="A"), "spec.storageClassName", f'Invalid value: "A": {_SUBDOMAIN}'),
    (persistent(volumeMode="X"), "spec.volumeMode", 'Unsupported value: "X": supported values: "Block", "Filesystem"'),
    (claim(accessModes=["W"]), "spec.accessModes", 'Unsupported value: "W"'),
    (claim(accessModes=["ReadWriteOnce", "ReadWriteOncePod"]), "spec.accessModes", "Forbidden: may not use ReadWriteOncePod with other access modes"),
    (claim(accessModes=[]), "spec.accessModes", "Required value: at least 1 access mode is required"),
    (claim(resources={}), "spec.resources[storage]", "Required value"),
    (claim(resources={"requests": {"storage": "0"}}), "spec.resources[storage]", 'Invalid value: "0": must be greater than zero'),
    (claim(selector={"matchExpressions": [{"key": "a", "operator": "X"}]}), "spec.selector.matchExpressions[0].operator", 'Invalid value: "X": not a valid selector operator'),
    (claim(dataSourceRef={"kind": "Pod", "name": "p"}), "spec.dataSourceRef", "Invalid value: \"Pod\": must be 'PersistentVolumeClaim'"),
    (claim(dataSourceRef={"kind": "X", "apiGroup": "A", "name": "p"}), "spec.dataSourceRef.apiGroup", 'Invalid value: "A": '),
    (with_kind("Node", spec={"taints": [{"key": "a", "effect": "X"}]}), "metadata.taints[0].effect", 'Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'),
    (with_kind("Node", spec={"taints": [{"key": "a"}]}), "metadata.taints[0].effect", "Required value"),
    (with_kind("Node", spec={"taints": [{"key": "a b", "effect": "NoExecute"}]}), "metadata.taints[0].key", 'Invalid value: "a b": '),
    (with_kind("Node", spec={"taints": [{"key": "a", "value": "b c", "effect": "NoExecute"}]}), "metadata.taints[0].value", 'Invalid value: "b c": '),
    (with_kind("Node", spec={"taints": [{"key": "a", "effect": "NoExecute"}] * 2}), "metadata.taints[1]", "Duplicate value: "),
    (with_kind("Node", spec={"podCIDRs": ["x"]}), "spec.podCIDRs[0]", 'Invalid value: "x": must be a valid CIDR value'),
    (with_kind("Node", spec={"podCIDRs": ["10.0.0.0/8", "11.0.0.0/8"]}), "spec.podCIDRs", "Invalid value: "),
    (with_kind("Node", status={"capacity": {"cpu": "-1"}}), "status.capacity[cpu]", f'Invalid value: "-1": {_NEGATIVE}'),
    (with_kind("Namespace", spec={"finalizers": ["a"]}), "spec.finalizers[0]", 'Invalid value: "a": name is neither'),
    (with_kind("Lease", spec={"leaseDurationSeconds": 0}), "spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0"),
    (with_kind("Lease", spec={"leaseTransitions": -1}), "spec.leaseTransitions", f"Invalid value: -1: {_NEGATIVE}"),
    (with_kind("Event", involvedObject={"namespace": "a"}), "involvedObject.namespace", 'Invalid value: "a": does not match event.namespace'),
    (with_kind("VolumeAttachment", spec={"nodeName": "n", "source": {"persistentVolumeName": "v"}}), "spec.attacher", "Required value"),
    (with_kind("VolumeAttachment", spec={"attacher": "d", "nodeName": "n"}), "spec.source", "Required value: must specify exactly one"),
    (attachment(attacher=""), "spec.attacher", 'Invalid value: "": a lowercase RFC 1123 subdomain'),
    (attachment(nodeName=""), "spec.nodeName", 'Invalid value: "": a lowercase RFC 1123 subdomain'),
    (attachment(source={"persistentVolumeName": ""}), "spec.source.persistentVolumeName", "Required value: must specify non empty persistentVolumeName"),
    (with_kind("CSIDriver", spec={"fsGroupPolicy": "X"}), "spec.fsGroupPolicy", 'Unsupported value: "X"'),
    (with_kind("CSIDriver", spec={"volumeLifecycleModes": ["X"]}), "spec.volumeLifecycleModes", 'Unsupported value: "X": supported values: "Persistent", "Ephemeral"'),
    (with_kind("CSIDriver", spec={"tokenRequests": [{}, {"audience": ""}]}), "spec.tokenRequests[1].audience", 'Duplicate value: ""'),
    (with_kind("CSIDriver", spec={"tokenRequests": [{"expirationSeconds": 5}]}), "spec.tokenRequests[0].expirationSeconds", "Invalid value: 5: may not specify a duration less than 10 minutes"),
    (csi_node(name=""), "spec.drivers[0].name", 'Invalid value: "": a lowercase RFC 1123 subdomain'),
    (csi_node(nodeID="n" * 257), "spec.drivers[0].nodeID", 'Invalid value: "nnn'),
    (csi_node(topologyKeys=["a", "a"]), "spec.drivers[0]", 'Duplicate value: "a"'),
    (csi_node(topologyKeys=["a b"]), "spec.drivers[0]", 'Invalid value: "a b": name part must consist of'),
    (with_kind("CSIStorageCapacity", storageClassName="", capacity="1"), "storageClassName", 'Invalid value: "": a lowercase RFC 1123 subdomain'),
    (with_kind("CSIStorageCapacity", storageClassName="a", capacity="-1"), "capacity", f'Invalid value: "-1": {_NEGATIVE}'),
    (with_kind("StorageClass", provisioner="a", parameters={"": "b"}), "parameters", 'Invalid value: "": field can not be empty.'),
    (with_kind("StorageClass", provisioner="a", parameters={"a": "b" * 2**18}), "parameters", "Too long: may not be more than 262144 bytes"),
    (with_kind("StorageClass", provisioner="a", parameters=dict.fromkeys(map(str, range(512)), "b" * 600)), "parameters", "Too long: may not be more than 262144 bytes"),
    (with_kind("StorageClass", provisioner="a", parameters=dict.fromkeys(map(str, range(513)), "")), "parameters", "Too long: may not be more than 512 bytes"),
    (with_kind("CertificateSigningRequest", spec={"request": SIGNING_REQUEST, "usages": ["any"]}), "spec.signerName", "Required value"),
]  # fmt: skip
ROWS = [*_METADATA, *_PODS, *_CONTAINERS, *_SECURITY, *_VOLUMES, *_OTHERS]


def causes_of(obj: JsonObject) -> list[tuple[str, str]]:
    """The fields and messages of an object's refusal; none for a valid one."""
    try:
        validate_object(with_defaults({"apiVersion": "v1", **obj}))
    except InvalidFieldsError as error:
        return [(cause["field"], cause["message"]) for cause in error.details["causes"]]
    return []


@pytest.mark.parametrize(("obj", "field", "words"), ROWS, ids=[f"{each[0]['kind']} {each[1]}" for each in ROWS])
def test_each_rule_is_reported_at_its_field(obj: JsonObject, field: str, words: str) -> None:
    """In kube-apiserver's words, and without other causes."""
    told = causes_of(obj)
    assert [cause for cause in told if cause[0] == field and cause[1].startswith(words)], told
    twins = {field, field.replace("limits", "requests"), field.replace("ports[0]", "ports[1]")}
    assert {where for where, _ in told} <= {*twins, *_TOGETHER.get(field, ())}, told


_TOGETHER = {
    "spec.dataSourceRef": ["spec.dataSource"],
    "spec.dataSourceRef.apiGroup": ["spec.dataSource.apiGroup"],
    "spec.ports[0].port": ["spec.ports[0].targetPort"],
    "data[tls.crt]": ["data[tls.key]"],
    "data[password]": ["data[username]"],
    f"{_C}.volumeMounts[0].name": [f"{_C}.volumeDevices[0].name"],
    "spec.capacity": ["spec.capacity[cpu]"],
    "status.capacity[cpu]": ["status.allocatable[cpu]"],
    "metadata.finalizers": ["metadata.finalizers[0]"],
    "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels": [
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes",
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]",
    ],
    "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes": [
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]"
    ],
}
"""Fields that one mistake breaks together."""


def test_a_wrong_external_address_is_one_fault_and_a_wrong_endpoint_two() -> None:
    assert len(causes_of(service(externalIPs=["x"]))) == 1
    assert len(causes_of(with_kind("Endpoints", subsets=[{"addresses": [{"ip": "x"}]}]))) == 2


@pytest.mark.parametrize("kind", ["Lease", "PodDisruptionBudget", "Event", "RuntimeClass", "ConfigMap"])
def test_finalizers_of_a_few_kinds_need_no_domain(kind: str) -> None:
    """As measured at kube-apiserver 1.32."""
    fields = {field for field, _ in causes_of(with_kind(kind, metadata={"finalizers": ["a"]}))}
    assert ("metadata.finalizers[0]" in fields) is (kind == "ConfigMap")
    fields = {field for field, _ in causes_of(with_kind(kind, metadata={"finalizers": ["a b/"]}))}
    assert "metadata.finalizers" in fields


@pytest.mark.parametrize("size", [2**20 - 2, 2**20 - 1, 2**20])
def test_data_may_have_a_mebibyte_when_it_is_decoded(size: int) -> None:
    assert not causes_of(with_kind("Secret", stringData={"a": "x" * size}))


def test_a_node_is_chosen_by_any_value() -> None:
    """No label has a bad one, and kube-apiserver does not look (ValidateNodeSelectorRequirement)."""
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert not causes_of(pod({"affinity": {"nodeAffinity": required}}))


def test_a_hook_may_sleep_for_a_second() -> None:
    assert not causes_of(container(lifecycle={"preStop": {"sleep": {"seconds": 1}}}))


def test_all_errors_come_together_and_beyond_a_hundred_they_are_counted() -> None:
    """An object may have thousands; the answer stays small."""
    many = [{"name": "main", "image": ""} for _ in range(150)]
    with pytest.raises(InvalidFieldsError) as caught:
        validate_object(with_defaults(pod({"containers": many, "restartPolicy": "X", "dnsPolicy": "Y"})))
    assert len(caught.value.details["causes"]) == 100
    assert caught.value.message.startswith('Pod "p" is invalid: [spec.containers[0].image: Required value, ')
    assert caught.value.message.endswith(", and 201 more]")
