"""The source of statuses in the cache: edged."""

import msgspec

from beehive import ResourceType
from edged.server.snapshots import Snapshots
from modules.apimachinery.pods.static import is_static
from modules.apimachinery.types import Node, NodeStatus, ObjectMeta, Pod, encode
from modules.edge.metaserver.compose import LiveStatus
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache

_POD, _NODE = ResourceType.POD, ResourceType.NODE


class LiveStatusUpdater:
    """The updater of the cache with the statuses of edged's pods and node, on edged's thread.

    edged publishes often; only new objects are encoded.

    Args:
        snapshots: edged's snapshots, to which this updater listens after `start`.
        cache: is updated.
        node: name of this node.
        whole: edged's pods and node are served also while the store does not have them: a pod that the cloud has
            deleted and that still terminates, a node that has never been registered.
    """

    def __init__(self, snapshots: Snapshots, cache: WatchCache, node: str, *, whole: bool = False) -> None:
        self._snapshots = snapshots
        self._cache = cache
        self._node = node
        self._whole = whole
        self._pods: dict[str, tuple[Pod, LiveStatus]] = {}
        self._node_status: NodeStatus | None = None

    def start(self) -> None:
        """Listen to edged's snapshots."""
        self._snapshots.subscribe(self.update)

    def update(self) -> None:
        """Update the cache from the snapshots."""
        self._update_pods(self._snapshots.pods)
        status = self._snapshots.node_status
        if status is not None and status is not self._node_status:
            self._node_status = status
            live = LiveStatus("", encode(status), _node_object(self._node, status) if self._whole else b"")
            self._cache.set_live_statuses(_NODE, {CacheKey(_NODE, "", self._node): (live,)})

    def _update_pods(self, pods: tuple[Pod, ...]) -> None:
        known, self._pods = self._pods, {}
        for pod in pods:
            uid = pod.metadata.uid
            before = known.get(uid)
            self._pods[uid] = before if before is not None and before[0] is pod else (pod, self._live(pod))
        if self._pods.keys() != known.keys() or any(self._pods[uid] is not known[uid] for uid in known):
            self._set_pods()

    def _set_pods(self) -> None:
        statuses: dict[CacheKey, tuple[LiveStatus, ...]] = {}
        for pod, live in self._pods.values():
            key = CacheKey(_POD, pod.metadata.namespace, pod.metadata.name)
            statuses[key] = (*statuses.get(key, ()), live)
        self._cache.set_live_statuses(_POD, statuses)

    def _live(self, pod: Pod) -> LiveStatus:
        """Return the status of a pod, and the object if it is served without a row: of a static pod until the cloud
        makes its mirror.
        """
        whole = _typed(pod) if self._whole else encode(pod) if is_static(pod) else b""
        return LiveStatus(pod.metadata.uid, encode(pod.status), whole)


def _typed(pod: Pod) -> bytes:
    """Return a pod as an API server would; a static pod was created when the node has seen it."""
    created = pod.metadata.creation_timestamp or pod.status.start_time
    metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=created)
    return encode(msgspec.structs.replace(pod, kind="Pod", api_version="v1", metadata=metadata))


def _node_object(name: str, status: NodeStatus) -> bytes:
    return encode(Node(kind="Node", api_version="v1", metadata=ObjectMeta(name=name), status=status))
