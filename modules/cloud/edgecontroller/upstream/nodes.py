"""Handlers of a node's own messages: registration, queries, patches, reports of 2019 (docs/protocol.md, "Upstream")."""

from functools import partial
from typing import Any

import msgspec

from beehive.names import OK, ResourceType
from modules.apimachinery.api_errors import ApiError, NotFoundError, RefusedError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named, version_of
from modules.apimachinery.types import Node, NodeStatus
from modules.cloud.edgecontroller.downstream.responses import (
    UpstreamResponse,
    error_response,
    object_response,
    typed_response,
)
from modules.cloud.edgecontroller.upstream import api_requests
from modules.cloud.edgecontroller.upstream.requests import Steps, UpstreamRequest, UpstreamResult
from modules.cloud.edgecontroller.upstream.status_merge import merged_node

_NODE = kind_named("Node")
_RESERVED = "kubernetes.io"
_STATUS_UPDATE_FREQUENCY = 10.0
"""Seconds; KubeEdge's nodeUpdateFrequency."""


class _NodeStatusRequest(msgspec.Struct):
    status: NodeStatus | None = msgspec.field(default=None, name="Status")
    extend_resources: dict[str, list[dict[str, Any]] | None] | None = msgspec.field(
        default=None, name="ExtendResources"
    )


def insert(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Register a node."""
    try:
        node = request.object(_NODE)
        return [typed_response((yield api_requests.create(node)), with_version=False)]
    except ApiError as error:
        content = request.message.content_as(dict)
        labels = convert(content, Node, "Node").metadata.labels
        return [error_response(error, "Node", labels=_reserved(labels))]


def _reserved(labels: JsonObject) -> JsonObject:
    """Return the labels that KubeEdge sets in a second step; after a refused first step, the response's object has no
    other field.
    """
    return {key: value for key, value in labels.items() if key.partition("/")[0].endswith(_RESERVED)}


def query(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Answer a node's query for its Node. "Not found" is sent as ObjectResp, which an edge does not store
    (docs/protocol.md, "Queries").
    """
    node = yield from api_requests.find(request.key(_NODE))
    if node is None:
        return [error_response(NotFoundError(_NODE.singular, request.name))]
    return [object_response(node)]


def update(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Merge labels and annotations into a Node."""
    asked = convert(request.message.content_as(dict), Node, "Node").metadata
    wanted = {name: getattr(asked, name) for name in ("labels", "annotations") if getattr(asked, name)}
    try:
        node = yield api_requests.patch_metadata(request.key(_NODE), wanted)
    except RefusedError as error:
        return [error_response(error, "Node")]
    return [UpstreamResponse(OK, version_of(node))]


def patch(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Handle nodepatch: a strategic merge patch of the node's status."""
    try:
        return [typed_response((yield api_requests.patch_status(request, _NODE, request.message.content_as(dict))))]
    except RefusedError as error:
        return [error_response(error, "Node")]


def insert_status(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Handle an insert of nodestatus: the registration of an edge of 2019."""
    if (yield from api_requests.find(request.key(_NODE))) is None:
        yield api_requests.create(request.object(_NODE))
    return [UpstreamResponse(OK, resource_type=ResourceType.NODE)]


def report_status(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Handle an update of nodestatus: the whole status, as edges of 2019 send it.

    KubeEdge requires an administrator to have created the Node; here an unknown Node is created.
    """
    key = request.key(_NODE)
    content: JsonObject = request.message.content_as(dict)
    convert(content, _NodeStatusRequest, "NodeStatusRequest")
    new = yield from api_requests.retried(partial(_write_status, key, content, request.now))
    return [UpstreamResponse(OK, version_of(new), ResourceType.NODE)]


def _write_status(key: ObjectKey, content: JsonObject, now: float, as_stored: bool) -> Steps[JsonObject]:
    node = (yield from api_requests.find(key, as_stored=as_stored)) or (yield api_requests.create(_bare_node(key)))
    merged = merged_node(node, content, now, _STATUS_UPDATE_FREQUENCY)
    annotations = merged["metadata"].get("annotations")
    if annotations != node["metadata"].get("annotations"):
        annotated = yield api_requests.patch_metadata(key, {"annotations": annotations})
        merged = {**merged, "metadata": annotated["metadata"]}
    return (yield api_requests.update_status(merged))


def _bare_node(key: ObjectKey) -> JsonObject:
    labels = {"node-role.kubernetes.io/edge": "", "kubernetes.io/hostname": key.name}
    return {
        "kind": _NODE.name,
        "apiVersion": _NODE.api_version,
        "metadata": {"name": key.name, "labels": labels},
        "spec": {},
    }
