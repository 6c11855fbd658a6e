"""Handlers of nodes' messages about pods: statuses, patches, mirror pods, deletions (docs/protocol.md, "Upstream")."""

from contextlib import suppress
from typing import Any

import msgspec

from edged.api import DeleteOptions, PodStatus
from modules.cloud.apiserver.client import ApiClient
from modules.cloud.apiserver.conversion import convert
from modules.cloud.apiserver.errors import ApiError, ConflictError, ForbiddenError, NotFoundError
from modules.cloud.apiserver.kinds import JsonObject, ObjectKey, kind_named, uid_of
from modules.cloud.edgecontroller.downstream_messages import deletion_of_unknown
from modules.cloud.edgecontroller.responses import UpstreamResponse, error_response, status_error, typed_response
from modules.cloud.edgecontroller.status_merge import merged_pod_status
from modules.cloud.edgecontroller.upstream_requests import UpstreamRequest, UpstreamResult

_POD = kind_named("Pod")


class PodStatusRequest(msgspec.Struct):
    """What an edge of 2019 sends of one pod (docs/protocol.md, "Named contents")."""

    name: str = msgspec.field(default="", name="Name")
    uid: str = msgspec.field(default="", name="UID")
    status: dict[str, Any] = msgspec.field(default_factory=dict, name="Status")


def patch(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Handle podpatch: a strategic merge patch of a pod's status."""
    key = request.key(_POD)
    body: JsonObject = request.content_as(dict)
    try:
        return [typed_response(client.patch_status(key, body))]
    except (NotFoundError, ConflictError) as error:
        return [error_response(error, "Pod"), *_end_of_unknown(client, request, key, str(_uid_in(body)))]
    except ApiError as error:
        return [error_response(error, "Pod")]


def report_status(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Handle podstatus: one PodStatusRequest when the resource has a name, otherwise a list of them.

    It gets no response, as in 2019. Later versions of KubeEdge send OK, which an edge of 2019 would store as the pod's
    status (docs/protocol.md, "Edges of 2019").
    """
    content = request.plain_content()
    results: list[UpstreamResult] = []
    for one in convert([content] if request.name else content, list[PodStatusRequest], "podstatus"):
        try:
            results += _report_one(client, request, one)
        except ApiError as error:
            results.append(status_error(error))
    return results


def _report_one(client: ApiClient, request: UpstreamRequest, one: PodStatusRequest) -> list[UpstreamResult]:
    key = ObjectKey(_POD.name, request.key(_POD).namespace, one.name or request.name)
    pod = client.find(key)
    if pod is None or (one.uid and uid_of(pod) != one.uid):
        return _end_of_unknown(client, request, key, one.uid)
    convert(one.status, PodStatus, f"status of {key}")
    with suppress(ForbiddenError):  # of one; the others count
        client.replace_status(key, merged_pod_status(pod, one.status, request.now))
    return []


def _end_of_unknown(client: ApiClient, request: UpstreamRequest, key: ObjectKey, uid: str) -> list[UpstreamResult]:
    """Return the deletion of a pod that a node reports and that is not stored, or has another uid.

    Not before the manifests have been loaded: until then the pod may be added.
    """
    live = client.find(key)
    known = live is not None and (not uid or uid == uid_of(live))
    if known or not request.manifests_loaded:
        return []
    return [deletion_of_unknown(request.node, key, uid)]


def insert(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Create the mirror pod of a static pod."""
    try:
        pod = request.object(_POD)
        pod["spec"] = {**(pod.get("spec") or {}), "nodeName": request.node}
        return [typed_response(client.create(pod))]
    except ApiError as error:
        return [error_response(error, "Pod")]


def delete(client: ApiClient, request: UpstreamRequest) -> list[UpstreamResult]:
    """Delete a pod that the edge has ended. Edges of 2019 send the uid as a string, others DeleteOptions."""
    uid, grace = _delete_options(request)
    try:
        client.delete(request.key(_POD), grace, uid)
    except (NotFoundError, ConflictError):
        return [UpstreamResponse()]  # the pod was deleted already; another may have its name
    except ApiError as error:
        return [status_error(error)]
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
