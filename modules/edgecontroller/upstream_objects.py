"""What edges ask of other objects: queries, leases, tokens, signing requests, events (spec/07 §3.2)."""

from typing import Any

import msgspec

from beehive.names import Operation
from edged.api import TokenRequest
from modules.edgecontroller.answers import Answer, object_answer, refusal, typed_answer
from modules.edgecontroller.authorization.attributes import user_of
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.errors import ApiError, BadRequestError, ForbiddenError, NotFoundError, TooLargeError
from modules.edgecontroller.kinds import JsonObject, Kind, kind_named
from modules.edgecontroller.merge_schema import schema_of
from modules.edgecontroller.requests import Handling, Request, Result
from modules.edgecontroller.shapes import convert
from modules.edgecontroller.strategic_merge import merge
from modules.edgecontroller.tokens import token_for

_LEASE = kind_named("Lease")
_EVENT = kind_named("Event")
_LONGEST_EVENT = 16 * 1024
"""Bytes of an event: a thousand are kept. An API server takes messages of 1,024 characters."""
_CSR = kind_named("CertificateSigningRequest")
_MOST_REQUESTS = 100
"""Certificate signing requests that are kept of one node. Nobody collects them here."""


class _EventPatchInfo(msgspec.Struct):
    event: dict[str, Any] = {}
    patchData: str = "{}"  # noqa: N815 - KubeEdge's name


def query_of(kind: Kind) -> Handling:
    """What answers queries for objects of a kind: the object, or an ObjectResp that says that there is none.

    KubeEdge sends a bare StatusError for the latter, which an edge would store as if it were the object
    (spec/05 §5.2).
    """

    def query(cluster: Cluster, request: Request) -> list[Result]:
        obj = cluster.store.find(request.key(kind))
        if obj is None:
            return [refusal(NotFoundError(kind.singular, request.name, kind.api_group))]
        return [object_answer(obj)]

    return query


def query_lease(cluster: Cluster, request: Request) -> list[Result]:
    """A node looks for its lease, which is not there the first time."""
    lease = cluster.store.find(request.key(_LEASE))
    if lease is None:
        return [refusal(NotFoundError(_LEASE.singular, request.name, _LEASE.api_group))]
    return [typed_answer(lease, with_version=False, keep_kind=True)]


def put_lease(cluster: Cluster, request: Request) -> list[Result]:
    """A node creates its lease or renews it."""
    try:
        lease = request.object(_LEASE)
        if request.message.route.operation == Operation.INSERT:
            return [typed_answer(cluster.create(lease), with_version=False)]
        return [typed_answer(cluster.replace(lease), with_version=False)]
    except ApiError as error:
        return [refusal(error, "Lease")]


def create_signing_request(cluster: Cluster, request: Request) -> list[Result]:
    """An edge wants a certificate signed; it is kept in the node's name, and nobody here approves it."""
    try:
        wanted = request.object(_CSR)
        spec = wanted.get("spec")
        if not isinstance(spec, dict):
            raise BadRequestError("CertificateSigningRequest: spec: an object is wanted")
        user = user_of(request.node)
        made = sum((one.get("spec") or {}).get("username") == user for one in cluster.list(_CSR))
        if made >= _MOST_REQUESTS:
            why = f"{user} has {made} already; delete some"
            raise ForbiddenError(_CSR.plural, request.name, why, _CSR.api_group)
        named = {**spec, "username": user, "groups": ["system:nodes", "system:authenticated"]}
        return [typed_answer(cluster.create({**wanted, "spec": named}))]
    except ApiError as error:
        return [refusal(error, "CertificateSigningRequest")]


def create_token(cluster: Cluster, request: Request) -> list[Result]:
    """A pod's service account token: the TokenRequest with its status filled in."""
    body: JsonObject = request.content_as(dict)
    convert(body, TokenRequest, "TokenRequest")
    return [Answer(token_for(request.namespace, request.name, body, cluster.clock.now()))]


def record_event(cluster: Cluster, request: Request) -> list[Result]:
    """Events are kept for people to read; nothing is answered."""
    if len(request.message.content_raw()) > _LONGEST_EVENT:
        raise TooLargeError(f"limit is {_LONGEST_EVENT} bytes")
    if request.message.route.operation == Operation.PATCH:
        info = convert(request.content_as(dict), _EventPatchInfo, "EventPatchInfo")
        patch = request.message.with_content(info.patchData).content_as(dict)
        old = cluster.store.find(request.key(_EVENT)) or _as_event(request, info.event)
        cluster.record_event(merge(old, patch, schema_of(_EVENT.name)))
    else:
        cluster.record_event(request.object(_EVENT))
    return []


def _as_event(request: Request, event: JsonObject) -> JsonObject:
    named = Request(request.node, request.namespace, request.name, request.message.with_content(event))
    try:
        return named.object(_EVENT)
    except BadRequestError:
        return {"kind": _EVENT.name, "apiVersion": _EVENT.api_version, "metadata": {"name": request.name}}
