"""RemoteCluster: how edgecontroller reaches its API server."""

from collections.abc import Callable, Mapping

import msgspec

from beehive.runtime import Runtime
from modules.cloud.client.counters import ApiCounters
from modules.cloud.client.kube_api import KubeApi
from modules.cloud.client.lane_calls import DEFAULT_LIMITS, LaneLimits, RequestLane
from modules.cloud.coordination.lease_settings import NAMESPACE
from modules.cloud.edgecontroller.state.node_states import NodeStateCounters


def _true() -> bool:
    return True


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
    labels_of: Callable[[str], Mapping[str, str]] = _no_labels
    """Returns the labels that an administrator has decided for a node, which it gets when it registers."""
    counters: ApiCounters = msgspec.field(default_factory=ApiCounters)
    """Counts the requests."""
    limits: Mapping[RequestLane, LaneLimits] = DEFAULT_LIMITS
    """Of the requests that are made at once."""
    node_states: NodeStateCounters = msgspec.field(default_factory=NodeStateCounters)
    """Counts the NodeStates that are stored in the cluster."""
