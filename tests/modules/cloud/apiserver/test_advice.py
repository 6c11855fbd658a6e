"""Advice about fields: the words of kube-apiserver 1.32.13 for the same objects."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.verbs.advice import object_advice
from modules.cloud.client.calls import ApiCall, ApiResult

_APPS = ("apps/v1", "deployments")
_NULL = "a null labelSelector results in matching no pod"


def advice(
    place: tuple[str, str], obj: JsonObject, verb: str = "create", before: JsonObject | None = None, **fields: Any
) -> list[str]:
    """Return the advice about an object."""
    call = ApiCall(verb=verb, api_version=place[0], plural=place[1], **fields)
    made = {**obj, "metadata": {"name": "a", **obj.get("metadata", {})}}
    return [*object_advice({("e.io/v1", "apps")}, call, ApiResult(object=made), before)]


def deployment(annotations: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    """Return a Deployment with fields of its template's spec."""
    return {"spec": {"template": {"metadata": {"annotations": annotations or {}}, "spec": spec}}}


def container(**fields: Any) -> JsonObject:
    """Return a Deployment of one container."""
    return deployment(containers=[{"name": "c", **fields}])


@pytest.mark.parametrize(
    ("obj", "path", "words"),
    [
        (deployment(nodeSelector={"beta.kubernetes.io/os": "linux"}), "spec.nodeSelector[beta.kubernetes.io/os]",
         'deprecated since v1.14; use "kubernetes.io/os" instead'),
        (deployment(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "app.kubernetes.io/created-by"}]}]}}}),
         "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
         ".matchExpressions[0].key", "app.kubernetes.io/created-by is deprecated since v1.9"),
        (deployment(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"preference": {"matchExpressions": [{"key": "node-role.kubernetes.io/master"}]}}]}}),
         "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
         ".matchExpressions[0].key",
         'node-role.kubernetes.io/master is use "node-role.kubernetes.io/control-plane" instead'),
        (deployment(topologySpreadConstraints=[{"topologyKey": "beta.kubernetes.io/arch", "labelSelector": {}}]),
         "spec.topologySpreadConstraints[0].topologyKey",
         'beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead'),
        (deployment(topologySpreadConstraints=[{"topologyKey": "a"}]),
         "spec.topologySpreadConstraints[0].labelSelector", _NULL),
        (deployment(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
         "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector", _NULL),
        (deployment(affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"podAffinityTerm": {"topologyKey": "a"}}]}}),
         "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
         ".labelSelector", _NULL),
        (deployment({"security.alpha.kubernetes.io/sysctls": ""}),
         "metadata.annotations[security.alpha.kubernetes.io/sysctls]",
         'non-functional in v1.11+; use the "sysctls" field instead'),
        (deployment({"seccomp.security.alpha.kubernetes.io/pod": ""}),
         "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]",
         'non-functional in v1.27+; use the "seccompProfile" field instead'),
        (deployment({"container.apparmor.security.beta.kubernetes.io/c": ""}, containers=[{"name": "c"}]),
         "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]",
         'deprecated since v1.30; use the "appArmorProfile" field instead'),
        (deployment(volumes=[{"name": "a", "gitRepo": {}}]), "spec.volumes[0].gitRepo", "deprecated in v1.11"),
        (deployment(hostAliases=[{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]), "spec.hostAliases[1].ip",
         'duplicate ip "1.2.3.4"'),
        (deployment(imagePullSecrets=[{"name": "s"}, {"name": "s"}]), "spec.imagePullSecrets[1].name",
         'duplicate name "s"'),
        (deployment(imagePullSecrets=[{}]), "spec.imagePullSecrets[0].name", 'invalid empty name ""'),
        (deployment(terminationGracePeriodSeconds=-1), "spec.terminationGracePeriodSeconds",
         "must be >= 0; negative values are invalid and will be treated as 1"),
        (container(resources={"limits": {"memory": "100m"}}), "spec.containers[0].resources.limits[memory]",
         'fractional byte value "100m" is invalid, must be an integer'),
        (container(env=[{"name": "A", "value": "b"}, {"name": "A", "value": "$(A)c"}, {"name": "A", "value": "d"}]),
         "spec.containers[0].env[2]", 'hides previous definition of "A", which may be dropped when using apply'),
        (container(ports=[{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]),
         "spec.containers[0].ports[1]", "duplicate port definition with spec.template.spec.containers[0].ports[0]"),
        (container(ports=[{"containerPort": 1}, {"containerPort": 1, "hostPort": 2}]),
         "spec.containers[0].ports[1]", "overlapping port definition with spec.template.spec.containers[0].ports[0]"),
        (container(ports=[{"containerPort": 1, "hostPort": 2, "hostIP": "::1"}, {"containerPort": 1, "hostPort": 2}]),
         "spec.containers[0].ports[1]",
         "dangerously ambiguous port definition with spec.template.spec.containers[0].ports[0]"),
    ],
)  # fmt: skip
def test_advice_about_a_template(obj: JsonObject, path: str, words: str) -> None:
    assert advice(_APPS, obj) == [f"spec.template.{path}: {words}"]


