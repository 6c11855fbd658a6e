"""What a node may change of its own objects, decided by the object before and after."""

from base64 import b64encode
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from modules.apimachinery.kinds import JsonObject
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_accounts import MOST_REQUESTS
from modules.cloud.authorization.node_restriction import refusal


def an(kind: str, name: str = "n1", namespace: str = "", /, **fields: Any) -> JsonObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **fields}


def a_pod(node: str = "n1", **metadata: Any) -> JsonObject:
    return an("Pod", "web", "default", metadata=metadata, spec={"nodeName": node})


def a_lease(name: str) -> JsonObject:
    return an("Lease", name, "kube-node-lease")


def an_event(host: str, about: JsonObject | None = None, namespace: str = "default") -> JsonObject:
    return an("Event", "e", namespace, source={"host": host}, involvedObject=about or {"kind": "Node", "name": "n1"})


def a_node(*taints: str, **labels: str) -> JsonObject:
    return an("Node", metadata={"labels": labels}, spec={"taints": [{"key": key} for key in taints]})


def annotated(obj: JsonObject, **annotations: str) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def with_spec(**spec: Any) -> JsonObject:
    return an("Node", spec=spec)


REQUEST = an("CertificateSigningRequest", spec={"username": "system:node:n1", "signerName": "example.com/own"})
POD = {"kind": "Pod", "namespace": "default", "name": "web"}


@pytest.mark.parametrize(
    ("old", "new", "is_refused"),
    [
        (a_pod(), a_pod(), False),
        (a_pod("n2"), a_pod("n2"), True),
        (a_pod("n2"), a_pod(), True),
        (a_pod(labels={"a": "1"}), a_pod(labels={"a": "2"}), True),
        (a_pod(), None, False),
        (a_pod("n2"), None, True),
        (a_lease("n1"), a_lease("n1"), False),
        (a_lease("n2"), a_lease("n1"), True),
        (a_lease("n2"), None, True),
        (None, an_event("n1", POD), False),
        (an_event("n2"), an_event("n1"), True),
        (None, an_event("n2"), True),
        (an_event("n1", {**POD, "name": "theirs"}), an_event("n1", POD), True),
        (an_event("n1"), None, True),
        (None, an_event("n1", POD, "other"), True),
        (a_node("a"), a_node("a"), False),
        (a_node("a"), a_node("b"), True),
        (a_node("a"), a_node(), True),
        (a_node(), a_node(**{"notkubernetes.io/x": "1"}), False),
        (a_node(), a_node(**{"x.kubernetes.io": "1"}), False),
        (a_node(), a_node(**{"x.kubernetes.io/x": "1"}), True),
        (a_node(**{"k8s.io/x": "1"}), a_node(), True),
        (a_node(), a_node(**{"kubernetes.io/hostname": "n1"}), False),
        (a_node(), a_node(**{"kubernetes.io/hostname": "n3"}), False),
        (a_node(), a_node(**{"kubernetes.io/hostname": "n2"}), True),
        (None, a_node(**{"kubernetes.io/hostname": "n2"}), True),
        (a_node(**{"kubernetes.io/hostname": "n2"}), a_node(), False),
        (a_node(**{"kubernetes.io/hostname": "n2"}), a_node(**{"kubernetes.io/hostname": "n2", "a": "b"}), False),
        (a_node(), a_node(**{"apps.kubeedge.io/belonging-to": "bank"}), True),
        (a_node(**{"apps.kubeedge.io/belonging-to": "bank"}), a_node(), True),
        (None, a_node(**{"apps.kubeedge.io/belonging-to": "bank"}), True),
        (None, a_node(**{"node-restriction.kubernetes.io/team": "bank"}), True),
        (annotated(a_node()), annotated(a_node(), **{"edgecore.io/evict-after": "30m"}), True),
        (annotated(a_node(), **{"node.openyurt.io/autonomy-duration": "1m"}), a_node(), True),
        (None, annotated(a_node(), **{"edgecore.io/evict-after": "30m"}), True),
        (a_node(), annotated(a_node(), **{"volumes.kubernetes.io/mine": "1"}), False),
        (with_spec(unschedulable=True), with_spec(), True),
        (with_spec(), with_spec(unschedulable=True), True),
        (with_spec(unschedulable=False), with_spec(), False),
        (with_spec(), with_spec(podCIDRs=["10.1.0.0/24"], podCIDR="10.1.0.0/24"), True),
        (with_spec(), with_spec(providerID="other"), True),
        (None, with_spec(unschedulable=True, providerID="mine"), False),
        (a_node(), an("Node", metadata={"finalizers": ["x"]}), True),
        (an("Node", metadata={"finalizers": ["x"]}), a_node(), True),
        (None, an("Node", metadata={"finalizers": ["x"]}), True),
        (a_pod(), a_pod(annotations={"example.com/mine": "1"}), False),
        (a_pod(), a_pod(annotations={"controller.kubernetes.io/pod-deletion-cost": "9"}), True),
        (a_pod(annotations={"batch.kubernetes.io/job-completion-index": "1"}), a_pod(), True),
        (a_pod(annotations={"edgecore.io/owner": "1"}), a_pod(annotations={"edgecore.io/owner": "2"}), True),
        (a_node(), None, True),
        (REQUEST, REQUEST, True),
        (REQUEST, None, True),
    ],
)
def test_a_write_is_judged_by_the_object_before_and_after(
    old: JsonObject | None, new: JsonObject | None, is_refused: bool
) -> None:
    pods = {"web": a_pod(), "theirs": a_pod("n2")}
    known = SimpleNamespace(find=lambda key: pods.get(key.name), is_hostname_in_use=lambda name, _node: name == "n2")
    graph = cast("NodeGraph", known)
    assert bool(refusal("n1", old, new, graph)) is is_refused


def test_a_refusal_is_bounded() -> None:
    """It is logged, and goes back to the node."""
    labels = {f"x.kubernetes.io/{'x' * 5000}{each}": "1" for each in range(100)}
    assert len(refusal("n1", a_node(), a_node(**labels), cast("NodeGraph", None))) < 1000


@pytest.mark.parametrize(("made", "is_refused"), [(MOST_REQUESTS - 1, False), (MOST_REQUESTS, True)])
def test_a_node_has_few_certificate_requests(made: int, *, is_refused: bool) -> None:
    graph = cast("NodeGraph", SimpleNamespace(requests_of=lambda _: made))
    assert bool(refusal("n1", None, REQUEST, graph)) is is_refused


@pytest.mark.parametrize(
    ("signer", "name", "is_refused"),
    [
        ("kubernetes.io/kubelet-serving", "system:node:n1", False),
        ("kubernetes.io/kubelet-serving", "system:node:n2", True),
        ("kubernetes.io/kube-apiserver-client-kubelet", "system:node:n2", True),
        ("kubernetes.io/kube-apiserver-client-kubelet", "", True),
        ("kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1 system:node:n2", True),
        ("example.com/own", "system:node:n2", False),
    ],
)
def test_a_node_asks_for_no_kubelets_certificate_of_another_name(signer: str, name: str, is_refused: bool) -> None:
    """The user in the request was the node itself: one who approves by the user gave it the certificate of another."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in name.split()])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)
    spec = {"username": "system:node:n1", "signerName": signer, "request": b64encode(made).decode()}
    graph = cast("NodeGraph", SimpleNamespace(requests_of=lambda _: 0))
    assert bool(refusal("n1", None, an("CertificateSigningRequest", "c", spec=spec), graph)) is is_refused
