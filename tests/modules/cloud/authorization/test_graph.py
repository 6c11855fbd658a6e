"""The index of what pods refer to follows the objects, also back when a change has not taken place."""

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.authorization.graph import NodeGraph, _pull_secret_of
from modules.cloud.authorization.node_metadata import HOSTNAME
from modules.cloud.jobs import JOBS
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.taskmanager.definitions import definitions
from tests.modules.cloud.objects import namespace, pod

_SECRET = ObjectKey("Secret", "default", "key")


class Site:
    """A graph that notes each change of a cluster."""

    def __init__(self) -> None:
        clock = Simulation().clock
        self.cluster = Cluster(clock)
        self.graph = NodeGraph(self.cluster.storage, clock)

    def noted(self) -> list[ObjectEvent]:
        """Note the changes, and return them, the latest first."""
        events = list(self.cluster.storage.drain_events())
        for event in events:
            self.graph.handle_event(event)
        return events[::-1]

    def apply(self, *objects: JsonObject) -> list[ObjectEvent]:
        for each in objects:
            self.cluster.apply(each)
        return self.noted()


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_hostname_is_taken_while_another_node_has_it(site: Site) -> None:
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {HOSTNAME: "host"}}}
    taken = []

    def note() -> None:
        taken.append([site.graph.is_hostname_in_use(name, "n2") for name in ("host", "n1", "other", "n2")])

    (creation,) = site.apply(made)
    note()
    (change,) = site.apply({**made, "metadata": {"name": "n1", "labels": {HOSTNAME: "other"}}})
    note()
    site.graph.roll_back(change)
    note()
    assert taken == [[True, True, False, False], [False, True, True, False], [True, True, False, False]]
    assert not site.graph.is_hostname_in_use("host", "n1")
    site.graph.roll_back(creation)
    assert not site.graph._hostnames


def _volume(name: str, claim: str, **source: JsonObject) -> JsonObject:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "shop", "name": claim},
        **source,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def test_a_change_that_is_undone_gives_no_right_and_takes_none(site: Site) -> None:
    """A message whose handling fails leaves nothing behind: neither the right of a pod nor the end of one."""
    graph = site.graph
    made = site.apply(pod(volumes=[{"name": "v", "secret": {"secretName": "key"}}]))
    assert graph.refers("n1", _SECRET)
    site.cluster.delete(made[0].key, 0)
    deleted = site.noted()
    assert not graph.refers("n1", _SECRET)
    for event in deleted:
        graph.roll_back(event)
    assert graph.refers("n1", _SECRET)
    for event in made:
        graph.roll_back(event)
    assert not graph.refers("n1", _SECRET)


def test_a_mirror_pod_whose_creation_is_undone_does_not_count() -> None:
    site, own = Site(), {"status": {"capacity": {"pods": "1"}}}
    mirror = pod("mirror")
    mirror["metadata"]["annotations"] = {CONFIG_MIRROR: "x"}
    other = {**mirror, "metadata": {**mirror["metadata"], "namespace": "default", "name": "other"}}
    made = site.apply(mirror)
    assert site.graph.accounts.refusal("n1", None, other, own)
    for event in made:
        site.graph.roll_back(event)
    assert site.graph.accounts.refusal("n1", None, other, own) == ""


def test_a_secret_of_two_volumes_stays_readable_when_one_of_them_goes(site: Site) -> None:
    """A secret without a namespace is in the claim's."""
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("a", "b")]
    user = pod(volumes=claims)
    user["metadata"]["namespace"] = "shop"
    site.apply(
        namespace("shop"),
        user,
        _volume("one", "a", azureFile={"shareName": "s", "secretName": "key"}),
        _volume("two", "b", cephfs={"monitors": ["m"], "secretRef": {"name": "key"}}),
    )
    for gone in ("two", "one"):
        assert site.graph.refers("n1", ObjectKey("Secret", "shop", "key"))
        assert not site.graph.refers("n1", _SECRET)
        site.cluster.delete(ObjectKey("PersistentVolume", "", gone), 0)
        site.noted()
    assert not site.graph.refers("n1", ObjectKey("Secret", "shop", "key"))
    assert not site.graph._named


