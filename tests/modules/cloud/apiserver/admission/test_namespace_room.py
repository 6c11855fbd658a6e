"""The memory that the objects of a namespace may take."""

from collections.abc import Iterator

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.cloud.apiserver.admission.namespace_room import room_of_namespaces
from modules.cloud.apiserver.built_in_controllers import make_default_accounts
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.storage.object_storage import Storage
from tests.modules.cloud.apiextensions.definition import definition
from tests.modules.cloud.controllers.site import Site

ROOM = 100_000
DEVICE: JsonObject = {"apiVersion": "devices.example.io/v1", "kind": "Device", "spec": {"protocol": "modbus"}}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with the namespaces `evil` and `shop`, whose objects may take 100 kB each."""
    made = Cluster(Simulation(1).clock, room=ROOM)
    make_system_objects(made)
    for name in ("evil", "shop"):
        made.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
    yield made


def config_map(name: str, namespace: str = "evil", size: int = 30_000) -> JsonObject:
    """A ConfigMap with a text."""
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"a": "x" * size}}


def fill(cluster: Cluster) -> None:
    """Fill the namespace `evil`."""
    with pytest.raises(ForbiddenError, match="exceeded quota"), cluster.within_quotas():
        for number in range(99):
            cluster.create(config_map(f"c{number}"))


def test_a_full_namespace_takes_nothing_more_and_others_do(cluster: Cluster) -> None:
    fill(cluster)
    taken = cluster.storage.sizes.of("evil")
    assert ROOM <= taken < ROOM + 40_000
    with pytest.raises(ForbiddenError) as error, cluster.within_quotas():
        cluster.create(config_map("more", size=1))
    assert error.value.message == (
        'configmaps "more" is forbidden: exceeded quota: memory of the namespace\'s objects, '
        f"used: {taken}, limited: {ROOM}"
    )
    with cluster.within_quotas():
        assert cluster.create(config_map("theirs", "shop"))["metadata"]["uid"]


def test_what_does_not_grow_may_change_and_a_deletion_makes_room(cluster: Cluster) -> None:
    fill(cluster)
    with cluster.within_quotas():
        cluster.update(config_map("c0", size=29_000))
        with pytest.raises(ForbiddenError, match="exceeded quota"):
            cluster.update(config_map("c0", size=29_001))
        for number in (1, 2):
            cluster.delete(ObjectKey("ConfigMap", "evil", f"c{number}"))
        cluster.update(config_map("c0", size=40_000))


def test_a_users_status_takes_room_and_a_controllers_is_written_without(cluster: Cluster) -> None:
    ports = {"ports": [{"port": 80}]}
    metadata = {"name": "web", "namespace": "evil"}
    live = cluster.create({"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": ports})
    fill(cluster)
    known = {"type": "Known", "status": "True", "reason": "Is", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    grown = {**live, "status": {"loadBalancer": {}, "conditions": [{**known, "message": "x" * 10_000}]}}
    key = ObjectKey("Service", "evil", "web")
    of_user = cluster.with_admission(lambda _old, _new: None)
    with pytest.raises(ForbiddenError, match="exceeded quota"), cluster.within_quotas(), of_user:
        cluster.update_status(key, grown)
    with cluster.within_quotas():
        assert cluster.update_status(key, grown)["status"] == grown["status"]


def test_a_users_status_of_a_custom_object_takes_room(cluster: Cluster) -> None:
    cluster.create(definition())
    live = cluster.create({**DEVICE, "metadata": {"name": "pump", "namespace": "evil"}})
    fill(cluster)
    grown = {**live, "status": {"state": "x" * 10_000}}
    of_user = cluster.with_admission(lambda _old, _new: None)
    with pytest.raises(ForbiddenError, match="exceeded quota"), cluster.within_quotas(), of_user:
        cluster.update_status(key_of(live), grown)
    assert cluster.update_status(key_of(live), grown)["status"] == grown["status"]


def test_the_control_plane_itself_is_not_refused(cluster: Cluster) -> None:
    """A namespace that a user has filled must not stop what is made in all of them."""
    fill(cluster)
    make_default_accounts(cluster)
    assert cluster.storage.find(ObjectKey("ServiceAccount", "evil", "default")) is not None


def test_sizes_follow_the_objects(cluster: Cluster) -> None:
    """Also what is undone, and what is loaded."""
    storage = cluster.storage
    storage.set_savepoint()
    before = storage.sizes.of("evil")
    cluster.create(config_map("c0"))
    assert storage.sizes.of("evil") > before + 30_000
    storage.roll_back()
    assert storage.sizes.of("evil") == before
    made = cluster.create(config_map("c0"))
    loaded = Storage(Simulation(1).clock)
    loaded.restore([made])
    assert loaded.sizes.of("evil") == storage.sizes.of("evil") - before
    storage.remove(ObjectKey("ConfigMap", "evil", "c0"))
    assert storage.sizes.of("evil") == before


def test_more_nodes_may_have_more() -> None:
    assert room_of_namespaces(1) == room_of_namespaces(500) == 256 * 1024 * 1024
    assert room_of_namespaces(5000) == 2500 * 1024 * 1024


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("Deployment", "apps/v1", {"replicas": 2**31 - 1, "selector": {"matchLabels": {"a": "b"}}}),
        ("StatefulSet", "apps/v1", {"replicas": 2**31 - 1, "selector": {"matchLabels": {"a": "b"}},
                                    "podManagementPolicy": "Parallel"}),
        ("Job", "batch/v1", {"parallelism": 2**31 - 1, "completions": 2**31 - 1}),
    ],
)  # fmt: skip
def test_a_workload_without_end_is_bounded(kind: str, version: str, spec: JsonObject) -> None:
    """It says so, and is tried again ever more seldom; other namespaces have their room."""
    site = Site(room=1_000_000)
    of_pod = {"containers": [{"name": "c", "image": "i"}], **({"restartPolicy": "Never"} if kind == "Job" else {})}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": of_pod}
    site.apply({"kind": kind, "apiVersion": version, "metadata": {"name": "w"}, "spec": {**spec, "template": template}})
    site.run_for(60)
    first = len(site.pods())
    assert 20 < first < 500
    assert site.cluster.storage.sizes.of("default") < 1_500_000
    assert any("exceeded quota" in str(event.get("message")) for event in site.all("Event"))
    written = len(site.writes)
    site.run_for(60)
    assert len(site.writes) - written < 20
