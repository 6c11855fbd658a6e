"""Handlers of a node's own messages: registration, queries, patches, reports of 2019 (docs/protocol.md, "Upstream")."""

from typing import Any

import msgspec

from beehive.names import OK, ResourceType
from edged.api import Node, NodeStatus
from modules.cloud.apiserver.client import ApiClient
from modules.cloud.apiserver.conversion import convert
from modules.cloud.apiserver.errors import ApiError, NotFoundError
from modules.cloud.apiserver.kinds import JsonObject, ObjectKey, kind_named, version_of
from modules.cloud.edgecontroller.responses import UpstreamResponse, error_response, object_response, typed_response
from modules.cloud.edgecontroller.status_merge import merged_node
from modules.cloud.edgecontroller.upstream_requests import UpstreamRequest, UpstreamResult

_NODE = kind_named("Node")
_RESERVED = "kubernetes.io"
_STATUS_UPDATE_FREQUENCY = 10.0
"""Seconds; KubeEdge's nodeUpdateFrequency."""


class _NodeStatusRequest(msgspec.Struct):
    status: NodeStatus | None = msgspec.field(default=None, name="Status")
    extend_resources: dict[str, list[dict[str, Any]] | None] | None = msgspec.field(
        default=None, name="ExtendResources"
    )


def insert(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Register a node."""
    try:
        node = request.object(_NODE)
        return [typed_response(client.create(node), with_version=False)]
    except ApiError as error:
        content = request.content_as(dict)
        labels = convert(content, Node, "Node").metadata.labels
        return [error_response(error, "Node", labels=_reserved(labels))]


def _reserved(labels: JsonObject) -> JsonObject:
    """Return the labels that KubeEdge sets in a second step; after a refused first step, the response's object has no
    other field.
    """
    return {key: value for key, value in labels.items() if key.partition("/")[0].endswith(_RESERVED)}


def query(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Answer a node's query for its Node. "Not found" is sent as ObjectResp, which an edge does not store
    (docs/protocol.md, "Queries").
    """
    node = client.find(request.key(_NODE))
    if node is None:
        return [error_response(NotFoundError(_NODE.singular, request.name))]
    return [object_response(node)]


def update(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Merge labels and annotations into a Node."""
    key = request.key(_NODE)
    live = client.find(key)
    if live is None:
        return [error_response(NotFoundError(_NODE.plural, request.name), "Node")]
    asked = convert(request.content_as(dict), Node, "Node").metadata
    merged = {
        name: {**(live["metadata"].get(name) or {}), **getattr(asked, name)} for name in ("labels", "annotations")
    }
    wanted = {name: value for name, value in merged.items() if value}
    try:
        node = client.replace({**live, "metadata": {**live["metadata"], **wanted}})
    except ApiError as error:
        return [error_response(error, "Node")]
    return [UpstreamResponse(OK, version_of(node))]


def patch(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Handle nodepatch: a strategic merge patch of the node's status."""
    try:
        return [typed_response(client.patch_status(request.key(_NODE), request.content_as(dict)))]
    except ApiError as error:
        return [error_response(error, "Node")]


def insert_status(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Handle an insert of nodestatus: the registration of an edge of 2019."""
    key = request.key(_NODE)
    if client.find(key) is None:
        client.create(request.object(_NODE))
    return [UpstreamResponse(OK, resource_type=ResourceType.NODE)]


def report_status(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Handle an update of nodestatus: the whole status, as edges of 2019 send it.

    KubeEdge requires an administrator to have created the Node; here an unknown Node is created.
    """
    key = request.key(_NODE)
    node = client.find(key) or client.create(_bare_node(key))
    content: JsonObject = request.content_as(dict)
    convert(content, _NodeStatusRequest, "NodeStatusRequest")
    merged = merged_node(node, content, request.now, _STATUS_UPDATE_FREQUENCY)
    return [UpstreamResponse(OK, version_of(client.replace(merged)), ResourceType.NODE)]


def _bare_node(key: ObjectKey) -> JsonObject:
    labels = {"node-role.kubernetes.io/edge": "", "kubernetes.io/hostname": key.name}
    return {
        "kind": _NODE.name,
        "apiVersion": _NODE.api_version,
        "metadata": {"name": key.name, "labels": labels},
        "spec": {},
    }
