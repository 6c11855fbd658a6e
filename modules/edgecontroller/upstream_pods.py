"""What edges report of pods: statuses, patches, mirror pods, deletions (spec/07 §3)."""

from contextlib import suppress
from typing import Any

import msgspec

from edged.api import DeleteOptions, PodStatus
from modules.edgecontroller.answers import Answer, refusal, status_error, typed_answer
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.downstream import deletion_of_unknown
from modules.edgecontroller.errors import ApiError, ConflictError, ForbiddenError, NotFoundError
from modules.edgecontroller.kinds import JsonObject, ObjectKey, kind_named, uid_of
from modules.edgecontroller.requests import Request, Result
from modules.edgecontroller.shapes import convert
from modules.edgecontroller.status_merge import merged_pod_status

_POD = kind_named("Pod")


class PodStatusRequest(msgspec.Struct):
    """What an edge of 2019 sends of one pod (spec/02 §5)."""

    name: str = msgspec.field(default="", name="Name")
    uid: str = msgspec.field(default="", name="UID")
    status: dict[str, Any] = msgspec.field(default_factory=dict, name="Status")


def patch(cluster: Cluster, request: Request) -> list[Result]:
    """podpatch: a strategic merge patch of a pod's status."""
    key = request.key(_POD)
    body: JsonObject = request.content_as(dict)
    try:
        return [typed_answer(cluster.patch_status(key, body))]
    except (NotFoundError, ConflictError) as error:
        return [refusal(error, "Pod"), *_end_of_unknown(cluster, request, key, str(_uid_in(body)))]
    except ApiError as error:
        return [refusal(error, "Pod")]


def report(cluster: Cluster, request: Request) -> list[Result]:
    """podstatus: one PodStatusRequest when the resource has a name, otherwise a list of them.

    Nothing is answered, as in 2019. KubeEdge of today says OK, but who still reports this way is of that time, and an
    edge of 2019 would keep the OK where it keeps the pod's status (spec/05 §3).
    """
    content = request.plain_content()
    results: list[Result] = []
    for one in convert([content] if request.name else content, list[PodStatusRequest], "podstatus"):
        try:
            results += _report_one(cluster, request, one)
        except ApiError as error:
            results.append(status_error(error))
    return results


def _report_one(cluster: Cluster, request: Request, one: PodStatusRequest) -> list[Result]:
    key = ObjectKey(_POD.name, request.key(_POD).namespace, one.name or request.name)
    pod = cluster.store.find(key)
    if pod is None or (one.uid and uid_of(pod) != one.uid):
        return _end_of_unknown(cluster, request, key, one.uid)
    convert(one.status, PodStatus, f"status of {key}")
    with suppress(ForbiddenError):  # of one; the others count
        cluster.put_status(key, merged_pod_status(pod, one.status, cluster.clock.now()))
    return []


def _end_of_unknown(cluster: Cluster, request: Request, key: ObjectKey, uid: str) -> list[Result]:
    """A node runs a pod that is not wanted any more (or a namesake of it): tell it so.

    Not before the manifests have been loaded: until then the cloud's not knowing means nothing.
    """
    live = cluster.store.find(key)
    known = live is not None and (not uid or uid == uid_of(live))
    if known or not request.manifests_loaded:
        return []
    return [deletion_of_unknown(request.node, key, uid)]


def insert(cluster: Cluster, request: Request) -> list[Result]:
    """A pod that the edge itself wants the cloud to know: the mirror of a static pod."""
    try:
        pod = request.object(_POD)
        pod["spec"] = {**(pod.get("spec") or {}), "nodeName": request.node}
        return [typed_answer(cluster.create(pod))]
    except ApiError as error:
        return [refusal(error, "Pod")]


def delete(cluster: Cluster, request: Request) -> list[Result]:
    """The edge has ended a pod for good. Old edges send the uid as a string, others DeleteOptions."""
    uid, grace = _delete_options(request)
    try:
        cluster.delete(request.key(_POD), grace, uid)
    except (NotFoundError, ConflictError):
        return [Answer()]  # gone, or created again meanwhile: what the edge means is gone either way
    except ApiError as error:
        return [status_error(error)]
    return [Answer()]


def _delete_options(request: Request) -> tuple[str, int | None]:
    content = request.plain_content()
    if isinstance(content, str) or content is None:
        return content or "", 0
    options = convert(content, DeleteOptions, "DeleteOptions")
    uid = options.preconditions.uid if options.preconditions else None
    return uid or "", options.grace_period_seconds


def _uid_in(body: JsonObject) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""
