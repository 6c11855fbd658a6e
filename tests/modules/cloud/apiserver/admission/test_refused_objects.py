"""Objects that a kube-apiserver 1.32 refuses, by what is wrong with them: code, field, and its words."""

from __future__ import annotations

from typing import Any

import pytest

from beehive.clock import RealClock
from modules.apimachinery.api_errors import ApiError
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from tests.modules.cloud.objects import configmap, pod, service

Json = dict[str, Any]


def container(**fields: Any) -> Json:
    """Return a pod whose only container has other fields."""
    return pod(containers=[{"name": "main", "image": "busybox", **fields}])


def volume(**fields: Any) -> Json:
    """Return a pod with a volume."""
    return pod(volumes=[{"name": "data", **fields}])


def meta(**fields: Any) -> Json:
    """Return a configmap with other metadata."""
    return {**configmap(), "metadata": {"name": "settings", **fields}}


def of(kind: str, version: str = "v1", **fields: Any) -> Json:
    """Return an object."""
    return {"kind": kind, "apiVersion": version, "metadata": {"name": "x"}, **fields}


def serving(**spec: Any) -> Json:
    """Return a Service with another spec."""
    return {**service(), "spec": {**service()["spec"], **spec}}


def claim(**spec: Any) -> Json:
    """Return a PersistentVolumeClaim."""
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return of("PersistentVolumeClaim", spec=whole)


