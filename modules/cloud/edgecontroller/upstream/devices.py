"""Handlers of nodes' messages about Devices and DeviceModels that they have and the cloud's list of their devices lacks
(docs/devices-in-the-cloud.md, "Down: to the node").
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, uid_of
from modules.apimachinery.validation.names import faults_of_subdomain
from modules.cloud.client.calls import ApiCall
from modules.cloud.devices import DEVICE
from modules.cloud.edgecontroller.devices.placements import placement_of
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse
from modules.cloud.edgecontroller.downstream_messages import deletion_of_unknown
from modules.cloud.edgecontroller.upstream.requests import Steps, UpstreamHandler, UpstreamRequest, UpstreamResult


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str
    creation_timestamp: Any = None
    resource_version: str = ""


class _Asked(msgspec.Struct):
    """The object that a node asks about."""

    metadata: _Metadata


def comparison_of(kind: Kind) -> UpstreamHandler:
    """Return the handler of queries about an object by name and uid: the node is sent the deletion if no such object
    exists, or if it is the Device of another node. Otherwise a late watch sends it to the node; its content is in no
    answer.

    The API server is asked, as the mirror may be late. The records of what a node has may be lost with its Node.
    """

    def compare(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
        key, asked = request.key(kind), request.message.content_as(_Asked).metadata
        if any(faults_of_subdomain(key.name)) or any(faults_of_subdomain(key.namespace)):
            raise BadRequestError("the namespace or the name of the object is none")  # it would select many
        page = yield _named(kind, key)
        found = [each for each in _items(page) if uid_of(each) == asked.uid]
        is_there = any(kind is not DEVICE or placement_of(each).node == request.node for each in found)
        if not asked.uid or is_there or not (found or _is_deleted(request, asked)):
            return [UpstreamResponse()]
        return [UpstreamResponse(), deletion_of_unknown(request.node, key, asked.uid)]

    return compare


def _is_deleted(request: UpstreamRequest, missing: _Metadata) -> bool:
    """Return whether an object that does not exist was deleted; a cloud with a new database may have lost it."""
    known = request.known_since()
    is_since = known is not None and known.is_before(missing.creation_timestamp, missing.resource_version)
    return is_since or request.knows_all()


def _named(kind: Kind, key: ObjectKey) -> ApiCall:
    """Return the request for an object by a list: cloudcore needs no right but those that it has for its mirror."""
    options = {"fieldSelector": f"metadata.name={key.name}"}
    return ApiCall(
        verb="list", api_version=kind.api_version, plural=kind.plural, namespace=key.namespace, options=options
    )


def _items(page: JsonObject) -> Iterator[JsonObject]:
    for each in page.get("items") or ():
        if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
            yield each
