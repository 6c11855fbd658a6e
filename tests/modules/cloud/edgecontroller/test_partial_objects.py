"""What is kept of objects whose bodies no node needs."""

from typing import Any

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.pod_references import other_references_of, references_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.authorization.node_accounts import NodeAccounts
from modules.cloud.authorization.node_authorizer import account_of
from modules.cloud.edgecontroller.downstream.edge_mesh import _address_of
from modules.cloud.edgecontroller.mirror.mirrored_bodies import _AT_HAND, Mirrored, MirroredBodies, partial_object
from tests.modules.cloud.objects import configmap, pod

_METADATA = {"name": "web", "namespace": "default", "uid": "u1", "resourceVersion": "7"}
_REFERRING: dict[str, Any] = {
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "pull"}],
    "initContainers": [{"name": "first", "envFrom": [{"configMapRef": {"name": "first"}}]}],
    "containers": [
        {
            "name": "main",
            "image": "busybox:1.35",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "one", "key": "a"}}}],
        }
    ],
    "volumes": [
        {"name": "a", "projected": {"sources": [{"configMap": {"name": "ca"}}, {"secret": {"name": "token"}}]}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "c", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "d", "csi": {"nodePublishSecretRef": {"name": "publish"}}},
        {"name": "e", "emptyDir": {}},
    ],
}


def test_a_pod_keeps_its_references_wherever_its_spec_names_them() -> None:
    """Sent references, and ones that its node may only read."""
    whole = {**pod(**_REFERRING), "metadata": {**_METADATA, "annotations": {"a": "b" * 100}}}
    part = partial_object(whole)
    assert references_of(part) == references_of(whole)
    assert set(other_references_of(part)) == set(other_references_of(whole))
    assert ObjectKey("Secret", "default", "publish") in other_references_of(part)
    assert ObjectKey("PersistentVolumeClaim", "default", "web-c") in other_references_of(part)


def test_a_pod_keeps_its_place_and_its_address_and_little_else() -> None:
    """A Service's pods are sent to edges of 2019, whatever their nodes are."""
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": conditions,
        "containerStatuses": [{"name": "main"}],
    }
    metadata = {**_METADATA, "labels": {"app": "web"}, "annotations": {"a": "b"}}
    part = partial_object({**pod(), "metadata": metadata, "status": status})
    assert part["metadata"] == {**_METADATA, "labels": {"app": "web"}}
    assert part["spec"] == {"nodeName": "n1", "containers": [{"name": "main"}], "volumes": []}
    kept = [{"type": "Ready", "status": "True"}]
    assert part["status"] == {"phase": "Running", "podIP": "10.0.0.1", "conditions": kept}


def test_a_mirror_pod_stays_one() -> None:
    """Otherwise it would count as bound by others, and allow its node more, and its references as theirs."""
    mirror = {**pod(**_REFERRING), "metadata": {**_METADATA, "annotations": {CONFIG_MIRROR: "hash" * 100, "a": "b"}}}
    part = partial_object(mirror)
    assert part["metadata"] == {**_METADATA, "annotations": {CONFIG_MIRROR: ""}}
    accounts, capacity = NodeAccounts(Simulation().clock), {"status": {"capacity": {"pods": 1}}}
    accounts.put(ObjectKey("Pod", "default", "web"), part)
    other = {**mirror, "metadata": {**mirror["metadata"], "name": "other"}}
    assert "mirror pods, limited: 1" in accounts.refusal("n1", None, other, capacity)
    assert account_of(part) == ""


@pytest.mark.parametrize("annotations", [{}, {CONFIG_MIRROR: "hash"}])
def test_a_part_is_its_own_part(annotations: dict[str, str]) -> None:
    """Only a part may be there when a body is dropped."""
    part = partial_object({**pod(**_REFERRING), "metadata": {**_METADATA, "annotations": annotations}})
    assert partial_object(part) == part


def test_nothing_of_the_content_of_a_configmap_or_secret_is_kept() -> None:
    part = partial_object({**configmap(a="hidden"), "metadata": {**_METADATA, "annotations": {"b": "hidden"}}})
    assert part == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": _METADATA}
    assert b"hidden" not in msgspec.json.encode(part)


def test_edges_of_2019_are_sent_the_same_of_a_part_as_of_a_whole_pod() -> None:
    metadata = {**_METADATA, "labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.1.1", "conditions": conditions}
    whole = {**pod(hostNetwork=True, **_REFERRING), "metadata": metadata, "status": status}
    assert _address_of(partial_object(whole)) == _address_of(whole)


def test_few_objects_are_in_memory_in_both_forms() -> None:
    bodies = MirroredBodies()
    keys = [ObjectKey("ConfigMap", "default", f"c{number}") for number in range(2 * _AT_HAND)]
    for key in keys:
        bodies.put(key, Mirrored("u", "1", b"{}"))
    assert [bodies.find(key) for key in keys] == [{}] * len(keys)
    assert len(bodies._at_hand) == _AT_HAND
