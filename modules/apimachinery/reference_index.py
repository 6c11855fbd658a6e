"""The objects that pods refer to, from the pods' side and from the objects'."""

import sys
from collections.abc import Collection

from modules.apimachinery.kinds import ObjectKey


class ReferenceIndex:
    """The number of pods that refer to an object, by object and node.

    An update costs as much as the pod has references, a query one or two lookups, for any number of pods. Equal keys
    are kept once: thousands of pods refer to one service account.
    """

    def __init__(self) -> None:
        self._pods: dict[ObjectKey, tuple[str, tuple[ObjectKey, ...]]] = {}
        """The node of each pod that is bound and refers to something, and its references."""
        self._nodes: dict[ObjectKey, dict[str, int]] = {}
        """By object, the number of referring pods of each node."""
        self._keys: dict[ObjectKey, ObjectKey] = {}

    def put(self, pod: ObjectKey, node: str, references: Collection[ObjectKey]) -> None:
        """Record the references of a pod, in place of earlier ones. A pod without a node has no references."""
        self.remove(pod)
        shared = tuple(map(self._keys.setdefault, references, references)) if node else ()
        if not shared:
            return
        node = sys.intern(node)
        self._pods[pod] = node, shared
        for key in shared:
            nodes = self._nodes.setdefault(key, {})
            nodes[node] = nodes.get(node, 0) + 1

    def remove(self, pod: ObjectKey) -> None:
        """Remove a pod, if it is there."""
        node, references = self._pods.pop(pod, ("", ()))
        for key in references:
            nodes = self._nodes[key]
            nodes[node] -= 1
            if not nodes[node]:
                del nodes[node]
            if not nodes:
                del self._nodes[key], self._keys[key]

    def of(self, pod: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the references of a pod."""
        return self._pods.get(pod, ("", ()))[1]

    def nodes_of(self, key: ObjectKey) -> list[str]:
        """Return the nodes whose pods refer to an object."""
        return list(self._nodes.get(key, ()))

    def refers(self, node: str, key: ObjectKey) -> bool:
        """Return whether a pod of a node refers to an object."""
        return node in self._nodes.get(key, ())
