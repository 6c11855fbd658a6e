"""What a node with a certificate of its own tried and got: each message is refused, in KubeEdge's form."""

import json
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject, kind_named
from tests.modules.cloud.authorization.test_table import mirror
from tests.modules.cloud.authorization.world import ME, NEIGHBOUR, SERVING, World, code_of


def code_in(answer: Any) -> int:
    """The code of an answer's error; 200 without one."""
    error = (answer.get("Err") or answer) if isinstance(answer, dict) else {}
    return int(error.get("ErrStatus", {}).get("code", 200))


def patch(**members: Any) -> str:
    return json.dumps(members)


FOREIGN = [
    ("default/secret/their-secret", "query", None),
    ("default/secret/their-volume-secret", "query", None),
    ("finance/secret/bank", "query", None),
    ("default/configmap/their-config", "query", None),
    ("default/persistentvolumeclaim/their-claim", "query", None),
    ("default/persistentvolume/their-volume", "query", None),
    ("default/volumeattachment/their-attachment", "query", None),
    ("null/certificatesigningrequest/their-request", "query", None),
    ("null/node/n2", "query", None),
    ("null/node/n2", "insert", {"metadata": {"name": "n2"}}),
    ("null/node/n3", "insert", {"metadata": {"name": "n3"}}),
    ("null/node/n2", "update", {"metadata": {"name": "n2", "labels": {"a": "b"}}}),
    ("null/nodepatch/n2", "patch", patch(status={"phase": "Gone"})),
    ("kube-node-lease/lease/n2", "query", None),
    ("kube-node-lease/lease/n2", "update", {"spec": {"holderIdentity": "n1"}}),
    ("default/lease/n1", "insert", {"spec": {"holderIdentity": "n1"}}),
    ("default/podpatch/their-pod", "patch", patch(status={"phase": "Failed"})),
    ("default/pod/their-pod", "delete", {"gracePeriodSeconds": 0}),
    ("default/pod/their-pod", "delete", None),
    ("default/pod/evil", "insert", {"metadata": {"name": "evil"}, "spec": {"nodeName": ME}}),
]
"""Requests that are answered with 403: they change nothing and tell nothing."""

SILENT = [
    ("null/nodestatus/n2", "update", {"Status": {"phase": "Gone"}}),
    ("null/nodestatus/n9", "update", {"Status": {"phase": "Gone"}}),
    ("default/podstatus/their-pod", "update", {"Name": "their-pod", "Status": {"phase": "Failed"}}),
    ("default/podstatus", "update", [{"Name": "their-pod", "Status": {"phase": "Failed"}}]),
    ("default/event/their-event", "update", {"reason": "forged", "involvedObject": {"kind": "Node", "name": "n1"}}),
    ("default/event/e", "insert", {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "their-pod"}}),
    ("default/event/e", "insert", {"involvedObject": {"kind": "Node", "name": "n2"}}),
    ("default/event/e", "insert", {"involvedObject": "n1", "source": "n1"}),
    ("default/event/e", "patch", {"event": {}, "patchData": '{"count":2}'}),
    ("default/event/e", "insert", {"involvedObject": {"kind": "Node", "name": "n1"}, "source": {"host": "n2"}}),
]
"""Likewise, but edges wait for no answer."""


@pytest.mark.parametrize(("resource", "operation", "content"), FOREIGN)
def test_objects_of_others_are_refused(untouched: World, resource: str, operation: str, content: Any) -> None:
    """And nothing changes, nothing is sent to anybody."""
    before = untouched.everything()
    answer = untouched.says(resource, operation, content)
    assert code_in(answer) == 403
    assert answer.get("Object") is None or answer["Object"]["metadata"].get("uid") is None
    assert untouched.everything() == before
    assert untouched.controller.down() == []


@pytest.mark.parametrize(("resource", "operation", "content"), SILENT)
def test_reports_about_others_change_nothing(untouched: World, resource: str, operation: str, content: Any) -> None:
    before = untouched.everything()
    assert untouched.says(resource, operation, content) is None
    assert untouched.everything() == before
    assert untouched.controller.down() == []


def test_an_old_edge_gets_the_error_in_words_so_it_makes_no_other_node(world: World) -> None:
    """KubeEdge's form for that request."""
    before = world.everything()
    assert "is forbidden" in world.says("null/nodestatus/n9", "insert", {"metadata": {"name": "n9"}})
    assert world.everything() == before