def affinity(operator: str) -> Json:
    """Return a pod with a required node affinity."""
    terms = [{"matchExpressions": [{"key": "a", "operator": operator, "values": ["b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(affinity={"nodeAffinity": required})


def deployment(**spec: Any) -> Json:
    """Return a Deployment."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    whole = {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    return of("Deployment", "apps/v1", spec=whole)


def job(**spec: Any) -> Json:
    """Return a Job."""
    pods = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never"}
    return of("Job", "batch/v1", spec={"template": {"metadata": {"labels": {"app": "x"}}, "spec": pods}, **spec})


_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}
_C = "spec.containers[0]"
_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
ROWS: list[tuple[str, Json, str, str]] = [
    ("a label's key with a space", meta(labels={"a b": "c"}), "metadata.labels", "name part must consist of"),
    ("a label of 64 characters", meta(labels={"a": "b" * 64}), "metadata.labels", "must be no more than 63"),
    ("a label with a slash at its end", meta(labels={"a/": "b"}), "metadata.labels", "name part must be non-empty"),
    ("an annotation's key with a space", meta(annotations={"a b": "c"}), "metadata.annotations", "must consist of"),
    ("a finalizer with a space", meta(finalizers=["a b"]), "metadata.finalizers", "must consist of"),
    ("a finalizer without a domain", meta(finalizers=["ab"]), "metadata.finalizers[0]", "fully qualified"),
    ("an owner without a uid", meta(ownerReferences=[_OWNER]), "metadata.ownerReferences.uid", "must not be empty"),
    ("a name with a capital", {**configmap(), "metadata": {"name": "A"}}, "metadata.name", "RFC 1123 subdomain"),
    ("a name of 254 characters", {**configmap(), "metadata": {"name": "a" * 254}}, "metadata.name", "no more than 253"),
    (
        "a namespace with a dot",
        {**of("Namespace"), "metadata": {"name": "a.b"}},
        "metadata.name",
        "must not contain dots",
    ),
    ("no containers", pod(containers=[]), "spec.containers", "Required value"),
    ("two containers of a name", pod(containers=[{"name": "a", "image": "b"}] * 2), "spec.containers[1].name", "Dupl"),
    ("a container without an image", pod(containers=[{"name": "a"}]), f"{_C}.image", "Required value"),
    ("a container's name with a capital", container(name="A"), f"{_C}.name", "RFC 1123 label"),
    (
        "a request above its limit",
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        f"{_C}.resources.requests",
        "must be less than or equal to cpu limit of 1",
    ),
    (
        "a negative request",
        container(resources={"requests": {"cpu": "-1"}}),
        f"{_C}.resources.requests[cpu]",
        "greater",
    ),
    (
        "a resource of no name",
        container(resources={"limits": {"spoons": "1"}}),
        f"{_C}.resources.limits[spoons]",
        "must",
    ),
    ("a probe of nothing", container(livenessProbe={}), f"{_C}.livenessProbe", "must specify a handler type"),
    (
        "a probe with a negative delay",
        container(livenessProbe={"exec": {"command": ["a"]}, "initialDelaySeconds": -1}),
        f"{_C}.livenessProbe.initialDelaySeconds",
        "greater than or equal to 0",
    ),
    (
        "a liveness probe that wants two successes",
        container(livenessProbe={"exec": {"command": ["a"]}, "successThreshold": 2}),
        f"{_C}.livenessProbe.successThreshold",
        "must be 1",
    ),
    ("port 99999", container(ports=[{"containerPort": 99999}]), f"{_C}.ports[0].containerPort", "between 1 and 65535"),
    (
        "an unknown protocol",
        container(ports=[{"containerPort": 1, "protocol": "X"}]),
        f"{_C}.ports[0].protocol",
        "Unsup",
    ),
    ("an unknown pull policy", container(imagePullPolicy="Often"), f"{_C}.imagePullPolicy", "Unsupported value"),
    ("an unknown restart policy", pod(restartPolicy="Often"), "spec.restartPolicy", "Unsupported value"),
    ("an unknown DNS policy", pod(dnsPolicy="Often"), "spec.dnsPolicy", "Unsupported value"),
    ("DNS policy None without servers", pod(dnsPolicy="None"), "spec.dnsConfig", "must provide"),
    (
        "an unknown operator of a toleration",
        pod(tolerations=[{"key": "a", "operator": "X"}]),
        "spec.tolerations[0].operator",
        "Unsup",
    ),
    (
        "a toleration of all with a value",
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "spec.tolerations[0].operator",
        "value must be empty",
    ),
    (
        "an unknown operator of an affinity",
        affinity("X"),
        f"{_TERMS}[0].matchExpressions[0].operator",
        "not a valid selector operator",
    ),
    (
        "a sub path that climbs",
        pod(
            volumes=[{"name": "d", "emptyDir": {}}],
            containers=[
                {"name": "a", "image": "b", "volumeMounts": [{"name": "d", "mountPath": "/d", "subPath": "../e"}]}
            ],
        ),
        f"{_C}.volumeMounts.subPath",
        "must not contain '..'",
    ),
    (
        "a mount of no volume",
        container(volumeMounts=[{"name": "d", "mountPath": "/d"}]),
        f"{_C}.volumeMounts[0].name",
        "Not found",
    ),
    (
        "a volume with two sources",
        volume(emptyDir={}, hostPath={"path": "/x"}),
        "spec.volumes[0].hostPath",
        "may not specify more than 1 volume type",
    ),
    (
        "a hostPath that climbs",
        volume(hostPath={"path": "/a/../b"}),
        "spec.volumes[0].hostPath.path",
        "must not contain '..'",
    ),
    ("a deadline of zero", pod(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "between 1 and"),
    (
        "a variable with a value and a source",
        container(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        f"{_C}.env[0].valueFrom",
        "may not be specified when `value` is not empty",
    ),
    ("a variable without a name", container(env=[{"name": "", "value": "b"}]), f"{_C}.env[0].name", "Required value"),
    (
        "debug containers in a new pod",
        pod(ephemeralContainers=[{"name": "d", "image": "b"}]),
        "spec.ephemeralContainers",
        "cannot be set on create",
    ),
    (
        "a sysctl of no form",
        pod(securityContext={"sysctls": [{"name": "foo-", "value": "1"}]}),
        "spec.securityContext.sysctls[0].name",
        "must have at most 253 characters and match regex",
    ),
    (
        "a node and a scheduling gate",
        pod(schedulingGates=[{"name": "a.b/c"}]),
        "spec.nodeName",
        "cannot be set until all schedulingGates have been cleared",
    ),
    ("a service without ports", serving(ports=[]), "spec.ports", "Required value"),
    ("a service of an unknown type", serving(type="Nonsense"), "spec.type", "Unsupported value"),
    ("a service at port 0", serving(ports=[{"port": 0}]), "spec.ports[0].port", "between 1 and 65535"),
    (
        "a service's name with a digit first",
        {**service(), "metadata": {"name": "1a"}},
        "metadata.name",
        "DNS-1035 label",
    ),
    ("two ports without names", serving(ports=[{"port": 1}, {"port": 2}]), "spec.ports[0].name", "Required value"),
    ("a claim of an unknown mode", claim(accessModes=["W"]), "spec.accessModes", "Unsupported value"),
    ("a claim without storage", claim(resources={}), "spec.resources[storage]", "Required value"),
    (
        "a volume without a source",
        of("PersistentVolume", spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}),
        "spec",
        "must specify a volume type",
    ),
    ("a TLS secret without keys", of("Secret", type="kubernetes.io/tls"), "data[tls.crt]", "Required value"),
    (
        "a configmap's key with a slash",
        {**configmap(), "data": {"a/b": "c"}},
        "data[a/b]",
        "a valid config key must consist of",
    ),
    (
        "a taint of an unknown effect",
        {**of("Node"), "spec": {"taints": [{"key": "a", "effect": "X"}]}},
        "metadata.taints[0].effect",
        "Unsupported value",
    ),
    (
        "a selector that misses its template",
        deployment(selector={"matchLabels": {"app": "y"}}),
        "spec.template.metadata.labels",
        "`selector` does not match template `labels`",
    ),
    ("a negative number of replicas", deployment(replicas=-1), "spec.replicas", "greater than or equal to 0"),
    (
        "a priority class of the system's",
        {**of("PriorityClass", "scheduling.k8s.io/v1", value=1), "metadata": {"name": "system-mine"}},
        "metadata.name",
        "reserved for system use only",
    ),
    (
        "a binding without a role",
        of("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", roleRef={"kind": "ClusterRole"}),
        "roleRef.name",
        "Required value",
    ),
    (
        "a namespace of an unknown security level",
        {**of("Namespace"), "metadata": {"name": "x", "labels": {"pod-security.kubernetes.io/warn": "loud"}}},
        "metadata.labels[pod-security.kubernetes.io/warn]",
        'Invalid value: "loud": must be one of privileged, baseline, restricted',
    ),
    (
        "a namespace of an unknown security version",
        {**of("Namespace"), "metadata": {"name": "x", "labels": {"pod-security.kubernetes.io/enforce-version": "1"}}},
        "metadata.labels[pod-security.kubernetes.io/enforce-version]",
        'must be "latest" or "v1.x"',
    ),
    ("a Job with a selector", job(selector={"matchLabels": {"app": "x"}}), "spec.selector", "not auto-generated"),
    ("a Job without the selector that it wants to set", job(manualSelector=True), "spec.selector", "Required value"),
    (
        "a Job whose own selector misses its template",
        job(manualSelector=True, selector={"matchLabels": {"app": "y"}}),
        "spec.template.metadata.labels",
        "`selector` does not match template `labels`",
    ),
    ("a hostname with a dot", pod(hostname="a.b"), "spec.hostname", "must not contain dots"),
]
"""What is wrong, the object, the field, and a part of the message."""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    made = Cluster(RealClock(), plugins=PLUGINS)
    make_system_objects(made)
    return made


@pytest.mark.parametrize(("obj", "field", "words"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_it_is_refused_with_its_field(cluster: Cluster, obj: Json, field: str, words: str) -> None:
    before = len(list(cluster.storage))
    with pytest.raises(ApiError) as refused:
        cluster.create(obj)
    told = [(cause["field"], cause["message"]) for cause in refused.value.details["causes"]]
    assert refused.value.code == 422
    assert any(where == field and words in message for where, message in told), told
    assert len(list(cluster.storage)) == before
