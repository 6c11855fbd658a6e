"""RemoteCluster: how edgecontroller reaches its API server."""

from collections.abc import Callable, Mapping

import msgspec

from beehive.runtime import Runtime
from modules.apimachinery.application import KnownSince
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.counters import ApiCounters
from modules.cloud.client.kube_api import KubeApi
from modules.cloud.client.lane_calls import DEFAULT_LIMITS, LaneLimits, RequestLane
from modules.cloud.coordination.lease_settings import NAMESPACE
from modules.cloud.edgecontroller.cluster import as_the_node
from modules.cloud.edgecontroller.state.node_states import NodeStateCounters


def _true() -> bool:
    return True


def _nothing() -> KnownSince | None:
    return None


def _no_labels(_: str) -> Mapping[str, str]:
    return {}


class RemoteCluster(msgspec.Struct, frozen=True):
    """A cluster that is reached by requests: over HTTP, or in the same process."""

    connect: Callable[[Runtime], KubeApi]
    """Returns a client of the API server, at each start of edgecontroller."""
    keeps_state: bool = False
    """Whether the versions that nodes have acknowledged are stored in the cluster."""
    state_namespace: str = NAMESPACE
    """Their namespace."""
    knows_all: Callable[[], bool] = _true
    """Returns whether an object that it does not have was deleted. An embedded API server with a new database may have
    lost it with an old one.
    """
    known_since: Callable[[], KnownSince | None] = _nothing
    """Returns what an object that such an API server does not have must be younger than, to have been deleted; None:
    nothing is known.
    """
    labels_of: Callable[[str], Mapping[str, str]] = _no_labels
    """Returns the labels that an administrator has decided for a node, which it gets when it registers."""
    is_embedded: bool = False
    """Whether it is the embedded API server. That authorizes and admits what nodes report of statuses itself, with the
    objects as they are; a cluster sees the writes of nodes as cloudcore's. And its answers have the objects that it has
    in memory.
    """
    counters: ApiCounters = msgspec.field(default_factory=ApiCounters)
    """Counts the requests."""
    limits: Mapping[RequestLane, LaneLimits] = DEFAULT_LIMITS
    """Of the requests that are made at once."""
    node_states: NodeStateCounters = msgspec.field(default_factory=NodeStateCounters)
    """Counts the NodeStates that are stored in the cluster."""

    def decides_on(self, call: ApiCall) -> bool:
        """Return whether a node's call is made in its name, and the API server decides on it."""
        if call.subresource == "status" and call.verb == "patch":
            return self.is_embedded
        return as_the_node.is_decided(call)