def test_of_a_list_of_statuses_only_its_own_count(world: World) -> None:
    """One foreign one among them does not keep the others from being taken."""
    status = {"phase": "Running"}
    world.says("default/podstatus", "update", [{"Name": f"{one}-pod", "Status": status} for one in ("their", "mine")])
    phases = [(world.find("Pod", f"{whose}-pod") or {})["status"]["phase"] for whose in ("mine", "their")]
    assert phases == ["Running", "Pending"]


def test_objects_that_it_may_not_read_are_not_pushed(world: World) -> None:
    """A query for a secret is not enough to get its changes, nor its creation."""
    for name in ("their-secret", "later"):
        world.says(f"default/secret/{name}", "query")
    world.bee.forget()
    changed = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "their-secret"}, "stringData": {"a": "new"}}
    world.controller.apply(changed, {**changed, "metadata": {"name": "later"}})
    assert world.controller.down() == ["update node/n2/default/secret/their-secret"]


def test_what_its_pods_refer_to_it_reads_until_they_go(world: World) -> None:
    """By a variable, a volume, a claim and the volume behind it."""
    wanted = ["secret/mine-secret", "configmap/mine-config", "persistentvolumeclaim/mine-claim"]
    wanted += ["persistentvolume/mine-volume", "secret/mine-volume-secret"]
    assert [code_in(world.says(f"default/{one}", "query")) for one in wanted] == [200] * 5
    world.controller.remove("pod", "mine-pod", grace=0)
    assert [code_in(world.says(f"default/{one}", "query")) for one in wanted] == [403] * 5


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "secret": {"secretName": "their-secret"}}]},
        {"volumes": [{"name": "v", "configMap": {"name": "their-config"}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "their-claim"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "their-secret"}}]}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        {"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "their-secret"}}}]},
        {"volumes": [{"name": "v", "azureFile": {"shareName": "s", "secretName": "their-secret"}}]},
        {"imagePullSecrets": [{"name": "their-secret"}]},
        {"initContainers": [{"name": "i", "image": "b", "envFrom": [{"secretRef": {"name": "their-secret"}}]}]},
        {"ephemeralContainers": [{"name": "e", "image": "b", "envFrom": [{"secretRef": {"name": "their-secret"}}]}]},
        {"serviceAccountName": "their-account"},
        {"serviceAccount": "their-account"},
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "their-gpu"}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}}]},
    ],
)
def test_a_mirror_pod_refers_to_nothing(world: World, spec: JsonObject) -> None:
    """A forged one got the secret that it named pushed."""
    answer = world.says("default/pod/static-n1", "insert", mirror(world, **spec))
    assert code_in(answer) == 403
    assert world.find("Pod", "static-n1") is None
    assert world.controller.down() == []


ONLY = 'node "n1" can only create pods with '


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([{}], ""),
        ([], ONLY + "an owner reference set to itself"),
        ([{}, {"name": "other"}], ONLY + "a single owner reference set to itself"),
        ([{"name": "n2"}], ONLY + "an owner reference set to itself"),
        ([{"kind": "ReplicaSet"}], ONLY + "an owner reference set to itself"),
        ([{"apiVersion": "apps/v1"}], ONLY + "an owner reference set to itself"),
        ([{"controller": None}], ONLY + "a controller owner reference set to itself"),
        ([{"controller": False}], ONLY + "a controller owner reference set to itself"),
        ([{"blockOwnerDeletion": True}], 'node "n1" must not set blockOwnerDeletion on an owner reference'),
        ([{"uid": "former"}], "node n1 UID mismatch: expected former got "),
    ],
)
def test_a_mirror_pod_belongs_to_its_node_and_to_nobody_else(world: World, changes: list[JsonObject], why: str) -> None:
    """In NodeRestriction's words; without an owner, it stayed when the Node was deleted."""
    made = mirror(world)
    (owner,) = made["metadata"]["ownerReferences"]
    made["metadata"]["ownerReferences"] = [{**owner, **each} for each in changes]
    answer = world.says("default/pod/static-n1", "insert", made)
    assert code_in(answer) == (403 if why else 200)
    assert why in str(answer)