@pytest.mark.parametrize("how", ["deleted", "undone", "bound elsewhere"])
def test_a_secret_that_a_volume_of_this_name_named_earlier_is_not_readable(site: Site, how: str) -> None:
    user = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}])
    user["metadata"]["namespace"] = "other"
    site.apply(namespace("shop"), namespace("other"), user)
    site.cluster.storage.set_savepoint()
    volume = _volume("one", "a", cephfs={"monitors": ["m"], "secretRef": {"name": "key"}})
    made = site.apply(volume)
    if how == "deleted":
        site.cluster.delete(made[0].key, 0)
        site.noted()
    if how == "undone":
        site.cluster.storage.roll_back()
        for event in made:
            site.graph.roll_back(event)
    volume["spec"]["claimRef"] = {"namespace": "other", "name": "a"}
    site.apply(volume)
    assert site.graph.refers("n1", ObjectKey("Secret", "other", "key"))
    assert not site.graph.refers("n1", ObjectKey("Secret", "shop", "key"))


def test_a_status_counts_for_its_node_until_it_is_taken_back(site: Site) -> None:
    """Also one that is told as a status alone."""
    old = {**pod(), "status": {}}
    new = {**old, "status": {"message": "x" * 1000}}
    site.graph.add_objects([old])
    before = site.graph.accounts._cost["n1"]
    change = ObjectEvent(EventType.MODIFIED, key_of(new), new, old, is_of_status=True)
    site.graph.handle_event(change)
    assert site.graph.accounts._cost["n1"] >= before + 1000
    site.graph.roll_back(change)
    assert site.graph.accounts._cost["n1"] == before


@pytest.mark.parametrize(
    ("named", "kind", "phase", "readers"),
    [
        ("default/key", "kubernetes.io/dockerconfigjson", "InProgress", ["n1"]),
        ("default/key", "kubernetes.io/dockercfg", "InProgress", ["n1"]),
        ("default/key", "Opaque", "InProgress", []),
        ("default/key", "kubernetes.io/dockerconfigjson", "Pending", []),
        ("default/key", "kubernetes.io/dockerconfigjson", "Successful", []),
        ("shop/key", "kubernetes.io/dockerconfigjson", "InProgress", []),
        ("key", "kubernetes.io/dockerconfigjson", "InProgress", []),
    ],
)
def test_a_node_reads_the_pull_secret_of_a_job_while_it_carries_it_out(
    site: Site, named: str, kind: str, phase: str, readers: list[str]
) -> None:
    """KubeEdge's edgecore and this one ask for the secret when they pull; no pod need name it."""
    job = JOBS[JobKind.IMAGE_PRE_PULL]
    key = ObjectKey(job.key_name, "", "p")
    template = {"images": ["registry/a:1"], "nodeNames": ["n1", "n2"], "imageSecrets": named}
    content = {".dockercfg": "e30=", ".dockerconfigjson": "eyJhdXRocyI6e319"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "type": kind, "data": content}
    made = {"apiVersion": job.api_version, "kind": job.name, "metadata": {"name": "p"}}
    site.apply(*definitions(), secret, {**made, "spec": {"imagePrePullTemplate": template}})
    tasks = [{"nodeName": "n1", "phase": phase}, {"nodeName": "n2", "phase": "Pending"}]
    site.cluster.replace_status(key, {"phase": "InProgress", "nodeStatus": tasks})
    site.noted()
    assert [node for node in ("n1", "n2", "n3") if site.graph.refers(node, _SECRET)] == readers
    site.cluster.delete(key, 0)
    site.noted()
    assert not site.graph.refers("n1", _SECRET)


@pytest.mark.parametrize("named", [None, "", "shop/", 7])
def test_a_job_without_a_pull_secret_is_kept_for_none(named: object) -> None:
    assert list(_pull_secret_of({"spec": {"imagePrePullTemplate": {"imageSecrets": named}}})) == []
