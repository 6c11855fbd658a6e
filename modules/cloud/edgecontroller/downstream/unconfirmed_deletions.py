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
        self._of: dict[str, dict[ObjectKey, set[str]]] = {}
        """By node and name, the uids of the pods."""

    def forget(self, node: str) -> None:
        """Forget a node that has disconnected."""
        self._of.pop(node, None)

    def of(self, node: str, key: ObjectKey) -> list[str]:
        """Return the uids of a node's pods of a name whose deletions wait."""
        return sorted(self._of.get(node, {}).get(key, ()))

    def begin(self, node: str, key: ObjectKey, uid: str) -> None:
        """Ask the API server for a pod."""
        self._of.setdefault(node, {}).setdefault(key, set()).add(uid)
        self._confirm(key, uid, partial(self._handle_confirmed, node, key, uid))

    def end(self, node: str, key: ObjectKey, uid: str) -> None:
        """Forget a deletion: it is sent."""
        names = self._of.get(node, {})
        uids = names.get(key, set())
        uids.discard(uid)
        if not uids:
            names.pop(key, None)
        if not names:
            self._of.pop(node, None)

    def _handle_confirmed(self, node: str, key: ObjectKey, uid: str) -> None:
        self.end(node, key, uid)
        self._confirmed(node, key, uid)
