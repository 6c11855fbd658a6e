"""The versions that were sent over the present connections of nodes."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from modules.apimachinery.lister import Revision
from modules.cloud.edgecontroller.state.object_syncs import number_of

_DELETION: Final = -1
"""A deletion without a version; others have a lower number."""


class SentVersions:
    """The versions sent to the present process of each connected node, acknowledged or not: a process that
    restarts has another connection.
    """

    def __init__(self) -> None:
        self._of: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """By node and uid."""

    def forget(self, node: str) -> None:
        """Forget a node: its connection has begun or ended, or its Node is another one."""
        self._of.pop(node, None)

    def of(self, node: str) -> Mapping[str, int]:
        """Return the versions that a node was sent, by uid."""
        return self._of.get(node, {})

    def record(self, node: str, uid: str, version: int) -> None:
        """Note that an object is sent, in a version as edges compare it."""
        self._of[node][uid] = version

    def record_deletion(self, node: str, uid: str, version: int) -> None:
        """Note that the deletion of an object is sent, in a version; 0 if it is not known, or was sent before."""
        self._of[node][uid] = min(self._of[node].get(uid, _DELETION), _DELETION - version)

    def is_sent_since_deletion(self, node: str, uid: str) -> bool:
        """Return whether an object was sent after its last deletion."""
        return self.of(node).get(uid, _DELETION) > _DELETION

    def deletion_of(self, node: str, uid: str) -> int:
        """Return the version of the deletion of an object that was sent, 0 if it is not known."""
        return max(0, _DELETION - self.of(node).get(uid, _DELETION))

    def has(self, node: str, uid: str, live: Revision | None) -> bool:
        """Return whether the present version of an object was sent, or its deletion if it was deleted."""
        sent = self.of(node).get(uid, 0)
        return sent <= _DELETION if live is None else sent == number_of(live.version)
