"""Handlers of nodes' messages about pods: statuses, patches, mirror pods, deletions (docs/protocol.md, "Upstream")."""

from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from modules.apimachinery.api_errors import ApiError, RefusedError, TooLargeError
from modules.apimachinery.conversion import convert
from modules.apimachinery.graceful_deletion import is_deletion_complete
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named, uid_of
from modules.apimachinery.types import DeleteOptions, PodStatus
from modules.cloud.edgecontroller.downstream.responses import (
    UpstreamResponse,
    error_response,
    status_error,
    typed_response,
)
from modules.cloud.edgecontroller.downstream_messages import deletion_of_unknown
from modules.cloud.edgecontroller.upstream import api_requests
from modules.cloud.edgecontroller.upstream.requests import Steps, UpstreamRequest, UpstreamResult
from modules.cloud.edgecontroller.upstream.status_merge import merged_pod_status

_POD = kind_named("Pod")
_UNKNOWN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Responses to a patch of a pod that does not exist, or has another uid."""
_MOST_REPORTS = 500
"""Pods in one report: each is read and written on its own."""


class PodStatusRequest(msgspec.Struct):
    """The status of one pod as an edge of 2019 sends it (docs/protocol.md, "Named contents")."""

    name: str = msgspec.field(default="", name="Name")
    uid: str = msgspec.field(default="", name="UID")
    status: dict[str, Any] = msgspec.field(default_factory=dict, name="Status")


def patch(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Handle podpatch: a strategic merge patch of a pod's status."""
    body: JsonObject = request.message.content_as(dict)
    try:
        return [typed_response((yield api_requests.patch_status(request, _POD, body)), is_held=True)]
    except RefusedError as error:
        is_unknown = error.code in _UNKNOWN
        deletions = (yield from _end_of_unknown(request, request.key(_POD), _uid_in(body))) if is_unknown else []
        return [error_response(error, "Pod"), *deletions]


def report_status(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Handle podstatus: one PodStatusRequest when the resource has a name, otherwise a list of them.

    It gets no response, as in 2019. Later versions of KubeEdge send OK, which an edge of 2019 would store as the pod's
    status (docs/protocol.md, "Edges of 2019").
    """
    content = request.plain_content()
    results: list[UpstreamResult] = []
    reports = convert([content] if request.name else content, list[PodStatusRequest], "podstatus")
    if len(reports) > _MOST_REPORTS:
        raise TooLargeError(f"a node's message has the statuses of at most {_MOST_REPORTS} pods: send them in parts")
    for one in reports:
        try:
            results += yield from _report_one(request, one)
        except ApiError as error:
            results.append(status_error(error))
    return results


def _report_one(request: UpstreamRequest, one: PodStatusRequest) -> Steps[list[UpstreamResult]]:
    try:
        return (yield from api_requests.retried(partial(_write_status, request, one)))
    except RefusedError as error:
        if error.code not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):  # of one; the others count
            raise
    return []


def _write_status(request: UpstreamRequest, one: PodStatusRequest, as_stored: bool) -> Steps[list[UpstreamResult]]:
    key = ObjectKey(_POD.name, request.key(_POD).namespace, one.name or request.name)
    pod = yield from api_requests.find(key, as_stored=as_stored)
    if pod is None or (one.uid and uid_of(pod) != one.uid):
        return (yield from _end_of_unknown(request, key, one.uid))
    convert(one.status, PodStatus, f"status of {key}")
    new = yield api_requests.update_status({**pod, "status": merged_pod_status(pod, one.status, request.now)})
    if is_deletion_complete(new):
        yield api_requests.delete(key, 0, uid_of(new))
    return []


def _end_of_unknown(request: UpstreamRequest, key: ObjectKey, uid: str) -> Steps[list[UpstreamResult]]:
    """Return the deletion of a pod that a node reports and that is not stored, or has another uid.

    Not before the manifests have been loaded: until then the pod may be added.
    """
    live = yield from api_requests.find(key)
    known = live is not None and (not uid or uid == uid_of(live))
    if known or not request.knows_all():
        return []
    return [deletion_of_unknown(request.node, key, uid)]


def insert(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Create the mirror pod of a static pod."""
    try:
        pod = request.object(_POD)
        pod["spec"] = {**(pod.get("spec") or {}), "nodeName": request.node}
        return [typed_response((yield api_requests.create(pod)), is_held=True)]
    except ApiError as error:
        return [error_response(error, "Pod")]


def delete(request: UpstreamRequest) -> Steps[list[UpstreamResult]]:
    """Delete a pod that the edge has ended. Edges of 2019 send the uid as a string, others DeleteOptions."""
    uid, grace = _delete_options(request)
    try:
        yield api_requests.delete(request.key(_POD), grace, uid)
    except RefusedError as error:
        if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            return [status_error(error)]  # otherwise the pod was deleted already; another may have its name
    return [UpstreamResponse()]


def _delete_options(request: UpstreamRequest) -> tuple[str, int | None]:
    content = request.plain_content()
    if isinstance(content, str) or content is None:
        return content or "", 0
    options = convert(content, DeleteOptions, "DeleteOptions")
    uid = options.preconditions.uid if options.preconditions else None
    return uid or "", options.grace_period_seconds


def _uid_in(body: JsonObject) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""
