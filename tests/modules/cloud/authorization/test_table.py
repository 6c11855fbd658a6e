"""Each cell of the table of what nodes may do, tried by a node on its own and on its neighbour's."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from modules.apimachinery.kinds import KINDS, JsonObject
from modules.cloud.authorization.node_rules import RULES, Scope
from tests.modules.cloud.authorization.world import ME, NEIGHBOUR, SERVING, World, code_of

_DOCS = Path(__file__).parents[4] / "docs" / "authorization.md"
_KINDS = {(kind.api_group, kind.plural): kind for kind in KINDS}
_COLUMNS = ("get", "list", "create", "update", "patch", "delete")
_TOKEN = ("", "serviceaccounts/token")
_NAMES = {
    "pods": "{whose}-pod",
    "secrets": "{whose}-secret",
    "configmaps": "{whose}-config",
    "serviceaccounts": "{whose}-account",
    "persistentvolumes": "{whose}-volume",
    "persistentvolumeclaims": "{whose}-claim",
    "volumeattachments": "{whose}-attachment",
    "events": "{whose}-event",
    "certificatesigningrequests": "{whose}-request",
    "nodes": "{node}",
    "leases": "{node}",
}
_OTHERS = (("", "namespaces"), ("apps", "deployments"), ("", "pods/exec"), ("", "pods/ephemeralcontainers"))
RESOURCES = [resource for resource in dict.fromkeys((*RULES, *_OTHERS, *_KINDS)) if resource != _TOKEN]
VERBS = (*_COLUMNS, "watch", "updatestatus")


def call_for(world: World, group: str, resource: str, verb: str, whose: str) -> dict[str, Any]:
    """A request of the node n1 about what is its own, or its neighbour's."""
    plural, _, subresource = resource.partition("/")
    node = ME if whose == "mine" else NEIGHBOUR
    name = _NAMES.get(plural, "d").format(whose=whose, node=node)
    kind = _KINDS.get((group, plural))
    namespace = "kube-node-lease" if plural == "leases" else "default"
    version = kind.api_version if kind else (f"{group}/v1" if group else "v1")
    call: dict[str, Any] = {"verb": verb, "api_version": version, "plural": plural, "subresource": subresource}
    if kind is None or kind.namespaced:
        call["namespace"] = namespace
    if verb in ("list", "watch"):
        by_name = f"metadata.name={name}" if plural in ("secrets", "configmaps", "nodes") else ""
        fields = f"spec.nodeName={node}" if plural == "pods" else by_name
        return {**call, "options": {"fieldSelector": fields}}
    if verb != "create":
        call["name"] = name
    if verb == "patch":
        return {**call, "patch_type": "application/merge-patch+json", "body": {"metadata": {"annotations": {"a": "1"}}}}
    if verb in ("create", "update", "updatestatus"):
        call["body"] = _body(world, kind.name if kind else "Thing", name, namespace, verb, node)
    return call


def _body(world: World, kind: str, name: str, namespace: str, verb: str, node: str) -> JsonObject:
    if verb != "create":
        live = world.find(kind, name, namespace) or world.find(kind, name, "")
        return live or {"metadata": {"name": name}}
    if kind == "Pod":
        new = mirror(world, node)
        return {**new, "metadata": {**new["metadata"], "name": f"new-{node}"}}
    made: JsonObject = {"metadata": {"name": f"new-{name}", "namespace": namespace}}
    if kind in ("Node", "Lease"):
        made["metadata"]["name"] = node
    if kind == "CertificateSigningRequest":
        made["spec"] = {**SERVING, "username": f"system:node:{node}"}
    if kind == "Event":
        made["involvedObject"] = {"kind": "Node", "name": node}
    return made


def mirror(world: World, node: str = ME, **spec: Any) -> JsonObject:
    """A mirror pod, which is good when it is on the node that makes it."""
    annotations = {"kubernetes.io/config.mirror": "hash"}
    uid = (world.find("Node", node, "") or {})["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    return {
        "metadata": {"name": "static-n1", "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}], **spec},
    }


def scope_of(group: str, resource: str, verb: str) -> Scope | None:
    """The cell of the table."""
    if verb != "updatestatus":
        return RULES.get((group, resource), {}).get("list" if verb == "watch" else verb)
    return RULES.get((group, resource.removesuffix("/status") + "/status"), {}).get("update")


def codes(world: World, group: str, resource: str, verbs: Iterable[str], whose: str) -> dict[str, int]:
    """The status of the answer to each verb."""
    return {verb: code_of(world.call(**call_for(world, group, resource, verb, whose))) for verb in verbs}


@pytest.mark.parametrize(
    ("group", "resource", "verb"), [(*each, verb) for each in RESOURCES for verb in VERBS if scope_of(*each, verb)]
)
def test_a_node_has_the_rights_of_the_table_on_its_own_objects(
    world: World, group: str, resource: str, verb: str
) -> None:
    """Never 403."""
    assert codes(world, group, resource, [verb], "mine") != {verb: 403}


@pytest.mark.parametrize(("group", "resource"), RESOURCES)
def test_a_node_may_do_nothing_else_to_its_own(untouched: World, group: str, resource: str) -> None:
    """403, and nothing has changed."""
    before = untouched.everything()
    refused = [verb for verb in VERBS if not scope_of(group, resource, verb)]
    assert codes(untouched, group, resource, refused, "mine") == dict.fromkeys(refused, 403)
    assert untouched.everything() == before


@pytest.mark.parametrize(("group", "resource"), RESOURCES)
def test_a_node_may_do_nothing_to_its_neighbours(untouched: World, group: str, resource: str) -> None:
    """403, and nothing has changed, except for what all may read or ask for in their own name."""
    before = untouched.everything()
    answers = codes(untouched, group, resource, VERBS, "their")
    allowed = {verb for verb in VERBS if scope_of(group, resource, verb) is Scope.ALL and verb != "create"}
    assert {verb for verb, code in answers.items() if code != 403} == allowed
    assert untouched.everything() == before


def test_the_documentation_has_this_table() -> None:
    """Cell by cell."""
    header = "| resource | " + " | ".join(_COLUMNS) + " |"
    lines = [header, "|---" * (len(_COLUMNS) + 1) + "|"]
    for (group, resource), verbs in RULES.items():
        cells = [verbs[verb].value if verb in verbs else "" for verb in _COLUMNS]
        lines.append(f"| `{resource}{'.' + group if group else ''}` | " + " | ".join(cells) + " |")
    table = "\n".join(lines).replace("|  |", "| |").replace("|  |", "| |")
    assert table in _DOCS.read_text(), f"docs/authorization.md wants this table:\n{table}"
