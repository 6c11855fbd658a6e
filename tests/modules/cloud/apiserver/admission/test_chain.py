"""The admission plug-ins, by requests to an API server that has them."""

from typing import Any

import pytest

from beehive.clock import RealClock
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import key_for, key_kind, key_of, kind_named
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.cloud.apiserver.admission.chain import PLUGINS, AdmissionChain
from modules.cloud.apiserver.admission.classes import with_storage_class
from modules.cloud.apiserver.admission.runtime_class import merged_tolerations
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from tests.modules.cloud.objects import configmap, pod

_FORBIDDEN = 'pods "web" is forbidden: '
_COMPUTED = "must not be provided in pod spec; priority admission controller computed"


def of(kind: str, name: str, /, version: str = "v1", **fields: Any) -> dict[str, Any]:
    """Return an object."""
    return {"kind": kind, "apiVersion": version, "metadata": {"name": name}, **fields}


def priority_class(name: str, value: int, /, **fields: Any) -> dict[str, Any]:
    """Return a PriorityClass."""
    return of("PriorityClass", name, version="scheduling.k8s.io/v1", value=value, **fields)


def runtime_class(name: str, **fields: Any) -> dict[str, Any]:
    """Return a RuntimeClass."""
    return of("RuntimeClass", name, version="node.k8s.io/v1", handler=name, **fields)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(RealClock(), plugins=PLUGINS)
    make_system_objects(made)
    made.create(priority_class("urgent", 1000, preemptionPolicy="Never"))
    made.create(runtime_class("kata", overhead={"podFixed": {"memory": "64Mi"}}))
    scheduling = {"nodeSelector": {"kvm": "yes"}, "tolerations": [{"key": "kvm", "operator": "Exists"}]}
    made.create(runtime_class("kvm", scheduling=scheduling))
    return made


def spec_of(cluster: Cluster, **spec: Any) -> dict[str, Any]:
    """Return the spec of a pod as it is stored."""
    stored: dict[str, Any] = cluster.create(pod(**spec))["spec"]
    return stored


def refusal(cluster: Cluster, obj: dict[str, Any]) -> tuple[int, str]:
    """Return code and message of the refusal of a new object."""
    with pytest.raises(ApiError) as refused:
        cluster.create(obj)
    return refused.value.code, refused.value.message


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 7}, f"the integer value of priority (7) {_COMPUTED} 0 from the given PriorityClass name"),
        (
            {"priorityClassName": "urgent", "preemptionPolicy": "PreemptLowerPriority"},
            f"the string value of PreemptionPolicy (PreemptLowerPriority) {_COMPUTED} "
            "Never from the given PriorityClass name",
        ),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"memory": "1Mi"}},
         "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ({"runtimeClassName": "kata", "overhead": {"memory": "1Mi"}},
         "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        ({"runtimeClassName": "kvm", "nodeSelector": {"kvm": "no"}},
         "conflict: runtimeClass.scheduling.nodeSelector[kvm] = yes; pod.spec.nodeSelector[kvm] = no"),
        ({"serviceAccountName": "robot"},
         'error looking up service account default/robot: serviceaccount "robot" not found'),
    ],
)  # fmt: skip
def test_a_pod_is_refused_in_the_words_of_kubernetes(cluster: Cluster, spec: dict[str, Any], why: str) -> None:
    assert refusal(cluster, pod(**spec)) == (403, _FORBIDDEN + why)


