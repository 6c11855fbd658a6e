"""Which configmaps and secrets this node has no use for any more, and their end.

KubeEdge's edge keeps each that it was ever sent. That leaves secrets on a machine in the field on which nothing runs
that may read them. And it is wrong where the store is asked first, as here: a cloud that was started again pushes
changes only of what present pods use (KubeEdge's LocationCache), so that a pod that comes later would start with an old
state. What is not in the store is asked of the cloud, which has just sent the pod.

A pod may name them in a dozen places, a volume in more, and each release of Kubernetes adds some. So an object is
needed when any text in a stored pod or volume is its name, whatever the place and the namespace: now and then one is
kept without need, and none that is needed is dropped.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from beehive import Module, ResourceType, Timer
from metamanager.errors import StoreError
from metamanager.rows import Cause, Metadata, head_of
from metamanager.store import Store

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 600.0
"""From what may have made an object unneeded to the first look, and to the second. Both must find it so, and unchanged:
pods that are replaced, and an object that comes before its pod, need no more time than that.
"""

DEPENDENCIES: Final = (ResourceType.CONFIGMAP, ResourceType.SECRET)
_USERS: Final = (
    ResourceType.POD,
    ResourceType.PERSISTENT_VOLUME,
    ResourceType.PERSISTENT_VOLUME_CLAIM,
    ResourceType.VOLUME_ATTACHMENT,
)
_COMPLETE: Final = "null/store/complete"
UNUSED: Final = "no pod uses it"
"""Cause of their end, in the history."""


class Unneeded:
    """Looks for them, one look for all that happens within `LOOK_SECONDS`, and drops them.

    Args:
        module: whose timer it is.
        store: that keeps them.
        dropped: called after a look that has changed the store, for the commit.
        failed: called with why the store could not be read or changed; the next look tries again.
    """

    def __init__(
        self, module: Module, store: Store, dropped: Callable[[], None], failed: Callable[[StoreError], None]
    ) -> None:
        self._module = module
        self._store = store
        self._dropped = dropped
        self._failed = failed
        self._timer: Timer | None = None
        self._suspects: dict[str, Metadata] = {}
        """What the last look has found, by key, with the state in which it was."""

    def look_later(self) -> None:
        """Something has happened after which an object may be unneeded."""
        if self._timer is None:
            self._timer = self._module.after(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        before = self._suspects
        try:
            self._suspects = self._find()
            doomed = [key for key, state in self._suspects.items() if before.get(key) == state]
            for key in doomed:
                self._drop(key)
        except StoreError as error:
            self._failed(error)
            self.look_later()
            return
        if doomed:
            self._dropped()
        if self._suspects:
            self.look_later()

    def _find(self) -> dict[str, Metadata]:
        """Nothing while the store may not know all pods of the node (see `metamanager.pod_question`)."""
        if self._store.get(_COMPLETE) is None:
            return {}
        kept = {str(kind): self._store.get_all(kind) for kind in DEPENDENCIES}
        if not any(kept.values()):
            return {}
        return unneeded(kept, (user for kind in _USERS for user in self._store.get_all(kind)))

    def _drop(self, key: str) -> None:
        self._store.delete(key, self._suspects[key].uid or "", Cause(UNUSED), self._module.clock.now_ms())
        del self._suspects[key]
        _log.info("%s: dropped from the store, no pod uses it", key)


def unneeded(kept: Mapping[str, Iterable[str]], users: Iterable[str]) -> dict[str, Metadata]:
    """The objects of which no user has the name in it.

    Args:
        kept: JSON texts of objects, by their type. One without name or namespace is passed over.
        users: JSON texts of pods and volumes. One that cannot be read may name anything: nothing is unneeded then.

    Returns:
        Their metadata by their keys in the store.
    """
    names: set[str] = set()
    for user in users:
        try:
            _add_texts(msgspec.json.decode(user), names)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return {}
    heads = [(kind, head_of(value.encode())) for kind, values in kept.items() for value in values]
    return {
        f"{head.namespace}/{kind}/{head.name}": head
        for kind, head in heads
        if head.namespace and head.name and head.name not in names
    }


def _add_texts(node: Any, texts: set[str]) -> None:
    if isinstance(node, str):
        texts.add(node)
    elif isinstance(node, dict):
        for value in node.values():
            _add_texts(value, texts)
    elif isinstance(node, list):
        for value in node:
            _add_texts(value, texts)
