"""The table of what cloudcore decides by (deciding.md): it is complete, and a node may write what it says."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.apiserver.fields.validation import known_fields
from modules.cloud.applications import NODE_GROUP
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_metadata import HOSTNAME
from modules.cloud.authorization.node_restriction import refusal
from modules.cloud.authorization.node_rules import RULES
from modules.cloud.devices import DEVICE
from modules.cloud.jobs import JOBS
from tests.docs import REPOSITORY, tables

READ_BY: Final = ("modules/cloud", "modules/edge/edgemesh", "modules/edge/metaserver", "modules/apimachinery")
"""Where the code is that decides."""
DECIDES_NOTHING: Final = REPOSITORY / "modules/cloud/apiserver/verbs/advice.py"
"""It warns users of fields and keys that nobody reads any more."""
OTHER_NAMES: Final = (
    r"kubernetes\.io/(basic-auth|dockercfg|dockerconfigjson|service-account-token|ssh-auth|tls)",  # types of Secrets
    r"kubernetes\.io/(kube-apiserver-client|kube-apiserver-client-kubelet|kubelet-serving|legacy-unknown)",  # signers
    r"kubernetes\.io/job-controller",  # a value of `managedBy`
    r"kubernetes\.io/(description|role)",  # written for people
    r"(storage|ingress)class\.(beta\.)?kubernetes\.io/is-default-class|kubernetes\.io/ingress\.class",  # of classes
    r"volume\.beta\.kubernetes\.io/storage-class",  # of claims
    r"authorization\.k8s\.io/decision|audit\.edgecore\.io/dropped",  # written to the audit log
    r"kubernetes\.io/config\.source|edgecore\.io/only-a-name",  # read on the node: of its static pods and runtimes
    r"k(ubernetes|8s)\.io/initial-events-.*",  # written for clients that watch
    r"k8s\.io/",  # a package of Go
    r"authentication\.kubernetes\.io/",  # a claim of a signed token
)
"""Names of the same form that are no label, annotation, taint or finalizer, or that cloudcore only writes."""
KEY: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}/(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?")
VERSION: Final = re.compile(r"/v\d+(?:(?:alpha|beta)\d+)?$")
CONDITIONS: Final = (
    "Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "PodScheduled", "ContainersReady",
    "Initialized", "DisruptionTarget", "PodReadyToStartContainers", "PodResizePending", "PodResizeInProgress",
)  # fmt: skip
"""Kubernetes' types of conditions of Nodes and Pods."""
WRITTEN_BY_NODES: Final = {
    "V1NodeSpec": "Node", "V1NodeStatus": "Node", "V1PodStatus": "Pod", "V1LeaseSpec": "Lease of the node",
}  # fmt: skip
"""The types of the parts of objects that nodes write, and the kind in the table."""
WRITES: Final = frozenset({"create", "update", "patch"})


class Deciding(NamedTuple):
    """A name in the table."""

    kind: str
    what: str
    name: str
    node: str
    """Whether a node writes it: begins with `yes`, `no` or `at registration`."""


def in_table(text: str) -> Iterator[Deciding]:
    """Yield the names in the table."""
    for row in tables(text):
        if row.head[:3] == ("kind", "what", "names"):
            for name in re.findall(r"`([^`]+)`", row.cells[2]):
                yield Deciding(row.cells[0], row.cells[1], name, row.cells[4])


TABLE: Final = tuple(in_table(Path(__file__).with_name("deciding.md").read_text()))


def texts_in(source: str) -> Iterator[str]:
    """Yield the constants of a program, without docstrings."""
    tree = ast.parse(source)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield node.value


@cache
def all_texts() -> set[str]:
    """Return the constants of the code that decides, of files that may have a key or a condition."""
    may_have = re.compile("|".join([r"\.[a-z]{2,}/", *CONDITIONS]))
    files = (path for each in READ_BY for path in (REPOSITORY / each).rglob("*.py") if path != DECIDES_NOTHING)
    return {text for source in map(Path.read_text, files) if may_have.search(source) for text in texts_in(source)}


def keys_in(texts: set[str]) -> set[str]:
    """Return the constants that may be keys of labels and annotations; a prefix of keys ends with a slash."""
    found = {text for text in texts if KEY.fullmatch(text) and not VERSION.search(text)}
    return {text for text in found if not any(re.fullmatch(other, text) for other in OTHER_NAMES)}


def is_named(key: str, name: str) -> bool:
    """Return whether a name is a key, or has it as its prefix."""
    return name.startswith(key) if key.endswith("/") else name == key


def test_keys_are_found_in_code() -> None:
    source = (
        '"""Reads `a.example/not`."""\nA = "a.example/b"\nB = {"x.io/": f"{A}"}\nC = "apps.example/v1beta1", "a/b"\n'
    )
    assert keys_in(set(texts_in(source))) == {"a.example/b", "x.io/"}


