"""The cloud stub gives claims the volumes that there are."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.apimachinery.limits import OBJECT_BYTES
from modules.apimachinery.pods.node_selector import selector_matches
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.types.scheduling import NodeSelector
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.pod_scheduled import waits_because
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.apiserver.scheduling import volume_nodes
from modules.cloud.apiserver.scheduling.volume_nodes import DelayedClaims
from modules.cloud.apiserver.volume_binder import bind_volumes as bind_by_classes
from modules.cloud.apiserver.volume_binder import changed_phases, with_provisioners


def bind_volumes(claims: list[JsonObject], volumes: list[JsonObject]) -> list[JsonObject]:
    """Without classes."""
    return bind_by_classes(claims, volumes, lambda _: None)


MOUNT = {"path": "/mnt", "type": ""}
ONE = ["ReadWriteOnce"]


def claim(name: str = "data", storage: str = "1Gi", **spec: Any) -> JsonObject:
    resources = {"requests": {"storage": storage}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": {"accessModes": ONE, "resources": resources, **spec},
    }


def volume(name: str, storage: str = "1Gi", **spec: Any) -> JsonObject:
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ONE,
            "capacity": {"storage": storage},
            "hostPath": {"path": "/mnt", "type": ""},
            **spec,
        },
    }


FAST = {"matchLabels": {"disk": "fast"}}


def labelled(volume: JsonObject, **labels: str) -> JsonObject:
    return {**volume, "metadata": {**volume["metadata"], "labels": labels}}


def ending(volume: JsonObject) -> JsonObject:
    """A volume that is being deleted, and that a finalizer holds."""
    return {**volume, "metadata": {**volume["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("wanted", "volumes", "given"),
    [
        (claim(), [], None),
        (claim(), [volume("a")], "a"),
        (claim(), [volume("big", "10Gi"), volume("fits", "2Gi"), volume("small", "1Mi")], "fits"),
        (claim(accessModes=["ReadWriteMany"]), [volume("a")], None),
        (claim(storageClassName="fast"), [volume("a"), volume("b", storageClassName="fast")], "b"),
        (claim(volumeName="b"), [volume("a"), volume("b", "2Gi")], "b"),
        (claim(volumeName="b"), [volume("a"), volume("b", "1Mi")], None),
        (claim(volumeName="b"), [volume("a"), volume("b", storageClassName="kept")], None),
        (claim(volumeName="b"),
         [volume("b", "1Mi", claimRef={"namespace": "default", "name": "data"}, storageClassName="kept")], "b"),
        (claim(volumeName="c"), [volume("a")], None),
        (claim(), [volume("a"), volume("mine", "9Gi", claimRef={"namespace": "default", "name": "data"})], "mine"),
        (claim(), [volume("other", claimRef={"namespace": "default", "name": "other"})], None),
        (claim(selector=FAST), [volume("a"), labelled(volume("b", "9Gi"), disk="fast")], "b"),
        (claim(selector=FAST), [labelled(volume("a"), disk="slow")], None),
        (claim(selector={}), [volume("a")], "a"),
        (claim(selector=FAST, volumeName="a"), [volume("a")], "a"),
        (claim(selector=FAST), [volume("mine", claimRef={"namespace": "default", "name": "data"})], "mine"),
        (claim(volumeMode="Block"), [volume("a"), volume("b", "9Gi", volumeMode="Block")], "b"),
        (claim(volumeMode="Filesystem"), [volume("a", volumeMode="Block"), volume("b", "9Gi")], "b"),
        (claim(), [ending(volume("a")), volume("b", "9Gi")], "b"),
        (claim(), [volume("taken", claimRef={"namespace": "default", "name": "data", "uid": "uid-old"})], None),
    ],
)  # fmt: skip
def test_which_volume_a_claim_gets(wanted: JsonObject, volumes: list[JsonObject], given: str | None) -> None:
    """The one it names, or that names it, or the smallest that fits; what was somebody else's is not given again."""
    changed = {obj["kind"]: obj for obj in bind_volumes([wanted], volumes)}
    if given is None:
        assert changed == {}
        return
    bound, taken = changed["PersistentVolumeClaim"], changed["PersistentVolume"]
    assert (bound["spec"]["volumeName"], bound["status"]["phase"]) == (given, "Bound")
    assert (taken["metadata"]["name"], taken["status"]["phase"]) == (given, "Bound")
    assert taken["spec"]["claimRef"]["uid"] == "uid-data"
    assert taken["spec"]["hostPath"] == MOUNT


BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


@pytest.mark.parametrize(
    ("asks", "held", "of_claim", "of_volume"),
    [
        (claim(), volume("a"), {**COMPLETED, **BY_CONTROLLER}, BY_CONTROLLER),
        (claim(volumeName="a"), volume("a"), COMPLETED, BY_CONTROLLER),
        (claim(), volume("a", claimRef={"namespace": "default", "name": "data"}), {**COMPLETED, **BY_CONTROLLER}, None),
    ],
    ids=["neither", "claim", "volume"],
)  # fmt: skip
def test_annotations_tell_who_named_the_other(
    asks: JsonObject, held: JsonObject, of_claim: JsonObject, of_volume: JsonObject | None
) -> None:
    """As kube-controller-manager 1.32.13 sets them."""
    taken, bound = bind_volumes([asks], [held])
    assert bound["metadata"]["annotations"] == of_claim
    assert taken["metadata"].get("annotations") == of_volume
    assert changed_phases([bound], [taken]) == []
    before = {**bound, "metadata": {**bound["metadata"], "annotations": {"a": "b"}}}
    (now,) = changed_phases([before], [taken])
    assert now["metadata"]["annotations"] == {"a": "b", **COMPLETED}, "one of a version before gets it later"


def test_a_volume_that_was_made_for_a_claim_is_bound_to_it_alone() -> None:
    """A provisioner names the uid in `claimRef`, and the claim names no volume yet."""
    mine = {"namespace": "default", "name": "data", "uid": "uid-data"}
    made = volume("pvc-1", "2Gi", claimRef=mine, storageClassName="of-the-provisioner")
    assert bind_volumes([claim("other")], [made]) == []
    held, bound = bind_volumes([claim("other"), claim(storageClassName="fast")], [made])
    assert (held["metadata"]["name"], bound["spec"]["volumeName"], bound["status"]["phase"]) == (
        "pvc-1",
        "pvc-1",
        "Bound",
    )
    for now in (volume("pvc-1", "1Mi", claimRef=mine), volume("pvc-1", claimRef={**mine, "uid": "uid-before"})):
        assert bind_volumes([claim()], [now]) == []


def test_a_bound_claim_gets_its_volume_back_before_others() -> None:
    """Somebody takes `claimRef` away; another claim would read the data of this one."""
    held, bound = bind_volumes([claim()], [volume("a")])
    freed = {**held, "spec": {name: value for name, value in held["spec"].items() if name != "claimRef"}}
    again, still = bind_volumes([claim("another"), bound], [freed])
    assert (again["spec"]["claimRef"]["uid"], still["metadata"]["name"]) == ("uid-data", "data")
    assert bind_volumes([claim("another"), bound], [ending(freed)]) == []


def of_claim(name: str, uid: str = "", phase: str = "Bound") -> JsonObject:
    """A volume that is kept for a claim, or bound to it."""
    owner = {"namespace": "default", "name": name, **({"uid": uid} if uid else {})}
    return {**volume(name, claimRef=owner), "status": {"phase": phase, "message": "kept"}}


@pytest.mark.parametrize(
    ("held", "phase"),
    [
        (volume("data"), "Available"),
        (of_claim("data", "", "Pending"), "Available"),
        (of_claim("data", "uid-data", "Available"), "Bound"),
        (of_claim("data", "uid-data"), None),
        (of_claim("data", "uid-of-an-earlier-one"), "Released"),
        (of_claim("gone", "uid-gone"), "Released"),
        (of_claim("gone", "uid-gone", "Released"), None),
    ],
)
def test_which_phase_a_volume_has(held: JsonObject, phase: str | None) -> None:
    changed = changed_phases([claim()], [held])
    assert [each["status"] for each in changed] == ([{**held.get("status", {}), "phase": phase}] if phase else [])


def annotated(obj: JsonObject, *names: str) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "annotations": dict.fromkeys(names, "yes")}}