def test_no_mirror_pod_is_made_before_its_node(world: World) -> None:
    made = mirror(world)
    world.controller.remove("node", ME)
    answer = world.says("default/pod/static-n1", "insert", made)
    assert "error looking up node n1 to verify uid: not found" in str(answer)


def test_a_status_changes_no_label_and_no_owner(world: World) -> None:
    """With a label a pod would be a service's; with an owner, somebody's to count or to collect."""
    before = world.find("Pod", "mine-pod")
    labelled = patch(metadata={"labels": {"a": "2"}}, status={"phase": "Running"})
    assert code_in(world.says("default/podpatch/mine-pod", "patch", labelled)) == 403
    assert world.find("Pod", "mine-pod") == before
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    meta = {"ownerReferences": [owner], "finalizers": ["x"]}
    assert code_in(world.says("default/podpatch/mine-pod", "patch", patch(metadata=meta))) == 200
    assert not {"ownerReferences", "finalizers"} & set((world.find("Pod", "mine-pod") or {})["metadata"])


def test_a_pods_image_is_not_part_of_its_status(world: World) -> None:
    """The subresource's update, spelt as the verb or as the path, takes the status alone."""
    pod = dict(world.find("Pod", "mine-pod") or {})
    spec = {**pod["spec"], "containers": [{**pod["spec"]["containers"][0], "image": "evil"}]}
    metadata = {field: value for field, value in pod["metadata"].items() if field != "resourceVersion"}
    body = {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    name = {"plural": "pods", "namespace": "default", "name": "mine-pod", "body": body}
    for how in ({"verb": "updatestatus"}, {"verb": "update", "subresource": "status"}):
        assert code_of(world.call(**how, **name)) == 200
    assert code_of(world.call(verb="update", **name)) == 403
    live = world.find("Pod", "mine-pod") or {}
    assert (live["spec"]["containers"][0]["image"], live["status"]["phase"]) == ("busybox", "Running")


LABELS = {
    "mine": True,
    "example.com/zone": True,
    "kubernetes.io/hostname": True,
    "topology.kubernetes.io/zone": True,
    "node.kubernetes.io/anything": True,
    "sub.kubelet.kubernetes.io/anything": True,
    "node-role.kubernetes.io/edge": True,
    "node-role.kubernetes.io/agent": True,
    "node-role.kubernetes.io/control-plane": False,
    "node-role.kubernetes.io/edge2": False,
    "node-restriction.kubernetes.io/team": False,
    "apps.kubeedge.io/belonging-to": False,
    "sub.apps.kubeedge.io/a": False,
    "kubeedge.io/a": True,
    "kubernetes.io/anything": False,
    "k8s.io/a": False,
    "sub.k8s.io/a": False,
    "evil-node.kubernetes.io/a": False,
}
"""Labels, and whether a node may set them."""


@pytest.mark.parametrize("how", ["update", "patch", "Application"])
def test_the_labels_of_kubernetes_that_a_node_may_set(world: World, how: str) -> None:
    """Whichever way it tries."""
    seen = {label: (_label(world, how, label), _value(world, label)) for label in LABELS}
    assert seen == {label: (200, "x-" + how) if permitted else (403, None) for label, permitted in LABELS.items()}


def _label(world: World, how: str, label: str) -> int:
    """Let n1 set a label of its own node; return the answer's code."""
    meta = {"labels": {label: "x-" + how}}
    if how == "Application":
        kind = "application/strategic-merge-patch+json"
        return code_of(world.call(verb="patch", plural="nodes", name=ME, patch_type=kind, body={"metadata": meta}))
    if how == "update":
        return code_in(world.says("null/node/n1", "update", {"metadata": {"name": ME, **meta}}))
    return code_in(world.says("null/nodepatch/n1", "patch", patch(metadata=meta)))


def _value(world: World, label: str) -> str | None:
    value: str | None = ((world.find("Node", ME, "") or {})["metadata"].get("labels") or {}).get(label)
    return value


def test_a_node_keeps_its_taints_and_belongs_to_nobody(world: World) -> None:
    """It may be tainted to keep pods with secrets away from it; an owner that is not there would have it collected."""
    before = world.find("Node", ME, "")
    call = {"verb": "patch", "plural": "nodes", "name": ME, "patch_type": "application/merge-patch+json"}
    assert code_of(world.call(**call, body={"spec": {"taints": None}})) == 403
    assert code_of(world.call(**call, body={"spec": {"taints": []}})) == 403
    owner = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "u"}
    assert code_in(world.says("null/nodepatch/n1", "patch", patch(metadata={"ownerReferences": [owner]}))) == 403
    assert world.find("Node", ME, "") == before