def test_the_table_names_each_key_and_condition_that_code_reads_and_no_other_key() -> None:
    texts = all_texts()
    read, keys = keys_in(texts), {each.name for each in TABLE if each.what != "field"}
    missing = {key for key in read if not any(is_named(key, name) for name in keys)}
    missing |= {f"condition {each}" for each in CONDITIONS if each in texts} - {f"condition {name}" for name in keys}
    assert missing == set(), "deciding.md: say who writes them"
    examples = re.compile(r"example\.|.*/own$|node-role\.kubernetes\.io/control-plane$")
    named = {each.name for each in TABLE if "/" in each.name and not examples.match(each.name)}
    assert {name for name in named if not any(is_named(key, name) for key in read)} == set()


def test_every_field_that_a_node_may_write_is_in_the_table() -> None:
    known = {(each.kind, each.name) for each in TABLE if each.what == "field"}
    types = known_fields().types
    wanted = {
        (kind, f"{'status' if of.endswith('Status') else 'spec'}.{field}")
        for of, kind in WRITTEN_BY_NODES.items()
        for field in types[of]
    }
    assert wanted - known == set()


def written(each: Deciding, value: Any) -> JsonObject:
    """Return an object of n1 with a value under a name; without it for ""."""
    obj: JsonObject = {"kind": each.kind.split(" ")[0], "metadata": {"name": "n1"}}
    if each.kind == "Pod":
        obj |= {"metadata": {"name": "web", "namespace": "default"}, "spec": {"nodeName": "n1"}}
    elif each.kind.startswith("Lease"):
        obj["metadata"]["namespace"] = "kube-node-lease" if each.kind == "Lease of the node" else "kubeedge"
    elif each.kind == "Mirror pod":
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}
        metadata = {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
        obj = {
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", **metadata},
            "spec": {"nodeName": "n1"},
        }
    if value == "":
        return obj
    match each.what:
        case "label" | "annotation":
            of = obj["metadata"].setdefault(f"{each.what}s", {})
            of[each.name] = value
        case "finalizer":
            obj["metadata"]["finalizers"] = [each.name]
        case "taint":
            obj["spec"] = {"taints": [{"key": each.name, "effect": "NoSchedule", "value": value}]}
        case "condition":
            obj["status"] = {"conditions": [{"type": each.name, "status": value}]}
        case _:
            part, _, field = each.name.partition(".")
            obj[part] = {**obj.get(part, {}), field: [{"name": value}]}
    return obj


def refused(old: JsonObject | None, new: JsonObject | None) -> bool:
    node = {"kind": "Node", "metadata": {"name": "n1", "uid": "u"}}
    found = {ObjectKey("Node", "", "n1"): node}
    known = SimpleNamespace(find=found.get, is_hostname_in_use=lambda name, _: name == "n2")
    return bool(refusal("n1", old, new, cast("NodeGraph", known)))


def resource_of(kind: str) -> tuple[str, str]:
    custom = {each.name: each for each in (NODE_GROUP, DEVICE, *JOBS.values())}
    found = custom[kind] if kind in custom else kind_named(kind)
    return found.api_group, found.plural


RESTRICTED: Final = [each for each in TABLE if each.kind in ("Node", "Pod") or each.kind.startswith("Lease")]


@pytest.mark.parametrize("each", RESTRICTED, ids=lambda each: f"{each.kind}-{each.what}-{each.name}")
def test_a_node_writes_what_the_table_says(each: Deciding) -> None:
    """At the creation of its own, later, and by taking it away."""
    if each.kind == "Pod" and (each.name.startswith(("spec.", "metadata.")) or each.what == "finalizer"):
        assert WRITES.isdisjoint(RULES[("", "pods")].keys() - {"create"}), "a status takes nothing of these"
        return
    before, after, none = (written(each, value) for value in ("a", "b", ""))
    later = {refused(before, after), refused(before, none), refused(none, after)}
    created = refused(None, after) if each.kind != "Pod" else True
    expected = {"yes": (False, {False}), "no": (True, {True}), "at registration": (False, {True})}
    word = next(word for word in expected if each.node.startswith(word))
    assert (created, later) == (True if each.kind == "Pod" else expected[word][0], expected[word][1])


@pytest.mark.parametrize("each", [each for each in TABLE if each.kind == "Mirror pod"], ids=lambda each: each.name)
def test_a_node_makes_mirror_pods_as_the_table_says(each: Deciding) -> None:
    assert not refused(None, written(each, ""))
    assert refused(None, written(each, "a")) is each.node.startswith("no")


def test_a_node_writes_no_object_of_other_kinds_in_the_table() -> None:
    """But requests for certificates, which are of who asks."""
    kinds = {each.kind for each in TABLE} - {each.kind for each in RESTRICTED}
    kinds -= {"Mirror pod", "CertificateSigningRequest"}
    able = {kind for kind in kinds if not WRITES.isdisjoint(RULES.get(resource_of(kind), {}))}
    assert able == set()
    assert {each.node for each in TABLE if each.kind in kinds} == {"no"}


def test_a_node_takes_no_other_hostname() -> None:
    """The condition in the table."""
    mine = Deciding("Node", "label", HOSTNAME, "")
    assert refused(written(mine, ""), written(mine, "n2"))
    assert refused(None, written(mine, "n2"))
