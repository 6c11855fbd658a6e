"""The volume with a token that the API server adds to pods, as kube-apiserver 1.32 does."""

from typing import Any

import pytest

from beehive.clock import RealClock
from modules.apimachinery.conversion import copied
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.apiserver.admission.chain import PLUGINS_WITH_TOKENS
from modules.cloud.apiserver.built_in_controllers import (
    keep_root_certificates,
    make_default_accounts,
    may_lack_certificate,
)
from modules.cloud.apiserver.cluster import ApplyOutcome, Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.storage.object_storage import ObjectEvent
from tests.modules.cloud.objects import namespace, pod

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT = "kube-root-ca.crt"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(RealClock(), plugins=PLUGINS_WITH_TOKENS)
    make_system_objects(made)
    make_default_accounts(made)
    return made


def account(cluster: Cluster, name: str, **fields: Any) -> None:
    metadata = {"name": name, "namespace": "default"}
    cluster.create({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata, **fields})


def mounts(container: dict[str, Any]) -> list[str]:
    return [mount["mountPath"] for mount in container.get("volumeMounts") or ()]


def test_every_container_gets_the_volume(cluster: Cluster) -> None:
    first = {"name": "first", "image": "busybox:1.35"}
    spec = cluster.create(pod("web", initContainers=[first]))["spec"]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-12345")
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": ROOT, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": PATH}
    assert [each["volumeMounts"] for each in (*spec["initContainers"], *spec["containers"])] == [[mount], [mount]]
    other = cluster.create(pod("other"))["spec"]["volumes"][0]["name"]
    assert other != volume["name"]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "is_mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False), (None, False, False)],
)
def test_account_and_pod_may_refuse_it(
    cluster: Cluster, of_account: bool | None, of_pod: bool | None, is_mounted: bool
) -> None:
    """The pod's setting has precedence over its account's."""
    account(cluster, "app", **({} if of_account is None else {"automountServiceAccountToken": of_account}))
    wanted = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
    spec = cluster.create(pod("web", serviceAccountName="app", **wanted))["spec"]
    assert (PATH in mounts(spec["containers"][0]), bool(spec.get("volumes"))) == (is_mounted, is_mounted)


def test_a_containers_own_mount_there_stays(cluster: Cluster) -> None:
    own = {"name": "own", "mountPath": PATH}
    containers = [{"name": "main", "image": "busybox:1.35", "volumeMounts": [own]}]
    spec = cluster.create(pod("web", containers=containers, volumes=[{"name": "own", "emptyDir": {}}]))["spec"]
    assert [each["name"] for each in spec["volumes"]] == ["own"]
    assert spec["containers"][0]["volumeMounts"] == [own]


def test_a_volume_of_that_name_is_used(cluster: Cluster) -> None:
    """A pod that was read and is created again has one already."""
    found = cluster.create(pod("web"))
    again = {**pod("copy"), "spec": {**found["spec"], "containers": pod()["spec"]["containers"]}}
    spec = cluster.create(again)["spec"]
    assert spec["volumes"] == found["spec"]["volumes"]
    assert spec["containers"][0]["volumeMounts"][0]["name"] == spec["volumes"][0]["name"]


@pytest.mark.parametrize("volumes", [[], [{"name": "own", "emptyDir": {}}]])
def test_a_manifest_can_be_applied_again(cluster: Cluster, volumes: list[dict[str, Any]]) -> None:
    manifest = pod("web", **({"volumes": volumes} if volumes else {}))
    assert cluster.apply(manifest)[1] is ApplyOutcome.CREATED
    found, outcome = cluster.apply(manifest)
    assert outcome is ApplyOutcome.UNCHANGED
    assert len(found["spec"]["volumes"]) == 1 + len(volumes)
    changed = copied(manifest)
    changed["spec"]["containers"][0]["image"] = "busybox:1.36"
    found, outcome = cluster.apply(changed)
    assert outcome is ApplyOutcome.CONFIGURED
    assert mounts(found["spec"]["containers"][0]) == [PATH]


def test_a_mirror_pod_gets_none(cluster: Cluster) -> None:
    mirror = pod("static")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert not cluster.create(mirror)["spec"].get("volumes")


def _certificates(cluster: Cluster) -> dict[str, str]:
    return {
        key.namespace: cluster.storage.get(key)["data"]["ca.crt"]
        for key in cluster.storage
        if (key.kind, key.name) == ("ConfigMap", ROOT)
    }


@pytest.mark.parametrize("repairs", [True, False])
def test_each_namespace_has_the_certificate_authority(cluster: Cluster, repairs: bool) -> None:
    """Another controller's is left alone where one may run."""
    keep_root_certificates(cluster, "first", repairs=repairs)
    assert set(_certificates(cluster)) == {"default", "kube-node-lease", "kube-public", "kube-system"}
    cluster.storage.drain_events()
    cluster.create(namespace("shop"))
    assert any(map(may_lack_certificate, cluster.storage.drain_events()))
    keep_root_certificates(cluster, "first", repairs=repairs)
    assert _certificates(cluster)["shop"] == "first"
    cluster.storage.drain_events()
    found = cluster.storage.get(ObjectKey("ConfigMap", "shop", ROOT))
    cluster.replace({**found, "data": {"ca.crt": "other"}})
    cluster.delete(ObjectKey("ConfigMap", "default", ROOT))
    events: list[ObjectEvent] = cluster.storage.drain_events()
    assert [may_lack_certificate(event) for event in events] == [True, True]
    keep_root_certificates(cluster, "first", repairs=repairs)
    found_now = _certificates(cluster)
    assert (found_now["default"], found_now["shop"]) == ("first", "first" if repairs else "other")


@pytest.mark.parametrize("repairs", [True, False])
def test_other_servers_find_the_authority_of_clients(cluster: Cluster, repairs: bool) -> None:
    key = ObjectKey("ConfigMap", "kube-system", "extension-apiserver-authentication")
    keep_root_certificates(cluster, "first", repairs=repairs)
    assert cluster.storage.get(key)["data"] == {"client-ca-file": "first"}
    for data in ({}, {"client-ca-file": "other"}):
        cluster.replace({**cluster.storage.get(key), "data": data})
        assert any(map(may_lack_certificate, cluster.storage.drain_events()))
        keep_root_certificates(cluster, "first", repairs=repairs)
        assert cluster.storage.get(key)["data"] == ({"client-ca-file": "first"} if repairs else data)
    cluster.delete(key)
    assert any(map(may_lack_certificate, cluster.storage.drain_events()))
    keep_root_certificates(cluster, "first", repairs=repairs)
    assert cluster.storage.find(key) is not None
