"""How a node makes itself known and reports: registration, patches, the old status reports (spec/07 §3)."""

from typing import Any

import msgspec

from beehive.names import OK, ResourceType
from edged.api import Node, NodeStatus
from modules.edgecontroller.answers import Answer, object_answer, refusal, typed_answer
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.errors import ApiError, NotFoundError
from modules.edgecontroller.kinds import JsonObject, ObjectKey, kind_named, version_of
from modules.edgecontroller.requests import Request, Result
from modules.edgecontroller.shapes import convert
from modules.edgecontroller.status_merge import merged_node

_NODE = kind_named("Node")
_RESERVED = "kubernetes.io"
_STATUS_UPDATE_FREQUENCY = 10.0
"""Seconds; KubeEdge's nodeUpdateFrequency."""


class _NodeStatusRequest(msgspec.Struct):
    status: NodeStatus | None = msgspec.field(default=None, name="Status")
    extend_resources: dict[str, list[dict[str, Any]] | None] | None = msgspec.field(
        default=None, name="ExtendResources"
    )


def insert(cluster: Cluster, request: Request) -> list[Result]:
    """A node registers itself."""
    try:
        node = request.object(_NODE)
        return [typed_answer(cluster.create(node), with_version=False)]
    except ApiError as error:
        content = request.content_as(dict)
        labels = convert(content, Node, "Node").metadata.labels
        return [refusal(error, "Node", labels=_reserved(labels))]


def _reserved(labels: JsonObject) -> JsonObject:
    """Labels that KubeEdge sets in a second step; after a refused first step they are all the answer's
    object has.
    """
    return {key: value for key, value in labels.items() if key.partition("/")[0].endswith(_RESERVED)}


def query(cluster: Cluster, request: Request) -> list[Result]:
    """A node asks for its object. "Not found" goes as ObjectResp, which an edge does not store (spec/05
    §5.2).
    """
    node = cluster.store.find(request.key(_NODE))
    if node is None:
        return [refusal(NotFoundError(_NODE.singular, request.name))]
    return [object_answer(node)]


def update(cluster: Cluster, request: Request) -> list[Result]:
    """Labels and annotations that an edge sets on its node; others stay."""
    key = request.key(_NODE)
    live = cluster.store.find(key)
    if live is None:
        return [refusal(NotFoundError(_NODE.plural, request.name), "Node")]
    asked = convert(request.content_as(dict), Node, "Node").metadata
    merged = {
        name: {**(live["metadata"].get(name) or {}), **getattr(asked, name)} for name in ("labels", "annotations")
    }
    wanted = {name: value for name, value in merged.items() if value}
    try:
        node = cluster.replace({**live, "metadata": {**live["metadata"], **wanted}})
    except ApiError as error:
        return [refusal(error, "Node")]
    return [Answer(OK, version_of(node))]


def patch(cluster: Cluster, request: Request) -> list[Result]:
    """nodepatch: a strategic merge patch of the node's status."""
    try:
        return [typed_answer(cluster.patch_status(request.key(_NODE), request.content_as(dict)))]
    except ApiError as error:
        return [refusal(error, "Node")]


def report_insert(cluster: Cluster, request: Request) -> list[Result]:
    """nodestatus insert: an edge without registration of its own makes its node known."""
    key = request.key(_NODE)
    if cluster.store.find(key) is None:
        cluster.create(request.object(_NODE))
    return [Answer(OK, resource_type=ResourceType.NODE)]


def report(cluster: Cluster, request: Request) -> list[Result]:
    """nodestatus update: the whole status at once, as edges of 2019 send it.

    KubeEdge wants somebody to have created the node; here nobody could, so an unknown node is created.
    """
    key = request.key(_NODE)
    node = cluster.store.find(key) or cluster.create(_bare_node(key))
    content: JsonObject = request.content_as(dict)
    convert(content, _NodeStatusRequest, "NodeStatusRequest")
    merged = merged_node(node, content, cluster.clock.now(), _STATUS_UPDATE_FREQUENCY)
    return [Answer(OK, version_of(cluster.replace(merged)), ResourceType.NODE)]


def _bare_node(key: ObjectKey) -> JsonObject:
    labels = {"node-role.kubernetes.io/edge": "", "kubernetes.io/hostname": key.name}
    return {
        "kind": _NODE.name,
        "apiVersion": _NODE.api_version,
        "metadata": {"name": key.name, "labels": labels},
        "spec": {},
    }
