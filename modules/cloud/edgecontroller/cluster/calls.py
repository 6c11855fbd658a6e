"""API calls to the API server, by requests."""

from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.module import Module
from modules.cloud.client.call_requests import CallError, failure
from modules.cloud.client.calls import DOCUMENT, JSON_PATCH, Answered, ApiCall, ApiResult, is_write
from modules.cloud.client.kube_client import CallEnd, KubeClient
from modules.cloud.client.lane_calls import CallAnswered, CallFailed, CallSuperseded, LaneFull, RequestLane
from modules.cloud.edgecontroller.cluster import as_the_node
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.object_writes import node_user

_LANES: Final = {
    "leases": RequestLane.LEASE,
    "nodes": RequestLane.NODE,
    "pods": RequestLane.POD_STATUS,
    "events": RequestLane.EVENT,
}
_REPEATABLE: Final = ("get", "list", "patch", "delete", DOCUMENT)
"""Verbs of calls that may be made again when their outcome is unknown."""


class ClusterCalls:
    """A sender of calls by requests (`CallSender`); each answer comes in a turn of the module.

    Args:
        cluster: the cluster.
        module: edgecontroller.
    """

    def __init__(self, cluster: RemoteCluster, module: Module) -> None:
        self._cluster = cluster
        self._module = module
        self._client: KubeClient | None = None
        self._is_sending = False

    def start(self) -> KubeClient:
        """Connect, and return the client for watches."""
        client = self._client = KubeClient(
            self._cluster.connect(self._module.runtime),
            self._module,
            self._module.clock.random,
            self._cluster.counters,
            self._cluster.limits,
        )
        return client

    def stop(self) -> None:
        """End all requests."""
        if self._client is not None:
            self._client.close()

    def send(self, call: ApiCall, answered: Answered, node: str = "") -> None:
        """Send a call (`CallSender`)."""
        if self._client is None:
            answered(failure(HTTPStatus.SERVICE_UNAVAILABLE, "edgecontroller has not started"))
            return
        sender = node if node and (self._cluster.decides_on(call) or as_the_node.asks_for_certificate(call)) else ""
        writes = is_write(call)
        author = node_user(node) if node and writes else ""
        if call.node != sender or call.author != author:
            call = msgspec.structs.replace(call, node=sender, author=author)
        key = f"{call.verb} {call.namespace}/{call.name}" if writes and call.name else ""
        lane = _LANES.get(call.plural, RequestLane.QUERY)
        self._is_sending = True
        try:
            self._client.call(lane, call, partial(self._ended, answered), key=key, idempotent=_is_repeatable(call))
        except CallError as error:
            refusal = failure(HTTPStatus.BAD_REQUEST, str(error))
        else:
            return
        finally:
            self._is_sending = False
        answered(refusal)

    def _ended(self, answered: Answered, end: CallEnd) -> None:
        """Take the end of a call: later when another message is at work, whose new call has taken this one's place."""
        if self._is_sending:
            self._module.call_soon(partial(self._ended, answered, end))
            return
        answered(end.result if isinstance(end, CallAnswered) else _failure_of(end))
        self._module.end_turn_soon()


def _is_repeatable(call: ApiCall) -> bool:
    """Return whether a call may be made again when its outcome is unknown. A JSON patch may add something twice, and a
    deletion without a precondition may delete the next object of the name.
    """
    if call.verb == "delete" and not call.options.get("preconditions"):
        return False
    return call.verb in _REPEATABLE and call.patch_type != JSON_PATCH


def _failure_of(end: CallFailed | CallSuperseded | LaneFull) -> ApiResult:
    if isinstance(end, CallSuperseded):
        return failure(HTTPStatus.SERVICE_UNAVAILABLE, "a newer request for the object has taken its place")
    why = getattr(end, "why", "too many requests wait for the API server")
    return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"no answer of the API server: {why}")
