"""The deletions of pods that wait for the API server."""

from collections.abc import Callable
from functools import partial

from modules.apimachinery.kinds import ObjectKey


class UnconfirmedDeletions:
    """The deletions of pods, missing in the cache, that are sent when the API server does not have the pod either, or
    a next pod of the name is newer.

    Args:
        confirm: calls a function if the API server does not have a pod.
        confirmed: called with the node, the name and the uid of such a pod.
    """

    def __init__(
        self,
        confirm: Callable[[ObjectKey, str, Callable[[], None]], None],
        confirmed: Callable[[str, ObjectKey, str], None],
    ) -> None:
        self._confirm = confirm
        self._confirmed = confirmed
        self.by_node: dict[str, dict[ObjectKey, set[str]]] = {}
        """By node and name, the uids of the pods."""

    def forget(self, node: str) -> None:
        """Forget a node that has disconnected."""
        self.by_node.pop(node, None)

    def begin(self, node: str, key: ObjectKey, uid: str) -> None:
        """Ask the API server for a pod."""
        self.by_node.setdefault(node, {}).setdefault(key, set()).add(uid)
        self._confirm(key, uid, partial(self._handle_confirmed, node, key, uid))

    def end(self, node: str, key: ObjectKey, uid: str) -> None:
        """Forget a deletion: it is sent."""
        names = self.by_node.get(node, {})
        uids = names.get(key, set())
        uids.discard(uid)
        if not uids:
            names.pop(key, None)
        if not names:
            self.by_node.pop(node, None)

    def _handle_confirmed(self, node: str, key: ObjectKey, uid: str) -> None:
        self.end(node, key, uid)
        self._confirmed(node, key, uid)
