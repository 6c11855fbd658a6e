"""Handlers of nodes' messages about other objects: queries, leases, tokens, signing requests, events (docs/protocol.md,
"Upstream").
"""

from http import HTTPStatus
from typing import Any

import msgspec

from beehive.names import Operation
from modules.apimachinery.api_errors import (
    ApiError,
    BadRequestError,
    NotFoundError,
    RefusedError,
    TooLargeError,
)
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, Kind, kind_named
from modules.apimachinery.strategic_merge import merge_strategic
from modules.apimachinery.types import TokenRequest
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.cloud.authorization.attributes import NODE_GROUPS, user_of
from modules.cloud.client.calls import ApiCall
from modules.cloud.edgecontroller.downstream.responses import (
    UpstreamResponse,
    error_response,
    object_response,
    typed_response,
)
from modules.cloud.edgecontroller.upstream import api_requests
from modules.cloud.edgecontroller.upstream.requests import Steps, UpstreamHandler, UpstreamRequest, UpstreamResult

_LEASE = kind_named("Lease")
_EVENT = kind_named("Event")
_LONGEST_EVENT = 16 * 1024
"""Bytes of an event; a thousand are stored. An API server accepts messages of 1,024 characters."""
_CSR = kind_named("CertificateSigningRequest")


class _EventPatchInfo(msgspec.Struct):
    event: dict[str, Any] = {}
    patchData: str = "{}"  # noqa: N815 - KubeEdge's name


def query_of(kind: Kind) -> UpstreamHandler:
    """Return the handler of queries for a kind: it answers with the object, or with an ObjectResp for "not found".

    For "not found" KubeEdge sends a bare StatusError, which an edge would store as if it were the object
    (docs/protocol.md, "Queries").
    """

    def query(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
        obj = yield from api_requests.find(request.key(kind))
        if obj is None:
            return [error_response(NotFoundError(kind.singular, request.name, kind.api_group))]
        return [object_response(obj, is_held=kind is not _CSR)]

    return query


def query_lease(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Answer a node's query for its lease, which does not exist at first."""
    lease = yield from api_requests.find(request.key(_LEASE))
    if lease is None:
        return [error_response(NotFoundError(_LEASE.singular, request.name, _LEASE.api_group))]
    return [typed_response(lease, with_version=False, keep_kind=True)]


def put_lease(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Create or renew a node's lease."""
    try:
        lease = request.object(_LEASE)
        if request.message.route.operation == Operation.INSERT:
            return [typed_response((yield api_requests.create(lease)), with_version=False)]
        return [typed_response((yield api_requests.update(lease)), with_version=False)]
    except ApiError as error:
        return [error_response(error, "Lease")]


def create_signing_request(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Store a certificate signing request in the node's name; it is not approved here."""
    try:
        wanted = request.object(_CSR)
        spec = wanted.get("spec")
        if not isinstance(spec, dict):
            raise BadRequestError("CertificateSigningRequest: spec: an object is wanted")
        named = {**spec, "username": user_of(request.node), "groups": [*NODE_GROUPS]}
        return [typed_response((yield api_requests.create({**wanted, "spec": named})))]
    except ApiError as error:
        return [error_response(error, "CertificateSigningRequest")]


def create_token(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Answer a TokenRequest for a pod's service account, with its status filled in."""
    body: JsonObject = request.message.content_as(dict)
    convert(body, TokenRequest, "TokenRequest")
    return [UpstreamResponse((yield api_requests.create_token(request.namespace, request.name, body)))]


def record_event(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Store an event; it gets no response."""
    if len(request.message.content_raw()) > _LONGEST_EVENT:
        raise TooLargeError(f"limit is {_LONGEST_EVENT} bytes")
    if request.message.route.operation == Operation.PATCH:
        info = convert(request.message.content_as(dict), _EventPatchInfo, "EventPatchInfo")
        patch = request.message.with_content(info.patchData).content_as(dict)
        first = merge_strategic(_as_event(request, info.event), patch, schema_of(_EVENT.name))
        change = api_requests.patch(request.key(_EVENT), patch)
        yield from _one_of(change, HTTPStatus.NOT_FOUND, api_requests.create(first))
    else:
        event = request.object(_EVENT)
        event["metadata"].pop("resourceVersion", None)
        if request.message.route.operation == Operation.INSERT:
            yield from _one_of(api_requests.create(event), HTTPStatus.CONFLICT, api_requests.update(event))
        else:
            yield from _one_of(api_requests.update(event), HTTPStatus.NOT_FOUND, api_requests.create(event))
    return []


def _one_of(first: ApiCall, code: int, second: ApiCall) -> Steps[None]:
    """Make a request, and another when the first is refused with a code: the edge's recorder may have forgotten whether
    the event exists.
    """
    try:
        yield first
    except RefusedError as error:
        if error.code != code:
            raise
        yield second


def _as_event(request: UpstreamRequest, event: JsonObject) -> JsonObject:
    named = UpstreamRequest(
        request.node, request.namespace, request.name, request.message.with_content(event), now=request.now
    )
    try:
        return named.object(_EVENT)
    except BadRequestError:
        return {"kind": _EVENT.name, "apiVersion": _EVENT.api_version, "metadata": {"name": request.name}}