@pytest.mark.parametrize("how", ["insert", "nodestatus", "Application"])
def test_a_node_registers_in_no_group(world: World, how: str) -> None:
    """Its first word about itself counts no more than later ones."""
    world.controller.remove("node", ME)
    made = {"metadata": {"name": ME, "labels": {"apps.kubeedge.io/belonging-to": "bank"}}}
    if how == "Application":
        assert code_of(world.call(verb="create", plural="nodes", body=made)) == 403
    else:
        answer = world.says(f"null/{'nodestatus' if how == 'nodestatus' else 'node'}/n1", "insert", made)
        assert "apps.kubeedge.io/belonging-to" in json.dumps(answer)
    assert world.find("Node", ME, "") is None


@pytest.mark.parametrize("hostname", [NEIGHBOUR, "their-host"])
def test_a_node_takes_no_hostname_of_another(world: World, hostname: str) -> None:
    """Pods, and the volumes of their claims, choose a node by this label; neither by the name nor by the label."""
    labels = {"labels": {"kubernetes.io/hostname": "their-host"}}
    world.controller.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NEIGHBOUR, **labels}})
    asked = patch(metadata={"labels": {"kubernetes.io/hostname": hostname}})
    assert code_in(world.says("null/nodepatch/n1", "patch", asked)) == 403
    assert _value(world, "kubernetes.io/hostname") is None
    world.controller.remove("node", NEIGHBOUR)
    assert code_in(world.says("null/nodepatch/n1", "patch", asked)) == 200