@pytest.mark.parametrize(
    ("held", "phase", "reference"),
    [
        (of_claim("a", "uid-data"), "Available", {"namespace": "default", "name": "a"}),
        (annotated(of_claim("a", "uid-data"), *BY_CONTROLLER), "Available", None),
        (annotated(of_claim("a", "uid-data"), "pv.kubernetes.io/provisioned-by"), "Available",
         {"namespace": "default", "name": "a"}),
    ],
)  # fmt: skip
def test_a_volume_whose_claim_has_another_one_is_free_again(
    held: JsonObject, phase: str, reference: JsonObject | None
) -> None:
    """As when a provisioner made one for a claim that was bound meanwhile."""
    asks = {**claim("a", volumeName="b"), "metadata": {**claim("a")["metadata"], "uid": "uid-data"}}
    (now,) = changed_phases([asks], [held])
    assert (now["status"]["phase"], now["spec"].get("claimRef")) == (phase, reference)
    assert not BY_CONTROLLER.keys() & now["metadata"].get("annotations", {}).keys()
    deleted = annotated({**held, "spec": {**held["spec"], "persistentVolumeReclaimPolicy": "Delete"}},
                        "pv.kubernetes.io/provisioned-by")  # fmt: skip
    (left,) = changed_phases([asks], [deleted])
    assert (left["status"]["phase"], left["spec"]) == ("Released", deleted["spec"]), "its provisioner deletes it"


@pytest.mark.parametrize(
    ("asks", "volumes", "phase"),
    [
        (annotated(claim(volumeName="gone"), *COMPLETED), [], "Lost"),
        (annotated(claim(), *COMPLETED), [], "Lost"),
        (annotated(claim(volumeName="a"), *COMPLETED), [of_claim("a", "uid-else", "Released")], "Lost"),
        (claim(volumeName="gone"), [], None),
        ({**claim(), "status": {"phase": "Lost"}}, [], "Pending"),
    ],
)
def test_a_bound_claim_whose_volume_is_gone_is_lost(
    asks: JsonObject, volumes: list[JsonObject], phase: str | None
) -> None:
    """Also one of another cluster's backup: it gets no other volume, which would not have its data. Without the
    annotation it waits again.
    """
    assert [each["status"] for each in changed_phases([asks], volumes)] == ([{"phase": phase}] if phase else [])
    assert phase != "Lost" or bind_volumes([asks], [volume("other")]) == []


def test_a_bound_claim_has_its_volumes_modes_and_capacity() -> None:
    """As kube-controller-manager 1.32.13 writes it, which leaves a capacity that is gone for a resize."""
    modes = ["ReadWriteOnce", "ReadOnlyMany"]
    held = volume("a", capacity={"storage": "2Gi"}, accessModes=modes)
    held, asks = bind_volumes([claim()], [held])
    status = {"phase": "Bound", "accessModes": modes, "capacity": {"storage": "2Gi"}}
    assert asks["status"] == status
    assert changed_phases([asks], [held]) == []
    for other, left in (
        ({"phase": "Pending"}, status),
        ({"phase": "Bound", "accessModes": ["ReadWriteMany"]}, status),
        ({"phase": "Bound", "capacity": {"storage": "3Gi"}}, {**status, "capacity": {"storage": "3Gi"}}),
    ):
        assert [each["status"] for each in changed_phases([{**asks, "status": other}], [held])] == [left]
    assert [each["status"] for each in changed_phases([asks], [])] == [{"phase": "Lost"}]


@pytest.mark.parametrize(
    "odd", [7, [[]], {"claimRef": [7]}, {"claimRef": {"uid": "u", "name": []}}, {"volumeName": []}]
)
def test_phases_stop_at_nothing_that_is_stored(odd: Any) -> None:
    """They are noted at each start."""
    held = {**volume("a"), "spec": odd, "status": odd}
    asks = {**annotated(claim(), *COMPLETED), "spec": odd, "status": {"phase": "Bound"}}
    assert {each["kind"] for each in changed_phases([asks], [held])} == {"PersistentVolume", "PersistentVolumeClaim"}


def test_two_claims_do_not_get_one_volume() -> None:
    changed = bind_volumes([claim("one"), claim("two")], [volume("a")])
    assert [obj["metadata"]["name"] for obj in changed] == ["a", "one"]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(Simulation(1).clock)