@pytest.mark.parametrize(
    ("place", "obj", "words"),
    [
        (_APPS, {"metadata": {"name": "a.b"}},
         "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label "
         "is recommended: [must not contain dots]"),
        (("v1", "pods"), {"spec": {"terminationGracePeriodSeconds": -1}},
         "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"),
        (("batch/v1", "cronjobs"),
         {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"imagePullSecrets": [{}]}}}}}},
         'spec.jobTemplate.spec.template.spec.imagePullSecrets[0].name: invalid empty name ""'),
        (("apps/v1", "statefulsets"),
         {"spec": {"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "1m"}}}}]}},
         'spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1m" is invalid, must be an '
         "integer"),
        (("v1", "persistentvolumeclaims"),
         {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}},
         "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "
         '"storageClassName" attribute instead'),
        (("v1", "persistentvolumes"), {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}},
         "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
         "approach is to use dynamic provisioning."),
        (("networking.k8s.io/v1", "ingresses"), {"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}},
         "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"),
        (("v1", "services"), {"spec": {"externalName": "a.b"}},
         'spec.externalName is ignored when spec.type is not "ExternalName"'),
        (("v1", "services"), {"spec": {"type": "ExternalName", "externalIPs": ["1.2.3.4"]}},
         'spec.externalIPs is ignored when spec.type is "ExternalName"'),
        (("e.io/v1", "apps"), {"metadata": {"finalizers": ["a.io", "a.io/b", "orphan"]}},
         'metadata.finalizers: "a.io": prefer a domain-qualified finalizer name including a path (/) to avoid '
         "accidental conflicts with other finalizer writers"),
    ],
)  # fmt: skip
def test_advice_about_other_objects(place: tuple[str, str], obj: JsonObject, words: str) -> None:
    assert advice(place, obj) == [words]


def test_changes_and_nodes() -> None:
    """A changed template gets advice, and one with another label none. A changed pod gets none: people change no pods.
    Nodes get none.
    """
    obj = deployment(terminationGracePeriodSeconds=-1)
    old, new = ({**obj, "metadata": {"generation": number}} for number in (1, 2))
    assert len(advice(_APPS, new, "patch", old)) == len(advice(_APPS, new, "patch")) == 1
    assert advice(_APPS, {**old, "metadata": {"generation": 1, "labels": {"a": "b"}}}, "patch", old) == []
    assert advice(("v1", "pods"), obj["spec"]["template"], "update", {"metadata": {}}) == []
    finalizers = {"metadata": {"finalizers": ["a.io", "b.io"]}}
    assert len(advice(("e.io/v1", "apps"), finalizers, "update", {"metadata": {"finalizers": ["a.io"]}})) == 1
    assert advice(_APPS, obj, node="n1") == advice(_APPS, obj, subresource="status") == advice(_APPS, obj, "get") == []


def test_advice_is_bounded() -> None:
    assert len(advice(_APPS, container(env=[{"name": "A"}] * 10_000))) == 20
