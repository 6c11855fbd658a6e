"""The requests of `cloudcore doctor` to a cluster."""

from __future__ import annotations

import os
import queue
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.clock import Clock, RealClock
from beehive.errors import BeehiveError
from beehive.runtime import Threads
from modules.cloud.client.call_requests import collection_path, request_of, result_of
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.http.factory import http_transport
from modules.cloud.client.kubeconfig import reading
from modules.cloud.client.response_collector import ResponseCollector
from modules.cloud.client.transport import ApiRequest, ApiResponse, KubeTransport
from modules.cloud.devices import DEVICE, DEVICE_MODEL, DEVICE_STATUS
from modules.processes.cloudcore.cluster_checks import ClusterFacts
from modules.processes.cloudcore.cluster_rights import Right, needed
from modules.processes.edgecore.version import VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from modules.cloud.apiserver.kinds import Kind
    from modules.cloud.client.kubeconfig.model import Selected

_SECONDS: Final = 15.0
"""For each response."""
_EDGE: Final = "node-role.kubernetes.io/edge"
_DEVICE_KINDS: Final = (DEVICE_MODEL, DEVICE, DEVICE_STATUS)
_REVIEWS: Final = collection_path("authorization.k8s.io/v1", "selfsubjectaccessreviews")


def cluster_facts(kubeconfig: Path | None, context: str) -> ClusterFacts:
    """Return the facts about the cluster of a kubeconfig; None: about the pod's cluster. It waits for the answers."""
    where = "in-cluster" if kubeconfig is None else str(kubeconfig)
    clock = RealClock()
    try:
        selected = reading.in_cluster(os.environ) if kubeconfig is None else reading.load([kubeconfig]).select(context)
        transport = http_transport(selected, Threads(clock), f"cloudcore/{VERSION}")
        try:
            return _gathered(transport, selected, clock)
        finally:
            transport.close()
    except BeehiveError as error:
        return ClusterFacts(where=where, error=str(error))
    finally:
        clock.close()


def _gathered(transport: KubeTransport, selected: Selected, clock: Clock) -> ClusterFacts:
    response = _ask(transport, ApiRequest(method="GET", path="/version", timeout=_SECONDS))
    version = result_of(response)
    if version.object is None:
        message = str((version.refusal or {}).get("message"))
        return ClusterFacts(where=selected.where, error=f"{response.head.status}: {message}")
    facts = ClusterFacts(
        where=selected.where,
        version=str(version.object.get("gitVersion")),
        skew=_skew(response.head.header("date"), clock.now()),
        edge_nodes=_edge_nodes(transport),
        device_kinds={kind.plural: _status_of_list(transport, kind) for kind in _DEVICE_KINDS},
    )
    denied, asked = [], 0
    for right in needed():
        answer = result_of(_ask(transport, _review(right)))
        if answer.object is None:
            return msgspec.structs.replace(facts, unanswered=str((answer.refusal or {}).get("message")))
        asked += 1
        if not (answer.object.get("status") or {}).get("allowed"):
            denied.append(right)
    return msgspec.structs.replace(facts, denied=denied, asked=asked)


def _ask(transport: KubeTransport, request: ApiRequest) -> ApiResponse:
    """Return the response to a request, whose deadline is the transport's.

    Raises:
        KubeTransportError: there is none.
    """
    ends: queue.SimpleQueue[ApiResponse | Exception] = queue.SimpleQueue()
    transport.start(request, ResponseCollector(ends.put))
    end = ends.get()
    if isinstance(end, Exception):
        raise end
    return end


def _review(right: Right) -> ApiRequest:
    resource, _, subresource = right.resource.partition("/")
    attributes = {"group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb}
    if right.namespace:
        attributes["namespace"] = right.namespace
    body: dict[str, Any] = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": attributes},
    }
    headers = (("Content-Type", "application/json"),)
    return ApiRequest(method="POST", path=_REVIEWS, headers=headers, body=msgspec.json.encode(body), timeout=_SECONDS)


def _edge_nodes(transport: KubeTransport) -> int:
    """Return the number of edge nodes."""
    call = ApiCall(verb="list", api_version="v1", plural="nodes", options={"labelSelector": _EDGE})
    listed = result_of(_ask(transport, request_of(call)))
    return len((listed.object or {}).get("items") or [])


def _status_of_list(transport: KubeTransport, kind: Kind) -> int:
    call = ApiCall(verb="list", api_version=kind.api_version, plural=kind.plural, options={"limit": 1})
    return _ask(transport, request_of(call)).head.status


def _skew(date: str, now: float) -> float | None:
    """Return the seconds by which a Date header is ahead."""
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (TypeError, ValueError):
        return None