def test_whichever_is_applied_last_the_two_are_bound(cluster: Cluster) -> None:
    """And stay so when the manifests are applied again."""
    for _ in range(2):
        for document in (claim(), volume("a")):
            document["metadata"].pop("uid", None)
            cluster.apply(document)
        found = cluster.storage.get(ObjectKey("PersistentVolumeClaim", "default", "data"))
        assert found["spec"]["volumeName"] == "a"
        taken = cluster.storage.get(ObjectKey("PersistentVolume", "", "a"))
        assert taken["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]


def test_a_pod_is_bound_to_a_node_that_reaches_its_volume(cluster: Cluster) -> None:
    for name in ("a", "b"):
        status = {"allocatable": {"pods": "9"}, "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "labels": {"host": name}}
        cluster.create({"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status})
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": ["b"]}]}
    disk = volume("disk", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    wanted = claim()
    del wanted["metadata"]["uid"]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = {"containers": [{"name": "main", "image": "app:1"}], "volumes": volumes}
    for document in (disk, wanted):
        cluster.apply(document)
    made, _ = cluster.apply({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": pod})
    assert made["spec"]["nodeName"] == "b"


@pytest.mark.parametrize(
    "document",
    [
        claim(resources="1Gi"),
        claim(resources={"requests": "1Gi"}),
        claim(accessModes="ReadWriteOnce"),
        claim(accessModes=[["ReadWriteOnce"]]),
        volume("a", capacity="1Gi"),
        volume("a", claimRef="default/data"),
        {**claim(), "spec": []},
        {**volume("a"), "spec": "local"},
    ],
)
def test_malformed_bindings_are_refused_before_anything_is_bound(cluster: Cluster, document: JsonObject) -> None:
    """Such a manifest ended edgecontroller, again and again: who binds looks into each of them."""
    document["metadata"].pop("uid", None)
    with pytest.raises(BadRequestError):
        cluster.apply(document)
    for good in (claim("good"), volume("good")):
        good["metadata"].pop("uid", None)
        cluster.apply(good)
    assert cluster.storage.get(ObjectKey("PersistentVolumeClaim", "default", "good"))["spec"]["volumeName"] == "good"


SLOW: JsonObject = {
    "kind": "StorageClass",
    "apiVersion": "storage.k8s.io/v1",
    "metadata": {"name": "slow"},
    "provisioner": "disks.example",
}
NONE: JsonObject = {**SLOW, "metadata": {"name": "none"}, "provisioner": "kubernetes.io/no-provisioner"}
LATE: JsonObject = {**SLOW, "metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"storageClassName": "fits"}, None),
        ({}, ("Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")),
        ({"volumeName": "gone"}, ("Warning", "FailedBinding", 'volume "gone" not found')),
        ({"volumeName": "a"}, ("Warning", "FailedBinding", 'volume "a" does not fit the claim')),
        ({"storageClassName": "fast"},
         ("Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')),
        ({"storageClassName": "slow"}, ("Normal", "ExternalProvisioning", "the external provisioner 'disks.example'")),
        ({"storageClassName": "none"},
         ("Warning", "ProvisioningFailed", "no volume plugin matched name: kubernetes.io/no-provisioner")),
        ({"storageClassName": "late"},
         ("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")),
    ],
)  # fmt: skip
def test_an_event_says_why_a_claim_waits(cluster: Cluster, spec: JsonObject, told: tuple[str, str, str] | None) -> None:
    for document in (SLOW, NONE, LATE, volume("a", storageClassName="fits"), claim(**spec)):
        document["metadata"].pop("uid", None)
        cluster.apply(document)
    events = cluster.storage.list(kind_named("Event"))
    assert [(one["type"], one["reason"]) for one in events] == ([told[:2]] if told else [])
    assert told is None or told[2] in events[0]["message"]
    now = format_rfc3339(cluster.clock.now())
    assert all((one["involvedObject"]["name"], one["firstTimestamp"]) == ("data", now) for one in events)


@pytest.mark.parametrize(
    ("spec", "is_asked"),
    [
        ({"storageClassName": "slow"}, True),
        ({"storageClassName": "none"}, False),
        ({"storageClassName": "late"}, False),
        ({"storageClassName": "fits"}, False),
        ({"storageClassName": "slow", "volumeName": "gone"}, False),
        ({}, False),
    ],
)
def test_the_provisioner_of_a_waiting_claim_is_asked_once(
    cluster: Cluster, spec: JsonObject, *, is_asked: bool
) -> None:
    """External provisioners look for their name in the annotations, also if their class came after the claim."""
    for document in (volume("a", storageClassName="fits"), claim(**spec), SLOW, NONE, LATE):
        document["metadata"].pop("uid", None)
        cluster.apply(document)
    key = ObjectKey("PersistentVolumeClaim", "default", "data")
    cluster.update_volume_phases()
    asking = cluster.storage.get(key)
    names = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
    found = asking["metadata"].get("annotations") or {}
    assert [found.get(name) for name in names] == ["disks.example" if is_asked else None] * 2
    cluster.update_volume_phases()
    assert cluster.storage.get(key) is asking


def test_a_provisioner_is_asked_when_kube_scheduler_has_chosen_a_node() -> None:
    asks = annotated(claim(storageClassName="late"), "volume.kubernetes.io/selected-node")
    (asking,) = with_provisioners([asks, claim(storageClassName="late")], lambda _: LATE)
    assert asking["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] == "disks.example"


def test_an_event_says_that_a_claim_has_lost_its_volume(cluster: Cluster) -> None:
    for document in (volume("a"), claim()):
        document["metadata"].pop("uid", None)
        cluster.apply(document)
    cluster.storage.remove(ObjectKey("PersistentVolume", "", "a"))
    for _ in range(2):
        cluster.update_volume_phases()
        (event,) = cluster.storage.list(kind_named("Event"))
        assert (event["type"], event["reason"], event["count"]) == ("Warning", "ClaimLost", 1)
        assert event["message"] == "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        assert event["involvedObject"]["name"] == "data"


NO_PROVISIONER: JsonObject = {**LATE, "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}


def on_host(volume: JsonObject, *hosts: str) -> JsonObject:
    """A local volume."""
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": [*hosts]}]}
    return {**volume, "spec": {**volume["spec"], "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}


def apply_all(cluster: Cluster, *documents: JsonObject) -> None:
    for each in documents:
        cluster.apply({**each, "metadata": {name: text for name, text in each["metadata"].items() if name != "uid"}})


def using(name: str, *claims: str, **spec: Any) -> JsonObject:
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": each}} for at, each in enumerate(claims)]
    of_pod = {"containers": [{"name": "main", "image": "app:1"}], "volumes": volumes, **spec}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": of_pod}


def hosts(*names: str) -> list[JsonObject]:
    status = {"allocatable": {"pods": "9"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return [
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"host": name}}, "status": status}
        for name in names
    ]


def found(cluster: Cluster, *claims: str) -> list[str | None]:
    """Return the volumes of claims."""
    keys = (ObjectKey("PersistentVolumeClaim", "default", name) for name in claims)
    return [cluster.storage.get(key)["spec"].get("volumeName") for key in keys]


def pod_in(cluster: Cluster, name: str) -> tuple[str | None, str]:
    """Return the node of a pod, and why it has none."""
    pod = cluster.storage.get(ObjectKey("Pod", "default", name))
    return pod["spec"].get("nodeName"), waits_because(pod)


def local(name: str, storage: str = "1Gi") -> JsonObject:
    return claim(name, storage, storageClassName="local")


@pytest.mark.parametrize("default", ["", "b"])
def test_a_claim_that_waits_for_its_pod_gets_a_volume_of_its_node(default: str) -> None:
    """Both local volumes of a pod are on one node, though the smallest for each is on another one."""
    cluster = Cluster(Simulation(1).clock, Scheduling(default))
    volumes = [
        on_host(volume("a1", "1Gi", storageClassName="local"), "a"),
        on_host(volume("b1", "5Gi", storageClassName="local"), "b"),
        on_host(volume("b2", "4Gi", storageClassName="local"), "b"),
        on_host(volume("b3", "9Gi", storageClassName="local"), "b"),
        on_host(volume("c1", "2Gi", storageClassName="local"), "c"),
    ]
    apply_all(cluster, NO_PROVISIONER, *hosts("a", "b", "c"), *volumes, local("big", "2Gi"), local("small"))
    assert found(cluster, "big", "small") == [None, None]
    apply_all(cluster, using("web", "big", "small"))
    assert (*pod_in(cluster, "web"), *found(cluster, "big", "small")) == (None, "", None, None)
    cluster.scheduler.place_waiting_pods()
    assert pod_in(cluster, "web") == ("b", "")
    assert found(cluster, "big", "small") == ["b1", "b2"], "the smallest claim first"
    apply_all(cluster, using("next", "small"))
    assert default or pod_in(cluster, "next") == ("b", ""), "its claim is bound"


@pytest.mark.parametrize("default", ["", "a"])
def test_a_pod_waits_for_a_volume_that_a_node_reaches(default: str) -> None:
    cluster = Cluster(Simulation(1).clock, Scheduling(default))
    held = on_host(volume("of-a", storageClassName="local"), "a")
    apply_all(cluster, NO_PROVISIONER, *hosts("a"), held, local("one"), local("two"), using("web", "one", "two"))
    cluster.scheduler.place_waiting_pods()
    words = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
    assert (*pod_in(cluster, "web"), *found(cluster, "one", "two")) == (None, words, None, None)
    told = [each["message"] for each in cluster.storage.list(kind_named("Event")) if "web" in each["metadata"]["name"]]
    assert told == [words]
    apply_all(cluster, on_host(volume("for-two", "7Gi", storageClassName="local"), "a", "b"))
    cluster.scheduler.place_waiting_pods()
    assert pod_in(cluster, "web") == ("a", "")
    assert found(cluster, "one", "two") == ["of-a", "for-two"]


def test_a_waiting_claim_gets_a_volume_that_names_it_at_once(cluster: Cluster) -> None:
    """As kube-scheduler binds, or somebody who has prepared the volume; a pod of another scheduler waits for that."""
    apply_all(cluster, NO_PROVISIONER, *hosts("a"), volume("free", storageClassName="local"), local("data"))
    apply_all(cluster, using("web", "data", schedulerName="other"))
    cluster.scheduler.place_waiting_pods()
    assert found(cluster, "data") == [None]
    apply_all(cluster, volume("mine", claimRef={"namespace": "default", "name": "data"}))
    assert found(cluster, "data") == ["mine"]


def test_a_volume_is_provisioned_for_the_node_of_a_pod(cluster: Cluster) -> None:
    """The provisioner is asked when the pod has a node that the class allows; the pod waits for the volume there."""
    expressions = [{"key": "host", "values": ["b"]}]
    made = {**LATE, "allowedTopologies": [{"matchLabelExpressions": expressions}]}
    wanted = [claim("made", storageClassName="late"), claim("other", storageClassName="late")]
    apply_all(cluster, made, *hosts("a", "b"), *wanted, using("web", "made"))
    cluster.scheduler.place_waiting_pods()
    cluster.update_volume_phases()
    asking, other = (
        cluster.storage.get(ObjectKey("PersistentVolumeClaim", "default", name))["metadata"].get("annotations", {})
        for name in ("made", "other")
    )
    assert asking["volume.kubernetes.io/selected-node"] == "b"
    assert "volume.kubernetes.io/selected-node" not in other
    assert asking["volume.kubernetes.io/storage-provisioner"] == "disks.example"
    words = 'binding volumes: persistentvolumeclaim "made" is provisioned for node "b"'
    assert pod_in(cluster, "web") == (None, words)
    reference = {"namespace": "default", "name": "made"}
    apply_all(cluster, on_host(volume("new", storageClassName="late", claimRef=reference), "b"))
    cluster.scheduler.place_waiting_pods()
    assert (pod_in(cluster, "web"), found(cluster, "made")) == (("b", ""), ["new"])


@pytest.mark.parametrize(
    ("topologies", "node"),
    [
        (None, True),
        ([{}], False),
        ([{"matchLabelExpressions": [{"key": "host", "values": ["x"]}]}], False),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}, {"matchLabelExpressions": [
            {"key": "host", "values": ["x", "a"]}]}], True),
    ],
)  # fmt: skip
def test_where_a_class_may_provision(topologies: Any, *, node: bool) -> None:
    """kube-scheduler's `MatchTopologySelectorTerms`."""
    made = {**LATE, "allowedTopologies": topologies}
    objects = {
        ObjectKey("StorageClass", "", "late"): made,
        ObjectKey("PersistentVolumeClaim", "default", "data"): claim(storageClassName="late"),
    }
    delayed = DelayedClaims({**using("web", "data")}, objects.get, tuple)
    assert (delayed.at("a", {"host": "a"}) is not None) is node
    chosen = annotated(claim(storageClassName="late"), "volume.kubernetes.io/selected-node")
    objects[ObjectKey("PersistentVolumeClaim", "default", "data")] = chosen
    other = DelayedClaims({**using("web", "data")}, objects.get, tuple)
    assert other.at("a", {"host": "a"}) is None, "another node has been chosen"
    assert other.decisive != delayed.decisive


def test_a_provisioned_pod_lets_no_other_make_room(cluster: Cluster) -> None:
    """It has its node already."""
    apply_all(cluster, LATE, *hosts("a"), claim("made", storageClassName="late"), using("low"))
    cluster.apply(using("web", "made", priority=9))
    cluster.scheduler.place_waiting_pods()
    assert pod_in(cluster, "low") == ("a", "")
    web = cluster.storage.get(ObjectKey("Pod", "default", "web"))
    assert "nominatedNodeName" not in web["status"]


def test_a_node_looks_at_the_volumes_that_name_its_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a volume on each of a thousand nodes, each would look at a thousand."""
    looked: list[str] = []

    def noting(selector: NodeSelector, node: str, labels: Mapping[str, str]) -> bool:
        looked.append(node)
        return selector_matches(selector, node, labels)

    monkeypatch.setattr(volume_nodes, "selector_matches", noting)
    names = [f"n{number}" for number in range(20)]
    volumes = [on_host(volume(name, storageClassName="late"), name) for name in names]
    volumes.append(on_host(volume("both", "9Gi", storageClassName="late"), "n3", "elsewhere"))
    volumes.append(volume("anywhere", "8Gi", storageClassName="late"))
    objects = {
        ObjectKey("StorageClass", "", "late"): LATE,
        ObjectKey("PersistentVolumeClaim", "default", "data"): claim(storageClassName="late"),
        ObjectKey("PersistentVolumeClaim", "default", "more"): claim("more", "8Gi", storageClassName="late"),
    }
    delayed = DelayedClaims(using("web", "data", "more"), objects.get, lambda: volumes)
    chosen = {
        name: [
            each["metadata"]["name"] for each in delayed.at(name, {"host": name}) or () if "capacity" in each["spec"]
        ]
        for name in (*names, "elsewhere", "none")
    }
    assert chosen == {
        **{name: [name, "anywhere"] for name in names},
        "elsewhere": ["anywhere", "both"],
        "none": ["anywhere"],
    }
    assert Counter(looked) == {**dict.fromkeys(names, 1), "elsewhere": 1}


@pytest.mark.parametrize(("claims", "volumes", "fits"), [(1, 9, True), (2, 2, True), (2, 3, False)])
def test_a_pod_whose_claims_look_at_too_many_volumes_fits_nowhere(
    monkeypatch: pytest.MonkeyPatch, *, claims: int, volumes: int, fits: bool
) -> None:
    """The API server would stand still for seconds, as often as the pod is looked at."""
    monkeypatch.setattr(volume_nodes, "_MOST_LOOKS", 5)
    given = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    known: dict[ObjectKey, JsonObject] = {
        ObjectKey("PersistentVolumeClaim", "default", f"c{number}"): {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"c{number}", "namespace": "default", "uid": f"c{number}"}, "spec": given,
        }
        for number in range(claims)
    }  # fmt: skip
    known[ObjectKey("StorageClass", "", "late")] = {"volumeBindingMode": "WaitForFirstConsumer"}
    disks = [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"v{n}", "uid": f"v{n}"}, "spec": given}
        for n in range(volumes)
    ]
    used = [{"name": key.name, "persistentVolumeClaim": {"claimName": key.name}} for key in known if key.namespace]
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"volumes": used}}
    delayed = DelayedClaims(pod, known.get, lambda: disks)
    placed = delayed.at("n1", {})
    assert (placed is not None) is fits
    assert delayed.decisive, "it is not taken for a pod without claims"
    assert placed is None or len(placed) == 2 * claims


def test_a_claim_that_has_no_room_for_its_volume_keeps_no_other_waiting(cluster: Cluster) -> None:
    """Anybody who may make claims can make one; not even the volume could be stored."""
    large = claim("large")
    large["metadata"]["annotations"] = {"a": "a" * (OBJECT_BYTES - len(msgspec.json.encode(large)) - 150)}
    cluster.storage.create(large)
    for each in (volume("v1"), claim(), volume("v2")):
        cluster.create(each)
    claims = [cluster.storage.get(ObjectKey("PersistentVolumeClaim", "default", each)) for each in ("large", "data")]
    assert [each["spec"].get("volumeName") for each in claims] == [None, "v2"]
