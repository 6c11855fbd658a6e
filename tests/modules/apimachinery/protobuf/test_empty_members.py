"""Empty members that Kubernetes' JSON leaves out: Go's `omitempty` in the types of `k8s.io/api`."""

from typing import Any

import pytest

from modules.apimachinery.protobuf.empty_members import template_without_empty_members, without_empty_members


@pytest.mark.parametrize(
    ("api_version", "kind", "given", "stored"),
    [
        ("v1", "ConfigMap", {"metadata": {"ownerReferences": [], "labels": {}}, "data": {}}, {"metadata": {}}),
        ("v1", "Pod", {"spec": {"hostNetwork": False, "priority": 0}}, {"spec": {"priority": 0}}),
        ("v1", "Pod", {"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}, None),
        ("v1", "Pod", {"spec": {"containers": []}}, None),
        ("v1", "Pod", {"spec": {"containers": [{"name": "", "env": []}]}}, {"spec": {"containers": [{"name": ""}]}}),
        ("v1", "Pod", {"metadata": {"labels": {"empty": ""}}, "unknown": {"list": []}}, None),
        ("v1", "Pod", {"status": {"conditions": [], "startTime": "T"}}, {"status": {"startTime": "T"}}),
        ("apps/v1", "Deployment", {"spec": {"replicas": 0, "paused": False}}, {"spec": {"replicas": 0}}),
        ("v1", "Service", {"spec": {"type": "", "clusterIP": ""}}, {"spec": {}}),
        ("v1", "PersistentVolumeClaim", {"spec": {"storageClassName": "", "volumeName": ""}},
         {"spec": {"storageClassName": ""}}),
        ("v1", "ConfigMap", {"metadata": {"name": "", "namespace": ""}}, {"metadata": {"name": ""}}),
        ("discovery.k8s.io/v1", "EndpointSlice", {"endpoints": [], "ports": []}, None),
        ("rbac.authorization.k8s.io/v1", "Role", {"rules": []}, None),
        ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": []}}, None),
        ("v1", "ReplicationController", {"status": {"replicas": 0, "readyReplicas": 0}}, {"status": {"replicas": 0}}),
        ("apps/v1", "ControllerRevision", {"data": {"spec": {"template": {"list": [], "zero": 0}}}}, None),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition",
         {"spec": {"names": {"shortNames": []}, "versions": []}, "status": {"conditions": []}},
         {"spec": {"names": {}, "versions": []}, "status": {"conditions": []}}),
        ("networking.k8s.io/v1", "Ingress", {"spec": {"tls": [], "rules": [{"host": "", "http": {"paths": []}}]}},
         {"spec": {"rules": [{"http": {"paths": []}}]}}),
        ("example.com/v1", "Colour", {"metadata": {"finalizers": []}, "tones": []}, {"metadata": {}, "tones": []}),
        ("v1", "ConfigMap", {"metadata": "nonsense", "data": []}, {"metadata": "nonsense"}),
    ],
)  # fmt: skip
def test_stored_forms(api_version: str, kind: str, given: dict[str, Any], stored: dict[str, Any] | None) -> None:
    """`None`: as it is given."""
    of = {"apiVersion": api_version, "kind": kind}
    assert without_empty_members({**of, **given}) == {**of, **(given if stored is None else stored)}


def test_a_template_is_stored_as_a_pod_is() -> None:
    given = {"metadata": {"annotations": {}}, "spec": {"nodeSelector": {}, "containers": [{"ports": []}]}}
    assert template_without_empty_members(given) == {"metadata": {}, "spec": {"containers": [{}]}}


def test_whole_values_are_not_copied() -> None:
    """A status that comes every few seconds shares its parts with the stored one."""
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}}
    pod |= {"spec": {"containers": [{"name": "main"}]}, "status": {"conditions": [], "phase": "Running"}}
    stored = without_empty_members(pod)
    assert stored["status"] == {"phase": "Running"}
    assert (stored["metadata"], stored["spec"]) == (pod["metadata"], pod["spec"])
    assert stored["spec"] is pod["spec"]
    assert without_empty_members(stored) is stored
    changed = {**stored, "status": pod["status"], "kind": "Pod"}
    assert without_empty_members(changed, stored) == stored, "only what is new is looked at, and its empty members go"
    assert list(without_empty_members(changed, stored)) == list(stored)
    older = {**stored, "spec": {**pod["spec"], "nodeSelector": {}}}
    assert without_empty_members({**older, "status": pod["status"]}, older) == older, "an older cloudcore has stored it"
