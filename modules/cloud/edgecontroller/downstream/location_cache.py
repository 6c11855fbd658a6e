"""The nodes that each object has to be sent to (KubeEdge's LocationCache)."""

from collections import defaultdict
from collections.abc import Iterable

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.pod_references import references_of
from modules.apimachinery.reference_index import ReferenceIndex
from modules.cloud.indexes import discard


class LocationCache:
    """The nodes that are sent an object such as a configmap or secret: their pods refer to it, or they have queried it.

    A node leaves when its last pod with the object does; in KubeEdge it stays until the object is deleted. Its store
    keeps the object: an ObjectSync records that, and the node gets the deletion. After the deletion the nodes of the
    pods that still name the object stay, so that they receive a new one of that name; KubeEdge forgets them.
    """

    def __init__(self) -> None:
        self._nodes: dict[ObjectKey, dict[str, None]] = {}
        self._keys: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        """The objects by node."""
        self._references = ReferenceIndex()
        """References of all pods."""
        self._pods: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        """The pods of each node, in order; those without a node at ""."""

    def add_or_update_pod(self, key: ObjectKey, pod: JsonObject) -> list[ObjectKey]:
        """Record that a pod's node needs the pod's references, and return them."""
        references = references_of(pod)
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        discard(self._pods, "", key)  # a pod may be bound, and then stays on its node
        self._pods[node][key] = None
        before = self._references.of(key)
        self._references.put(key, node, references)
        self._leave(node, before)
        for each in references:
            self.add(each, node)
        return references

    def remove_pod(self, key: ObjectKey, node: str) -> None:
        """Remove a pod of a node; it leaves objects that no other pod of the node refers to."""
        discard(self._pods, node, key)
        references = self._references.of(key)
        self._references.remove(key)
        self._leave(node, references)

    def pods_of(self, node: str) -> list[ObjectKey]:
        """Return the pods of a node."""
        return list(self._pods.get(node, ()))

    def nodes_with_pods(self) -> list[str]:
        """Return the nodes that have pods."""
        return list(self._pods)

    def has_pod(self, key: ObjectKey, node: str) -> bool:
        """Return whether a pod is known to be on a node."""
        return key in self._pods.get(node, ())

    def references_on(self, node: str) -> list[ObjectKey]:
        """Return the objects that the pods of a node refer to."""
        found = (self._references.of(pod) for pod in self._pods.get(node, ()))
        return list(dict.fromkeys(key for references in found for key in references))

    def add(self, key: ObjectKey, node: str) -> None:
        """Record that a node holds an object."""
        self._nodes.setdefault(key, {})[node] = None
        self._keys[node][key] = None

    def count(self, node: str) -> int:
        """Return the number of objects that a node holds or waits for."""
        return len(self._keys.get(node, ()))

    def nodes_of(self, key: ObjectKey) -> list[str]:
        """Return the nodes that must receive the changes of an object."""
        return list(self._nodes.get(key, ()))

    def on_node(self, node: str) -> list[ObjectKey]:
        """Return the objects that a node holds."""
        return list(self._keys.get(node, ()))

    def forget_queries(self, node: str) -> None:
        """Forget what a node has queried, except what its pods need."""
        for key in self.on_node(node):
            self._remove(key, node)
        for key in self.references_on(node):
            self.add(key, node)

    def forget(self, key: ObjectKey) -> None:
        """Remove an object, after its deletion has been sent, from all nodes but those whose pods still name it."""
        for node in self._nodes.pop(key, {}):
            keys = self._keys[node]
            del keys[key]
            if not keys:
                del self._keys[node]
        for node in self._references.nodes_of(key):
            self.add(key, node)

    def _leave(self, node: str, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            if node in self._nodes.get(key, ()) and not self._references.refers(node, key):
                self._remove(key, node)

    def _remove(self, key: ObjectKey, node: str) -> None:
        nodes, keys = self._nodes[key], self._keys[node]
        del nodes[node], keys[key]
        if not nodes:
            del self._nodes[key]
        if not keys:
            del self._keys[node]
