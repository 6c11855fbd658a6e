"""The source of statuses in the cache: edged."""

from beehive import ResourceType
from edged.api import NodeStatus, Pod, encode
from edged.pods.static import is_static
from edged.server.snapshots import Snapshots
from modules.edge.metaserver.compose import LiveStatus
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache

_POD, _NODE = ResourceType.POD, ResourceType.NODE


class LiveStatusUpdater:
    """Updates the cache with the statuses of edged's pods and node, on edged's thread.

    edged publishes often; only new objects are encoded.

    Args:
        snapshots: edged's snapshots, with this updater as their listener.
        cache: is updated.
        node: name of this node.
    """

    def __init__(self, snapshots: Snapshots, cache: WatchCache, node: str) -> None:
        self._snapshots = snapshots
        self._cache = cache
        self._node = node
        self._pods: dict[str, tuple[Pod, LiveStatus]] = {}
        self._node_status: NodeStatus | None = None

    def start(self) -> None:
        """Listen to edged's snapshots."""
        self._snapshots.listener = self.update

    def update(self) -> None:
        """Update the cache from the snapshots."""
        self._take_pods(self._snapshots.pods)
        status = self._snapshots.node_status
        if status is not None and status is not self._node_status:
            self._node_status = status
            self._cache.set_live_statuses(_NODE, {CacheKey(_NODE, "", self._node): (LiveStatus("", encode(status)),)})

    def _take_pods(self, pods: tuple[Pod, ...]) -> None:
        known, self._pods = self._pods, {}
        for pod in pods:
            uid = pod.metadata.uid
            before = known.get(uid)
            self._pods[uid] = before if before is not None and before[0] is pod else (pod, _live(pod))
        if self._pods.keys() != known.keys() or any(self._pods[uid] is not known[uid] for uid in known):
            self._set_pods()

    def _set_pods(self) -> None:
        statuses: dict[CacheKey, tuple[LiveStatus, ...]] = {}
        for pod, live in self._pods.values():
            key = CacheKey(_POD, pod.metadata.namespace, pod.metadata.name)
            statuses[key] = (*statuses.get(key, ()), live)
        self._cache.set_live_statuses(_POD, statuses)


def _live(pod: Pod) -> LiveStatus:
    """Return the status of a pod; of a static pod also the object, which is served until the cloud makes its mirror."""
    return LiveStatus(pod.metadata.uid, encode(pod.status), encode(pod) if is_static(pod) else b"")
