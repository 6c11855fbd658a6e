"""RemoteCluster: how edgecontroller reaches its API server."""

from collections.abc import Callable

import msgspec

from beehive.runtime import Runtime
from modules.cloud.client.counters import ApiCounters
from modules.cloud.client.transport import KubeTransport
from modules.cloud.coordination.lease_settings import NAMESPACE
from modules.cloud.edgecontroller.node_state_counters import NodeStateCounters


def _true() -> bool:
    return True


class RemoteCluster(msgspec.Struct, frozen=True):
    """A cluster that is reached by requests: over HTTP, or in the same process."""

    connect: Callable[[Runtime], KubeTransport]
    """Returns a transport to the API server, at each start of edgecontroller."""
    keeps_state: bool = False
    """Whether the versions that nodes have acknowledged are stored in the cluster."""
    state_namespace: str = NAMESPACE
    """Their namespace."""
    knows_all: Callable[[], bool] = _true
    """Returns whether an object that it does not have was deleted. An embedded API server with a new database may have
    lost it with an old one.
    """
    counters: ApiCounters = msgspec.field(default_factory=ApiCounters)
    """Counts the requests."""
    node_states: NodeStateCounters = msgspec.field(default_factory=NodeStateCounters)
    """Counts what is stored in the cluster."""
