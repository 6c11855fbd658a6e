"""Which bodies of pods, configmaps and secrets the mirror keeps."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Final

from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named, metadata_of
from modules.apimachinery.pods.objects import node_of
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.edgecontroller.downstream.location_cache import LocationCache
from modules.cloud.edgecontroller.mirror.mirrored_bodies import MirroredBodies
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_EDGE: Final = "node-role.kubernetes.io/edge"
"""The label of edge nodes (KubeEdge's)."""
_NODE: Final = kind_named("Node").key_name
_POD: Final = kind_named("Pod").key_name
_REFERRED: Final = ("ConfigMap", "Secret")
_MOST_RECENT: Final = 128
_MOST_RECENT_BYTES: Final = 4 * 1024 * 1024
LOOK_PERIOD: Final = 60.0
"""Seconds between two looks for bodies that are no longer needed."""
_PORTION: Final = 64
"""Bodies that are dropped in one turn; each takes about 0.2 ms."""


class KeptBodies:
    """The objects that stay in memory whole: pods of nodes served here, and the objects that they refer to.

    A node is this cloudcore's while it is connected here, and if it is an edge node that no other cloudcore has: so one
    cloudcore that is restarted has all bodies after its first lists. An edge node has KubeEdge's label. Of several
    cloudcores, a node's claimant tells the others in the database. Without a database one drops the bodies
    of a node that has not been connected to it for two looks.

    The configmaps and secrets that were written last are kept for a while although no pod refers to them: most are
    written just before their pods.

    Args:
        bodies: of the mirror.
        locations: the pods of the nodes, and their references.
        database: knows the connected nodes.
        known: the cloudcores that are alive.
        call_soon: calls a function in a later turn.
    """

    def __init__(
        self,
        bodies: MirroredBodies,
        locations: LocationCache,
        database: Database,
        known: KnownCloudcores,
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._bodies = bodies
        self._locations = locations
        self._database = database
        self._known = known
        self._call_soon = call_soon
        self._edge: set[str] = set()
        """The edge nodes."""
        self._elsewhere: set[str] = set()
        """Nodes that other cloudcores have."""
        self._away: set[str] = set()
        """Edge nodes that were not connected here at the last look."""
        self._connecting: set[str] = set()
        self._recent: OrderedDict[ObjectKey, int] = OrderedDict()
        """Configmaps and secrets that were written last, with the bytes of their bodies."""
        self._recent_bytes = 0
        self._dropping: deque[tuple[str, ObjectKey]] = deque()
        """Objects whose bodies are perhaps not needed; pods with their nodes, others with ""."""

    def load(self) -> None:
        """Take over the claims of other cloudcores. For a transaction."""
        if self._database.shared:
            self.claimed(self._database.claims().items())

    def keeps(self, key: ObjectKey, obj: JsonObject, size: int) -> bool:
        """Return whether the body of an object, of so many bytes, is kept that the API server tells of."""
        if key.kind == _POD:
            return self._is_ours(node_of(obj))
        return self._is_referred(key) or self._is_recent(key, size)

    def connecting(self, node: str) -> None:
        """Note that a node connects here: from now on its pods are kept whole."""
        self._elsewhere.discard(node)
        self._connecting.add(node)

    def connected(self, node: str) -> None:
        """Note that a node is connected, or that its connection has failed."""
        self._connecting.discard(node)

    def claimed(self, claims: Iterable[tuple[str, str]]) -> None:
        """Note which cloudcores have claimed nodes, as pairs of node and cloudcore."""
        for node, cloudcore in claims:
            if cloudcore == self._database.cloudcore:
                self._elsewhere.discard(node)
            else:
                self._elsewhere.add(node)

    def handle_event(self, event: ObjectEvent) -> None:
        """Note whether a Node is an edge node."""
        if event.key.kind != _NODE:
            return
        name = event.key.name
        if event.type is EventType.DELETED:
            self._edge.discard(name)
            self._elsewhere.discard(name)
        elif _EDGE in (metadata_of(event.new).get("labels") or {}):
            self._edge.add(name)
        else:
            self._edge.discard(name)

    def collect(self) -> None:
        """Drop the bodies that are no longer needed, a portion in each turn."""
        if len(self._known.alive) > 1:
            away = {node for node in self._edge if node not in self._database.connected}
            self._elsewhere |= away & self._away - self._connecting
            self._away = away
        for node in self._locations.nodes_with_pods():
            pods = () if self._is_ours(node) else self._locations.pods_of(node)
            self._dropping.extend((node, key) for key in pods if not self._bodies.is_partial(key))
        for kind in _REFERRED:
            self._dropping.extend(("", key) for key in self._bodies.whole(kind))
        self._drop_portion()

    def _is_ours(self, node: str) -> bool:
        if node in self._database.connected or node in self._connecting:
            return True
        return node in self._edge and node not in self._elsewhere

    def _is_referred(self, key: ObjectKey) -> bool:
        return any(map(self._is_ours, self._locations.nodes_of(key)))

    def _is_recent(self, key: ObjectKey, size: int) -> bool:
        self._recent_bytes -= self._recent.pop(key, 0)
        if size > _MOST_RECENT_BYTES:
            return False
        self._recent[key] = size
        self._recent_bytes += size
        while len(self._recent) > _MOST_RECENT or self._recent_bytes > _MOST_RECENT_BYTES:
            oldest, bytes_of_it = self._recent.popitem(last=False)
            self._recent_bytes -= bytes_of_it
            self._drop("", oldest)
        return True

    def _drop_portion(self) -> None:
        dropped = 0
        while self._dropping and dropped < _PORTION:
            dropped += self._drop(*self._dropping.popleft())
        if self._dropping:
            self._call_soon(self._drop_portion)

    def _drop(self, node: str, key: ObjectKey) -> bool:
        """Drop the body of an object, unless it is needed, and return whether it was dropped."""
        is_needed = self._is_ours(node) if node else key in self._recent or self._is_referred(key)
        if not is_needed:
            self._bodies.drop(key)
        return not is_needed