NOT_ITS_OWN = [
    {"spec": {"unschedulable": None}},
    {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
    {"spec": {"providerID": "theirs"}},
    {"metadata": {"finalizers": ["example.com/stays"]}},
    {"metadata": {"annotations": {"edgecore.io/evict-after": None}}},
    {"metadata": {"annotations": {"node.openyurt.io/autonomy-duration": "1000h"}}},
]
"""Patches of n1's Node: an administrator has cordoned it, and wants its pods elsewhere after a minute."""


@pytest.mark.parametrize("body", NOT_ITS_OWN)
def test_a_node_takes_back_nothing_that_an_administrator_has_decided(world: World, body: JsonObject) -> None:
    cordoned = {"metadata": {"name": ME, "annotations": {"edgecore.io/evict-after": "1m"}}}
    world.controller.apply({"apiVersion": "v1", "kind": "Node", **cordoned, "spec": {"unschedulable": True}})
    before = world.find("Node", ME, "")
    call = {"verb": "patch", "plural": "nodes", "name": ME, "patch_type": "application/merge-patch+json"}
    assert code_of(world.call(**call, body=body)) == 403
    assert world.find("Node", ME, "") == before


@pytest.mark.parametrize(
    "name", ["batch.kubernetes.io/job-completion-index", "controller.kubernetes.io/pod-deletion-cost"]
)
def test_a_status_changes_no_annotation_that_a_controller_decides_by(world: World, name: str) -> None:
    """A node could end an index of a Job that runs elsewhere, or keep its pods when others are deleted."""
    asked = patch(metadata={"annotations": {name: "1"}}, status={"phase": "Succeeded"})
    before = world.find("Pod", "mine-pod")
    assert code_in(world.says("default/podpatch/mine-pod", "patch", asked)) == 403
    assert world.find("Pod", "mine-pod") == before


def test_a_mirror_pod_has_no_finalizers(world: World) -> None:
    """It would stay after its Node, in a namespace that nobody could delete."""
    made = mirror(world)
    made["metadata"]["finalizers"] = ["example.com/stays"]
    assert code_in(world.says("default/pod/static-n1", "insert", made)) == 403


def test_a_node_registers_with_labels_that_are_permitted(world: World) -> None:
    """A real edge's; with another it is refused, and can be seen so."""
    world.controller.remove("node", ME)
    roles = {"node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/agent": "", "kubernetes.io/os": "linux"}
    bad = {**roles, "node-role.kubernetes.io/control-plane": ""}
    answer = world.says("null/node/n1", "insert", {"metadata": {"name": ME, "labels": bad}})
    assert code_in(answer) == 403
    said = "is not allowed to set the following labels: node-role.kubernetes.io/control-plane"
    assert said in answer["Err"]["ErrStatus"]["message"]
    assert code_in(world.says("null/node/n1", "insert", {"metadata": {"name": ME, "labels": roles}})) == 200


def bound(world: World, whose: str, **changes: Any) -> JsonObject:
    pod = world.find("Pod", f"{whose}-pod") or {}
    reference = {"kind": "Pod", "apiVersion": "v1", "name": f"{whose}-pod", "uid": pod["metadata"]["uid"], **changes}
    return {"spec": {"audiences": None, "expirationSeconds": 3607, "boundObjectRef": reference}}


def test_tokens_are_for_its_pods(world: World) -> None:
    """For their accounts, bound to them by the uid that they have."""
    own = "default/serviceaccounttoken/mine-account"
    assert "token" in world.says(own, "query", bound(world, "mine"))["status"]
    refused = [
        (own, {}),
        (own, {"spec": None}),
        (own, {"spec": {"boundObjectRef": None}}),
        (own, bound(world, "mine", uid="")),
        (own, bound(world, "mine", uid="older")),
        (own, bound(world, "mine", kind="Secret")),
        (own, bound(world, "mine", apiVersion="apps/v1")),
        (own, bound(world, "their")),
        ("default/serviceaccounttoken/their-account", bound(world, "their")),
        ("default/serviceaccounttoken/their-account", bound(world, "mine")),
        ("kube-system/serviceaccounttoken/mine-account", bound(world, "mine")),
    ]
    assert [code_in(world.says(resource, "query", body)) for resource, body in refused] == [403] * len(refused)


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_a_mirror_pod_runs_as_no_service_account(world: World, namespace: str) -> None:
    """Its node chooses the namespace: the account `default` there may have any rights."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}
    world.controller.apply(account)
    made = mirror(world)
    made["metadata"]["namespace"] = namespace
    assert code_in(world.says(f"{namespace}/pod/static-n1", "insert", made)) == 200
    stored = world.find("Pod", "static-n1", namespace) or {}
    assert "serviceAccountName" not in stored["spec"]
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "static-n1", "uid": stored["metadata"]["uid"]}
    asked = {"spec": {"boundObjectRef": reference, "expirationSeconds": 3600}}
    assert code_in(world.says(f"{namespace}/serviceaccounttoken/default", "query", asked)) == 403
    assert code_of(world.call(verb="get", plural="serviceaccounts", namespace=namespace, name="default")) == 403


CLAIMS = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "their-gpu"}]}


@pytest.mark.parametrize("others", [{}, {"annotations": {"a": "1"}}])
@pytest.mark.parametrize("patch_type", ["application/strategic-merge-patch+json", "application/merge-patch+json"])
def test_a_status_gives_a_pod_no_resource_claim(world: World, patch_type: str, others: JsonObject) -> None:
    """The node might read the claim that its pod has (CVE-2025-4563)."""
    call = {"verb": "patch", "plural": "pods", "namespace": "default", "name": "mine-pod", "subresource": "status"}
    for status, code in ((CLAIMS, 403), ({"phase": "Running"}, 200)):
        result = world.call(**call, patch_type=patch_type, body={"metadata": others, "status": status})
        assert code_of(result) == code


@pytest.mark.parametrize("others", [{}, {"annotations": {"a": "1"}}])
def test_a_status_that_grows_with_each_patch_counts_whole(world: World, others: JsonObject) -> None:
    """A strategic merge patch adds to lists, so that each patch is small."""
    call = {"verb": "patch", "plural": "pods", "namespace": "default", "name": "mine-pod", "subresource": "status"}
    codes = []
    for number in range(8):
        conditions = [{"type": f"t{number}", "status": "True", "message": "x" * 300_000}]
        body = {"metadata": others, "status": {"conditions": conditions}}
        result = world.call(**call, patch_type="application/strategic-merge-patch+json", body=body)
        codes.append((code_of(result), (result.refusal or {}).get("message", "")))
    assert codes[0] == (200, "")
    assert codes[-1][0] == 403
    assert "exceeded quota" in codes[-1][1]


def test_a_successor_elsewhere_is_left_alone_and_the_own_pod_ends(world: World) -> None:
    """A pod made again on another node: the node of the old one, by its uid, is asked to end it."""
    status = patch(metadata={"uid": "mine, of old"}, status={"phase": "Running"})
    before = world.foreign()
    assert code_in(world.says("default/podpatch/their-pod", "patch", status)) == 422
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": "mine, of old"}}
    assert world.says("default/pod/their-pod", "delete", options) == "OK"
    assert world.foreign() == before


def test_a_request_for_a_certificate_is_in_the_name_of_who_makes_it(world: World) -> None:
    """And so another node cannot read it."""
    spec = {**SERVING, "username": "system:node:n2"}
    assert code_in(world.says("null/certificatesigningrequest/c", "insert", {"spec": spec})) == 200
    made = world.find("CertificateSigningRequest", "c", "") or {}
    assert made["spec"]["username"] == "system:node:n1"
    assert code_in(world.says("null/certificatesigningrequest/c", "query")) == 200


def test_a_node_fills_no_memory_with_missing_objects(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests for certificates are a hundred, and what it waits for is bounded."""
    monkeypatch.setattr("modules.cloud.edgecontroller.downstream.controller.MAX_HELD_OBJECTS", 100)
    for number in range(150):
        world.controller.asks(f"default/volumeattachment/none-{number}", "query")
    answers = [
        code_in(world.says(f"null/certificatesigningrequest/c{number}", "insert", {"spec": SERVING}))
        for number in range(101)
    ]
    assert answers == [200] * 99 + [403] * 2
    controller = world.bee.hive.slot("edgecontroller").running
    assert controller is not None
    module: Any = controller.ref._actor_weakref()
    assert module._downstream.locations.count(ME) <= 100


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap", "Node", "Pod", "Lease"])
def test_an_object_of_another_kind_passes_no_more_than_its_own(world: World, kind: str) -> None:
    """In the place of an event, of the node or of a lease: what counts is what would be written."""
    before = world.foreign()
    version = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
    for name in ("n2", "new", "their-secret", "their-pod"):
        body = {"kind": kind, "apiVersion": version, "metadata": {"name": name}, "spec": {}}
        world.says(f"default/event/{name}", "patch", {"event": {}, "patchData": json.dumps(body)})
        world.says(f"default/event/{name}", "insert", body)
        for plural in ("nodes", "events", "pods"):
            for verb in ("create", "update"):
                world.call(verb=verb, plural=plural, namespace="default", name=name, body=body)
    assert world.foreign() == before


def test_nobody_is_no_node(world: World) -> None:
    """A call without a node's name is refused, also for objects without a node."""
    world.controller.apply(
        {**mirror(world), "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "i"}]}}
    )
    assert code_of(world.call(verb="get", plural="pods", namespace="default", name="static-n1", node="")) == 403


def test_one_nodes_events_do_not_push_out_anothers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is limited; the node with the most makes room."""
    monkeypatch.setattr("modules.cloud.apiserver.event_registry._KEPT", 50)
    monkeypatch.setattr("modules.cloud.apiserver.event_registry._SURPLUS", 0)
    about = {"kind": "Node", "name": ME}
    for number in range(70):
        event = {"involvedObject": about, "source": {"host": ME}, "reason": "Noise"}
        world.controller.asks(f"default/event/noise-{number}", "insert", event)
    assert world.find("Event", "their-event") is not None
    assert world.find("Event", "noise-0") is None
    assert len(world.controller.cluster.storage.list(kind_named("Event"))) == 50


def test_refusals_stay_short_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Two hundred of them are a dozen lines, and what the node wrote cannot make a line of its own."""
    for _ in range(200):
        world.says("default/secret/bank\x1b[2J\n", "query")
    lines = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert 1 <= len(lines) <= 12
    assert not any("\n" in line or "\x1b" in line for line in lines)


@pytest.mark.parametrize(
    ("patch_type", "body"),
    [
        ("application/json-patch+json", [{"op": "replace", "path": "/metadata", "value": {"name": NEIGHBOUR}}]),
        ("application/json-patch+json",
         [{"op": "add", "path": "/metadata/labels/node-restriction.kubernetes.io~1a", "value": "x"}]),
        ("application/apply-patch+yaml", {"kind": "Node", "metadata": {"name": ME, "labels": {"a": "b"}}}),
        ("application/merge-patch+json", {"metadata": {"name": NEIGHBOUR, "uid": None, "resourceVersion": None}}),
    ],
)  # fmt: skip
def test_a_patch_of_its_own_node_is_no_way_to_another_or_around_the_rules(
    world: World, patch_type: str, body: Any
) -> None:
    before = world.everything()
    for options in ({}, {"dryRun": ["All"]}):
        result = world.call(
            verb="patch", plural="nodes", name=ME, patch_type=patch_type, body=body, options={**options}
        )
        assert code_of(result) >= 400
    assert world.everything() == before


def test_a_dry_run_and_a_selector_show_a_node_nothing_of_others(world: World) -> None:
    dry = {"dryRun": ["All"]}
    assert code_of(world.call(verb="delete", plural="pods", namespace="default", name="their-pod", options=dry)) == 403
    assert (
        code_of(world.call(verb="get", plural="secrets", namespace="default", name="their-secret", options=dry)) == 403
    )
    for fields in ("", f"spec.nodeName={ME},status.phase=Running", f"spec.nodeName!={ME}"):
        options = {"fieldSelector": fields, "labelSelector": "a"}
        assert code_of(world.call(verb="list", plural="pods", options=options)) == 403
    assert code_of(world.call(verb="deletecollection", plural="pods", namespace="default")) == 403


@pytest.mark.parametrize("selector", ["", "metadata.name={their}", "metadata.name!={mine}"])
@pytest.mark.parametrize(
    ("plural", "namespace", "mine", "their"),
    [
        ("secrets", "default", "mine-secret", "their-secret"),
        ("configmaps", "default", "mine-config", "their-config"),
        ("nodes", "", ME, NEIGHBOUR),
    ],
)
def test_a_list_is_of_the_collection_although_it_names_an_object_of_the_node(
    world: World, plural: str, namespace: str, mine: str, their: str, selector: str
) -> None:
    """The API server ignores the name of a list: only a selector limits it to one object."""
    call = {"verb": "list", "plural": plural, "namespace": namespace}
    fields = selector.format(mine=mine, their=their)
    assert code_of(world.call(**call, name=mine, options={"fieldSelector": fields} if fields else {})) == 403
    found = world.call(**call, options={"fieldSelector": f"metadata.name={mine}"}).object or {}
    assert [one["metadata"]["name"] for one in found["items"]] == [mine]


@pytest.mark.parametrize(
    "call",
    [
        {"plural": "pods", "name": "their-pod"},
        {"plural": "volumeattachments", "name": "their-attachment", "api_version": "storage.k8s.io/v1"},
        {"plural": "certificatesigningrequests", "name": "their-request", "api_version": "certificates.k8s.io/v1"},
    ],
)
@pytest.mark.parametrize("namespace", ["", "default", "elsewhere"])
def test_the_namespace_of_a_path_leads_to_no_other_object_than_the_one_it_is_judged_by(
    world: World, call: dict[str, str], namespace: str
) -> None:
    """A pod without a namespace is one of `default`, and cluster-scoped objects have no namespace in any path."""
    result = world.call(verb="get", namespace=namespace, **call)
    assert code_of(result) == (404 if call["plural"] == "pods" and namespace == "elsewhere" else 403)


@pytest.mark.parametrize("guess", ["Pending", "Running"])
@pytest.mark.parametrize("plural", ["pods", "events"])
def test_a_guess_at_what_others_have_is_not_answered(world: World, guess: str, plural: str) -> None:
    """The test of a JSON patch, and the precondition of a deletion: right or wrong, the answer is the same."""
    test = [{"op": "test", "path": "/status/phase" if plural == "pods" else "/source/host", "value": guess}]
    name, part = ("their-pod", "status") if plural == "pods" else ("their-event", "")
    patch_type = "application/json-patch+json"
    call = {"plural": plural, "namespace": "default", "name": name}
    patched = world.call(verb="patch", subresource=part, patch_type=patch_type, body=test, **call)
    assert code_of(patched) == 403
    deleted = world.call(verb="delete", options={"preconditions": {"resourceVersion": "1"}}, **call)
    assert code_of(deleted) == 403
