"""The labels of Nodes that schedulers and controllers may count on.

Whoever lists nodes decides which they are: a NodeGroup its members, and with `topologyEnabled` those of the zone of its
name; and a hostname that is another Node's name is that Node's. A label that contradicts this does not count.
NodeRestriction refuses most of these labels, but a node sets its zone itself, as in Kubernetes, and a node that has
left a group has its label until the controller has taken it back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.applications import BELONGING_TO, NODE_GROUP
from modules.cloud.authorization.node_metadata import HOSTNAME, ZONE

_DECIDED: Final = (BELONGING_TO, ZONE, HOSTNAME)

Find = Callable[[ObjectKey], JsonObject | None]
"""Returns an object, or None."""
Selects = Callable[[JsonObject], bool]
"""Returns whether a group wants a Node."""


def labels_of(node: JsonObject) -> Mapping[str, str]:
    """Return the labels of a Node as they are."""
    return node["metadata"].get("labels") or {}


def selector_of(group: JsonObject) -> Selects:
    """Return the predicate for the nodes that a NodeGroup wants: by name, or by all of its labels."""
    spec = group.get("spec") or {}
    wanted, names = spec.get("matchLabels") or {}, frozenset(spec.get("nodes") or ())

    def selects(node: JsonObject) -> bool:
        has_labels = bool(wanted) and wanted.items() <= labels_of(node).items()
        return has_labels or node["metadata"]["name"] in names

    return selects


class TrustedLabels:
    """The labels of Nodes that count.

    Args:
        find: finds Nodes and NodeGroups.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._selectors: dict[str, tuple[JsonObject, Selects]] = {}
        """By name of a group, its state that was read last, and the predicate of that."""
        self._known: list[tuple[JsonObject, JsonObject]] = []
        """The Nodes of the last call of `nodes`, as they were given and returned."""
        self._groups: Sequence[JsonObject] = ()

    def node(self, node: JsonObject) -> JsonObject:
        """Return a Node, or a copy without the labels that do not count."""
        labels = labels_of(node)
        false = [name for name in _DECIDED if name in labels and self._is_false(node, name, str(labels[name]))]
        if not false:
            return node
        kept = {name: value for name, value in labels.items() if name not in false}
        return {**node, "metadata": {**node["metadata"], "labels": kept}}

    def nodes(self, nodes: Sequence[JsonObject], groups: Sequence[JsonObject]) -> list[JsonObject]:
        """Return Nodes as `node` does. Of thousands only those are looked at that are other objects than before, unless
        a group has changed, or another Node has come or gone.

        Args:
            nodes: all Nodes.
            groups: all NodeGroups.
        """
        names = [node["metadata"]["name"] for node in nodes]
        if groups != self._groups or names != [node["metadata"]["name"] for node, _ in self._known]:
            self._groups, self._known = groups, [(node, self.node(node)) for node in nodes]
        else:
            pairs = zip(nodes, self._known, strict=True)
            self._known = [known if known[0] is node else (node, self.node(node)) for node, known in pairs]
        return [trusted for _, trusted in self._known]

    def of(self, node: JsonObject) -> Mapping[str, str]:
        """Return the labels of a Node that count."""
        return labels_of(self.node(node))

    def _is_false(self, node: JsonObject, label: str, value: str) -> bool:
        if label == HOSTNAME:
            return value != node["metadata"]["name"] and self._find(ObjectKey("Node", "", value)) is not None
        group = self._find(ObjectKey(NODE_GROUP.key_name, "", value))
        if group is None:
            self._selectors.pop(value, None)
            return False
        is_decided = label == BELONGING_TO or bool((group.get("spec") or {}).get("topologyEnabled"))
        return is_decided and not self._selector_of(value, group)(node)

    def _selector_of(self, name: str, group: JsonObject) -> Selects:
        known = self._selectors.get(name)
        if known is None or known[0] is not group:
            known = self._selectors[name] = group, selector_of(group)
        return known[1]