@pytest.mark.parametrize(
    ("obj", "code", "words"),
    [
        (pod(serviceAccountName="robot", containers=[]), 403, "error looking up service account"),
        (pod(priorityClassName="none", containers=[]), 403, "no PriorityClass with name none"),
        (pod(runtimeClassName="kata", overhead={"memory": "1Mi"}, containers=[]), 403, "doesn't match RuntimeClass"),
        (pod(overhead={"memory": "1Mi"}, containers=[]), 422, "spec.containers: Required value"),
        ({**pod(hostNetwork=True, containers=[]), "metadata": {"name": "web", "namespace": "strict"}}, 422,
         "spec.containers: Required value"),
        (priority_class("usual-2", 2_000_000_000, globalDefault=True), 422, "maximum allowed value"),
        ({**configmap(), "metadata": {"name": "A", "namespace": "ending"}}, 403, "because it is being terminated"),
    ],
    ids=["account", "priority", "overhead of a class", "overhead", "security", "default class", "namespace"],
)  # fmt: skip
def test_plugins_that_change_objects_come_before_the_rules_of_a_kind_and_the_others_after_them(
    cluster: Cluster, obj: dict[str, Any], code: int, words: str
) -> None:
    strict = {"name": "strict", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}
    cluster.create({**of("Namespace", "strict"), "metadata": strict})
    cluster.create(of("Namespace", "ending"))
    cluster.create({**configmap(), "metadata": {"name": "held", "namespace": "ending"}})
    cluster.delete(key_for(kind_named("Namespace"), "", "ending"))
    cluster.create(priority_class("usual", 5, globalDefault=True))
    told = refusal(cluster, obj)
    assert (told[0], words in told[1]) == (code, True), told


