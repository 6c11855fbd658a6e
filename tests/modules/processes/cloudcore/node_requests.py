"""All that a node can ask cloudcore for: a message of each type, and a request of its metaserver for each rule."""

import json
from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.application import PatchInfo, Target, Verb, application, message_of
from modules.cloud.client.calls import MERGE
from tests.modules.cloud.objects import SIGNING_REQUEST, node, pod
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge

LEASE: Final = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "n1"}}
ABSENT: Final = {
    "configMap": {"name": "absent"},
    "secret": {"secretName": "absent"},
    "persistentVolumeClaim": {"claimName": "absent"},
}
"""Sources of volumes: a node may ask for them, and as none is in the mirror, cloudcore asks the API server."""


def pod_that_refers() -> dict[str, Any]:
    """A pod of the node, with references to what does not exist."""
    return pod(volumes=[{"name": kind.lower(), kind: source} for kind, source in ABSENT.items()])


class Uids(NamedTuple):
    """What the API server has called the node's pod `web`, and the node."""

    pod: str = ""
    node: str = ""


def upstream(uids: Uids) -> dict[tuple[str, str], tuple[str, Any]]:
    """A message of each type that a node sends: its resource and content.

    Args:
        uids: of what it is about.
    """
    uid = uids.pod
    bound = {"kind": "Pod", "name": "web", "uid": uid}
    status: dict[str, Any] = {"Status": {"conditions": [], "addresses": []}, "ExtendResources": {}}
    queries = (
        "configmap", "secret", "persistentvolume", "persistentvolumeclaim", "volumeattachment", "service", "endpoints",
    )  # fmt: skip
    return {
        ("node", "query"): ("null/node/n1", None),
        ("node", "insert"): ("null/node/n1", node()),
        ("node", "update"): ("null/node/n1", node(x="1")),
        ("nodepatch", "patch"): ("default/nodepatch/n1", '{"status":{"phase":"Running"}}'),
        ("nodestatus", "insert"): ("default/nodestatus/n1", node()),
        ("nodestatus", "update"): ("default/nodestatus/n1", status),
        ("podpatch", "patch"): ("default/podpatch/web", json.dumps({"metadata": {"uid": uid}, "status": {}})),
        ("podstatus", "update"): ("default/podstatus/web", {"Name": "web", "UID": uid, "Status": {"phase": "Running"}}),
        ("pod", "insert"): ("default/pod/mirror", _mirror("mirror", uids.node)),
        ("pod", "delete"): ("default/pod/mirror", {"gracePeriodSeconds": 0}),
        ("lease", "query"): ("kube-node-lease/lease/n1", None),
        ("lease", "insert"): ("kube-node-lease/lease/n1", LEASE),
        ("lease", "update"): ("kube-node-lease/lease/n1", LEASE),
        ("serviceaccounttoken", "query"): ("default/serviceaccounttoken/default", {"spec": {"boundObjectRef": bound}}),
        ("certificatesigningrequest", "insert"): ("null/certificatesigningrequest/c", _signing_request("c")),
        ("certificatesigningrequest", "query"): ("null/certificatesigningrequest/c", None),
        ("event", "insert"): ("default/event/inserted", _event("inserted")),
        ("event", "update"): ("default/event/updated", _event("updated")),
        ("event", "patch"): ("default/event/patched", {"event": _event("patched"), "patchData": '{"count":2}'}),
        **{(word, "query"): (f"default/{word}/absent", None) for word in queries},
        **{
            (word, "query"): (f"default/{word}/absent", {"metadata": {"uid": "u-absent"}})
            for word in ("device", "devicemodel")
        },
    }


def _mirror(name: str, node_uid: str) -> dict[str, Any]:
    """A mirror pod of the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node_uid, "controller": True}
    annotations = {"kubernetes.io/config.mirror": "x"}
    return {**pod(name), "metadata": {"name": name, "annotations": annotations, "ownerReferences": [owner]}}


def _event(name: str) -> dict[str, Any]:
    """An event about the node's pod."""
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    return {"metadata": {"name": name, "namespace": "default"}, "reason": "x", "involvedObject": about}


def _signing_request(name: str) -> dict[str, Any]:
    """A request for a certificate."""
    spec = {"request": SIGNING_REQUEST, "signerName": "example.com/serving", "usages": ["server auth"]}
    return {"metadata": {"name": name}, "spec": {**spec, "username": "system:node:n1"}}


def _of_metaserver(resource: str, uids: Uids) -> tuple[str, str, Any]:
    """Namespace, name and body of what a metaserver asks for. The objects that are only read do not exist."""
    token = {"spec": {"boundObjectRef": {"kind": "Pod", "name": "web", "uid": uids.pod}}}
    known: dict[str, tuple[str, str, Any]] = {
        "pods": ("default", "second", _mirror("second", uids.node)),
        "pods/status": ("default", "web", {"metadata": {"name": "web"}, "status": {"phase": "Running"}}),
        "serviceaccounts": ("default", "default", None),
        "serviceaccounts/token": ("default", "default", token),
        "persistentvolumes": ("", "absent", None),
        "volumeattachments": ("", "absent", None),
        "csidrivers": ("", "absent", None),
        "nodes": ("", "n1", node()),
        "nodes/status": ("", "n1", {**node(), "status": {"phase": "Running"}}),
        "leases": ("kube-node-lease", "n1", LEASE),
        "events": ("default", "other", _event("other")),
        "certificatesigningrequests": ("", "d", _signing_request("d")),
    }
    return known.get(resource, ("default", "absent", None))


def ask_as_metaserver(edge: Edge, group: str, resource: str, verb: str, uids: Uids) -> None:
    """Sends the request of a rule of the node authorizer, and waits for its answer."""
    namespace, name, body = _of_metaserver(resource, uids)
    plural, _, subresource = resource.partition("/")
    is_list, is_creation = verb in (Verb.LIST, Verb.WATCH), verb == Verb.CREATE and not subresource
    encoded = json.dumps(body).encode() if verb in (Verb.CREATE, Verb.UPDATE) else None
    target = Target(group, "v1", plural, namespace, "" if is_list or is_creation else name, subresource)
    option = b'{"fieldSelector":"spec.nodeName=n1"}' if is_list and plural == "pods" else b"{}"
    if verb == Verb.PATCH:
        patch = b'{"metadata":{"annotations":{"x":"1"}}}'
        option = msgspec.json.encode(PatchInfo(name=name, patch_type=MERGE, data=patch))
    edge.answer_to(message_of(application(target, Verb(verb), "n1", option, encoded), CLOCK))
