"""Brings to the view what edged says: the statuses of its pods and of the node.

Called on edged's thread whenever it has published something, which is often; so only what has become another object is
encoded again.
"""

from beehive import ResourceType
from edged.api import NodeStatus, Pod, encode
from edged.server.snapshots import Snapshots
from edged.static_pods.manifest import is_static
from modules.metaserver.compose import Live
from modules.metaserver.view import Key, View

_POD, _NODE = ResourceType.POD, ResourceType.NODE


class LiveFeed:
    """See the module's docstring.

    Args:
        snapshots: where edged publishes.
        view: is told.
        node: name of this node.
    """

    def __init__(self, snapshots: Snapshots, view: View, node: str) -> None:
        self._snapshots = snapshots
        self._view = view
        self._node = node
        self._pods: dict[str, tuple[Pod, Live]] = {}
        self._node_status: NodeStatus | None = None

    def begin(self) -> None:
        """Have edged tell."""
        self._snapshots.listener = self.published

    def published(self) -> None:
        """Something has been published."""
        self._take_pods(self._snapshots.pods)
        status = self._snapshots.node_status
        if status is not None and status is not self._node_status:
            self._node_status = status
            self._view.live_is(_NODE, {Key(_NODE, "", self._node): (Live("", encode(status)),)})

    def _take_pods(self, pods: tuple[Pod, ...]) -> None:
        known, self._pods = self._pods, {}
        for pod in pods:
            uid = pod.metadata.uid
            before = known.get(uid)
            self._pods[uid] = before if before is not None and before[0] is pod else (pod, _live(pod))
        if self._pods.keys() != known.keys() or any(self._pods[uid] is not known[uid] for uid in known):
            self._tell_pods()

    def _tell_pods(self) -> None:
        lives: dict[Key, tuple[Live, ...]] = {}
        for pod, live in self._pods.values():
            key = Key(_POD, pod.metadata.namespace, pod.metadata.name)
            lives[key] = (*lives.get(key, ()), live)
        self._view.live_is(_POD, lives)


def _live(pod: Pod) -> Live:
    """A static pod is shown as edged has it while no cloud has made its mirror; of others the store says all else."""
    return Live(pod.metadata.uid, encode(pod.status), encode(pod) if is_static(pod) else b"")