def test_the_priority_classes_of_kubernetes_stay(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.delete(key_for(kind_named("PriorityClass"), "", "system-node-critical"))
    why = "this is a system priority class and cannot be deleted"
    told = f'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: {why}'
    assert (refused.value.code, refused.value.message) == (403, told)
    cluster.delete(key_for(kind_named("PriorityClass"), "", "urgent"))


def test_an_object_in_a_namespace_that_does_not_exist_is_refused(cluster: Cluster) -> None:
    lost = {**configmap(), "metadata": {"name": "settings", "namespace": "shop"}}
    assert refusal(cluster, lost) == (404, 'namespaces "shop" not found')
    cluster.create(of("Namespace", "shop"))
    assert cluster.create(lost)["metadata"]["namespace"] == "shop"


def test_a_namespace_of_objects_of_an_earlier_version_is_made_at_the_start() -> None:
    earlier = Cluster(RealClock())
    earlier.create({**configmap(), "metadata": {"name": "settings", "namespace": "shop"}})
    about = {"kind": "Pod", "namespace": "gone"}
    earlier.create({**of("Event", "late", involvedObject=about), "metadata": {"name": "late", "namespace": "gone"}})
    make_system_objects(earlier)
    names = {each["metadata"]["name"] for each in earlier.storage.list(earlier.storage.kinds.named("Namespace"))}
    assert {"shop", "default"} <= names
    assert "gone" not in names


def test_a_pod_gets_the_number_of_its_class(cluster: Cluster) -> None:
    spec = spec_of(cluster, priorityClassName="urgent")
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


def test_without_a_class_the_default_one_counts(cluster: Cluster) -> None:
    spec = spec_of(cluster)
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    cluster.create(priority_class("usual", 5, globalDefault=True))
    other = cluster.create(pod("other"))["spec"]
    assert (other["priorityClassName"], other["priority"]) == ("usual", 5)
    code, message = refusal(cluster, priority_class("usual-2", 6, globalDefault=True))
    assert code == 403
    assert "PriorityClass usual is already marked as default. Only one default can exist" in message
    cluster.apply(priority_class("usual", 5, globalDefault=True, description="as before"))


def test_pods_of_kubernetes_itself_have_its_priorities(cluster: Cluster) -> None:
    assert spec_of(cluster, priorityClassName="system-node-critical")["priority"] == 2_000_001_000


def test_a_pod_tolerates_a_silent_node_for_five_minutes_unless_it_has_tolerations(cluster: Cluster) -> None:
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    of_default = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    not_ready = {"key": "node.kubernetes.io/not-ready", **of_default}
    assert spec_of(cluster, tolerations=[own])["tolerations"] == [own, not_ready]
    every = [{"operator": "Exists"}]
    assert cluster.create(pod("every", tolerations=every))["spec"]["tolerations"] == every


def test_a_runtime_class_gives_overhead_nodes_and_tolerations(cluster: Cluster) -> None:
    assert spec_of(cluster, runtimeClassName="kata")["overhead"] == {"memory": "64Mi"}
    spec = cluster.create(pod("fast", runtimeClassName="kvm"))["spec"]
    assert spec["nodeSelector"] == {"kvm": "yes"}
    kvm = {"key": "kvm", "operator": "Exists"}
    assert spec["tolerations"][-1] == kvm
    assert cluster.create(pod("own", runtimeClassName="kvm", tolerations=[kvm]))["spec"]["tolerations"].count(kvm) == 1


def test_pods_get_the_pull_secrets_of_their_account(cluster: Cluster) -> None:
    cluster.create(of("ServiceAccount", "robot", imagePullSecrets=[{"name": "registry"}]))
    assert spec_of(cluster, serviceAccountName="robot")["imagePullSecrets"] == [{"name": "registry"}]
    spec = cluster.create(pod("former", serviceAccount="robot"))["spec"]
    assert (spec["serviceAccountName"], spec["imagePullSecrets"]) == ("robot", [{"name": "registry"}])
    own = pod("own", serviceAccountName="robot", imagePullSecrets=[{"name": "mine"}])
    assert cluster.create(own)["spec"]["imagePullSecrets"] == [{"name": "mine"}]


def test_a_pod_whose_manifest_lacks_what_plugins_have_set_is_replaced(cluster: Cluster) -> None:
    cluster.create(pod())
    written = pod(serviceAccountName="default")
    written["metadata"]["labels"] = {"app": "web"}
    assert cluster.update(written)["spec"]["priority"] == 0
    with pytest.raises(InvalidFieldsError, match="serviceAccountName"):  # an update sets none, as in Kubernetes
        cluster.update(pod())
    applied, _ = cluster.apply(pod("by-file", tolerations=[{"key": "x", "operator": "Exists"}]))
    again, outcome = cluster.apply(pod("by-file", tolerations=[{"key": "x", "operator": "Exists"}]))
    assert (again["spec"], outcome) == (applied["spec"], "unchanged")


def test_a_custom_kind_of_the_same_name_is_another_kind(cluster: Cluster) -> None:
    whale = {**of("Pod", "moby", "whales.example/v1"), "spec": {"size": 1}}
    assert AdmissionChain(cluster.storage, PLUGINS).admitted(key_kind(whale), whale) is whale


@pytest.mark.parametrize(
    ("own", "is_kept"),
    [
        ({"key": "kvm", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, False),
        ({"key": "kvm", "operator": "Equal", "value": "a", "effect": "NoSchedule"}, False),
        ({"key": "other", "operator": "Exists"}, True),
    ],
)
def test_a_toleration_that_one_of_the_runtime_class_includes_is_left_out(
    cluster: Cluster, own: dict[str, Any], *, is_kept: bool
) -> None:
    found = spec_of(cluster, runtimeClassName="kvm", tolerations=[own])["tolerations"]
    assert ((own in found), found[-1]) == (is_kept, {"key": "kvm", "operator": "Exists"})


@pytest.mark.parametrize(
    ("wide", "one", "includes"),
    [
        ({"operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}, True),
        (
            {"key": "a", "operator": "Equal", "value": "b"},
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
            True,
        ),
        ({"key": "a", "operator": "Equal", "value": "b"}, {"key": "a", "operator": "Equal", "value": "c"}, False),
        ({"key": "a", "operator": "Equal", "value": "b"}, {"key": "a", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, {"key": "a", "operator": "Exists"}, False),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            True,
        ),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
            False,
        ),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute"},
            False,
        ),
    ],
)
def test_a_toleration_includes_another(wide: dict[str, Any], one: dict[str, Any], *, includes: bool) -> None:
    assert (merged_tolerations([one, wide]) == [wide]) is includes
    assert (merged_tolerations([wide, one]) == [wide]) is includes
    many = [one] * 300
    assert merged_tolerations(many) == many


_STORAGE, _INGRESS = ("StorageClass", "storage.k8s.io/v1"), ("IngressClass", "networking.k8s.io/v1")
_MARK = {"StorageClass": "storageclass.kubernetes.io/is-default-class",
         "IngressClass": "ingressclass.kubernetes.io/is-default-class"}  # fmt: skip


def class_of(kind: str, version: str, name: str, *, is_default: str = "true", **fields: Any) -> dict[str, Any]:
    """Return a class of volumes or of an Ingress."""
    given = {"provisioner": "p"} if kind == "StorageClass" else {"spec": {"controller": "example.com/c"}}
    metadata = {"name": name, "annotations": {_MARK[kind]: is_default}}
    return {"kind": kind, "apiVersion": version, "metadata": metadata, **given, **fields}


def claim(name: str, storage: str = "1Gi", annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    made = of("PersistentVolumeClaim", name, spec=spec)
    return {**made, "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}}}


def ingress(name: str, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """Return an Ingress."""
    made = of("Ingress", name, version="networking.k8s.io/v1", spec={"rules": [{"host": "example.com"}], **spec})
    return {**made, "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}}}


@pytest.mark.parametrize(
    ("obj", "field", "wanted"),
    [
        (claim("a"), "storageClassName", "one"),
        (claim("a", storageClassName=""), "storageClassName", ""),
        (claim("a", storageClassName="two"), "storageClassName", "two"),
        (claim("a", annotations={"volume.beta.kubernetes.io/storage-class": "two"}), "storageClassName", None),
        (ingress("a"), "ingressClassName", "one"),
        (ingress("a", ingressClassName="two"), "ingressClassName", "two"),
        (ingress("a", annotations={"kubernetes.io/ingress.class": "two"}), "ingressClassName", None),
    ],
)
def test_an_object_without_a_class_gets_the_default_one(
    cluster: Cluster, obj: dict[str, Any], field: str, wanted: str | None
) -> None:
    for kind in (_STORAGE, _INGRESS):
        for name, is_default in (("two", "true"), ("one", "true"), ("none", "false")):
            cluster.create(class_of(*kind, name, is_default=is_default))
    made = cluster.create(obj)
    assert made["spec"].get(field) == wanted
    bare = {**made, "spec": {name: value for name, value in made["spec"].items() if name != field}}
    if made["kind"] == "Ingress":
        assert field not in cluster.update(bare)["spec"], "only new objects get one"


def test_of_several_default_classes_the_newest_counts() -> None:
    made = [("2026-01-01T00:00:00Z", "c"), ("2026-01-02T00:00:00Z", "b"), ("2026-01-02T00:00:00Z", "a")]
    cluster = Cluster(RealClock(), plugins=())
    for time, name in made:
        stored = cluster.create(class_of(*_STORAGE, name))
        cluster.storage.replace({**stored, "metadata": {**stored["metadata"], "creationTimestamp": time}})
    assert with_storage_class(claim("x"), None, cluster.storage)["spec"]["storageClassName"] == "a"


@pytest.mark.parametrize(
    ("phase", "name", "storage", "why"),
    [
        ("Bound", "grows", "2Gi", ""),
        ("Bound", "stays", "1Gi", ""),
        ("Pending", "grows", "2Gi", "spec is immutable after creation"),
        ("Bound", "stays", "2Gi", "only dynamically provisioned pvc can be resized"),
        ("Bound", "", "2Gi", "only dynamically provisioned pvc can be resized"),
        ("Bound", "gone", "2Gi", "only dynamically provisioned pvc can be resized"),
    ],
)
def test_a_claim_grows_if_it_is_bound_and_its_class_lets_it(
    cluster: Cluster, phase: str, name: str, storage: str, why: str
) -> None:
    for each, grows in (("grows", True), ("stays", False)):
        cluster.create(class_of(*_STORAGE, each, is_default="false", allowVolumeExpansion=grows))
    made = cluster.create(claim("a", storageClassName=name))
    status = {"phase": phase, "capacity": {"storage": "1Gi"}}
    live = cluster.update_status(key_of(made), {**made, "status": status})
    wanted = {**live, "spec": {**live["spec"], "resources": {"requests": {"storage": storage}}}}
    if not why:
        cluster.update(wanted)
        return
    with pytest.raises(ApiError, match=why) as refused:
        cluster.update(wanted)
    assert refused.value.code in (403, 422)
