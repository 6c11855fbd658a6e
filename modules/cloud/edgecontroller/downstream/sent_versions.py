"""The versions that were sent over the present connections of nodes."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from modules.apimachinery.lister import Revision
from modules.cloud.edgecontroller.state.object_syncs import number_of

_DELETION: Final = -1


class SentVersions:
    """What the present process of each connected node was sent, whether it has acknowledged that or not: a process that
    starts anew has another connection.
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

    def note(self, node: str, uid: str, version: str) -> None:
        """Note that an object is sent."""
        self._of[node][uid] = number_of(version)

    def note_deletion(self, node: str, uid: str) -> None:
        """Note that the deletion of an object is sent."""
        self._of[node][uid] = _DELETION

    def has(self, node: str, uid: str, live: Revision | None) -> bool:
        """Return whether the present version of an object was sent, or its deletion if it is gone."""
        return self.of(node).get(uid) == (_DELETION if live is None else number_of(live.version))
