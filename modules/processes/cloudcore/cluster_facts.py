"""The requests of `cloudcore doctor` to a cluster."""

from __future__ import annotations

import os
import queue
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.clock import Clock, RealClock
from beehive.errors import BeehiveError
from beehive.http.dates import seconds_of_date
from beehive.runtime import Threads
from modules.apimachinery.printing.fields import text_at
from modules.cloud.client.call_requests import collection_path, request_of, result_of
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.http.factory import http_transport
from modules.cloud.client.kubeconfig import reading
from modules.cloud.client.response_collector import ResponseCollector
from modules.cloud.client.transport import ApiRequest, ApiResponse, KubeTransport
from modules.cloud.devices import DEVICE, DEVICE_MODEL, DEVICE_STATUS
from modules.processes.cloudcore.cluster_checks import ClusterFacts
from modules.processes.cloudcore.cluster_rights import OPTIONAL, Right, needed
from modules.processes.common.version import VERSION

if TYPE_CHECKING:
    from modules.apimachinery.kinds import Kind
    from modules.cloud.client.kubeconfig.model import Selected

_SECONDS: Final = 15.0
"""For each response."""
_VERSION: Final = "status.nodeInfo.kubeletVersion"
_EDGE: Final = "node-role.kubernetes.io/edge"
_DEVICE_KINDS: Final = (DEVICE_MODEL, DEVICE, DEVICE_STATUS)
_REVIEWS: Final = collection_path("authorization.k8s.io/v1", "selfsubjectaccessreviews")


def cluster_facts(kubeconfig: Path | None, context: str, namespace: str, *, keeps_state: bool) -> ClusterFacts:
    """Return the facts about the cluster of a kubeconfig; None: about the pod's cluster. It waits for the answers.

    Args:
        kubeconfig: the file.
        context: of the file; "" for its current one.
        namespace: of the Leases and the NodeStates.
        keeps_state: whether cloudcore runs with `--state cluster`.
    """
    facts = ClusterFacts(where="in-cluster" if kubeconfig is None else str(kubeconfig))
    clock = RealClock()
    try:
        selected = reading.in_cluster(os.environ) if kubeconfig is None else reading.load([kubeconfig]).select(context)
        facts = ClusterFacts(where=selected.where, certificate_left=_certificate_left(selected, clock.now()))
        with closing(http_transport(selected, Threads(clock), f"cloudcore/{VERSION}")) as transport:
            return _gathered(transport, facts, clock, list(needed(namespace, keeps_state=keeps_state)))
    except BeehiveError as error:
        return msgspec.structs.replace(facts, error=str(error))
    finally:
        clock.close()


def _gathered(transport: KubeTransport, facts: ClusterFacts, clock: Clock, rights: list[Right]) -> ClusterFacts:
    response = _ask(transport, ApiRequest(method="GET", path="/version", timeout=_SECONDS))
    version = result_of(response)
    if version.object is None:
        message = str((version.refusal or {}).get("message"))
        return msgspec.structs.replace(facts, error=f"{response.head.status}: {message}")
    groups, date = _groups(transport), seconds_of_date(response.head.header("date"))
    facts = msgspec.structs.replace(
        facts,
        version=str(version.object.get("gitVersion")),
        skew=None if date is None else date - clock.now(),
        node_versions=_node_versions(transport),
        device_kinds={kind.plural: _status_of_list(transport, kind) for kind in _DEVICE_KINDS},
        groups=groups,
    )
    optional = {name: role.rights for name, role in OPTIONAL.items() if not role.group or role.group in groups}
    try:
        denied = [right for right in rights if not _is_allowed(transport, right)]
        lacking = {name: sum(not _is_allowed(transport, right) for right in each) for name, each in optional.items()}
    except _UnansweredError as error:
        return msgspec.structs.replace(facts, unanswered=str(error))
    lacking_roles = tuple(name for name, count in lacking.items() if count)
    return msgspec.structs.replace(facts, denied=denied, asked=len(rights), lacking_roles=lacking_roles)


class _UnansweredError(Exception):
    """The API server does not say whether a right is granted."""


def _is_allowed(transport: KubeTransport, right: Right) -> bool:
    answer = result_of(_ask(transport, _review(right)))
    if answer.object is None:
        raise _UnansweredError(str((answer.refusal or {}).get("message")))
    return bool((answer.object.get("status") or {}).get("allowed"))


def _ask(transport: KubeTransport, request: ApiRequest) -> ApiResponse:
    """Return the response to a request, whose deadline is the transport's.

    Raises:
        KubeTransportError: there is no server.
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
    if right.name:
        attributes["name"] = right.name
    body: dict[str, Any] = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": attributes},
    }
    headers = (("Content-Type", "application/json"),)
    return ApiRequest(method="POST", path=_REVIEWS, headers=headers, body=msgspec.json.encode(body), timeout=_SECONDS)


def _node_versions(transport: KubeTransport) -> dict[str, int]:
    """Return the kubelet versions of edge nodes, and how many nodes have each."""
    call = ApiCall(verb="list", api_version="v1", plural="nodes", options={"labelSelector": _EDGE})
    listed = result_of(_ask(transport, request_of(call)))
    return Counter(text_at(node, _VERSION) for node in (listed.object or {}).get("items") or [])


def _groups(transport: KubeTransport) -> frozenset[str]:
    """Return the API groups of the cluster."""
    found = result_of(_ask(transport, ApiRequest(method="GET", path="/apis", timeout=_SECONDS)))
    return frozenset(str(group.get("name")) for group in (found.object or {}).get("groups") or [])


def _certificate_left(selected: Selected, now: float) -> float | None:
    """Return the seconds until the client certificate of a kubeconfig ends, or None."""
    user = selected.user
    try:
        data = user.client_certificate_data or (
            Path(user.client_certificate).read_bytes() if user.client_certificate else b""
        )
        if not data:
            return None
        from cryptography import x509  # noqa: PLC0415 - 17 MB

        return x509.load_pem_x509_certificate(data).not_valid_after_utc.timestamp() - now
    except (OSError, ValueError):
        return None  # the request fails with the reason


def _status_of_list(transport: KubeTransport, kind: Kind) -> int:
    call = ApiCall(verb="list", api_version=kind.api_version, plural=kind.plural, options={"limit": 1})
    return _ask(transport, request_of(call)).head.status
