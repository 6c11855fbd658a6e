"""Deletes configmaps and secrets that pods of the node no longer reference, and tokens of pods that are gone."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from beehive import ModuleContext, ResourceType, Timer
from beehive.decoding import decode_json
from metamanager.errors import StoreError
from metamanager.replies import Outcome, StoreChanges
from metamanager.rows import Cause, Metadata, head_of
from metamanager.store import Store
from metamanager.tokens import bound_uid

_log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 600.0
"""Seconds from a change of pods to the first check, and from that to the second. Both must find an object unreferenced
and unchanged: this leaves time for pods that are replaced, and for an object that arrives before its pod.
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
"""Cause of the deletion in the history."""


class Unreferenced:
    """The periodic deletion of unreferenced configmaps and secrets.

    KubeEdge's edge keeps every configmap and secret. That leaves secrets on a machine that runs nothing with a right to
    read them. Here, where the store answers first, it would also be wrong: a restarted cloud pushes changes only of
    objects that present pods use (KubeEdge's LocationCache), and a later pod would start with an old state. An object
    that is not stored is queried from the cloud, which has just sent the pod.

    A pod may reference them in a dozen fields, a volume in more, and each release of Kubernetes adds some. So an object
    counts as referenced if any text in a stored pod or volume is its name, in any field and namespace: this sometimes
    keeps an object too long, and never deletes one in use.

    Args:
        context: metamanager's; its timer is used.
        store: the database.
        changes: take the objects that a check has dropped. After a failure the next check tries again.
    """

    def __init__(self, context: ModuleContext, store: Store, changes: StoreChanges) -> None:
        self._context = context
        self._store = store
        self._changes = changes
        self._timer: Timer | None = None
        self._suspects: dict[str, Metadata] = {}
        """Unreferenced objects of the last check by key, with their state."""

    def schedule_check(self) -> None:
        """Schedule a check after a change of pods, configmaps or secrets; one check serves all changes before it."""
        if self._timer is None:
            self._timer = self._context.after(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._timer = None
        before = self._suspects
        try:
            self._suspects = self._find()
            doomed = [key for key, state in self._suspects.items() if before.get(key) == state]
            for key in doomed:
                self._drop(key)
            gone = self._gone_owners()
            for uid in gone:
                self._store.delete_owned(ResourceType.SERVICE_ACCOUNT_TOKEN, uid)
        except StoreError as error:
            self._changes.change_failed(error)
            self.schedule_check()
            return
        if doomed or gone:
            self._changes.add_change(Outcome((), changed=True))
        if self._suspects or doomed or gone:  # the deletions may be lost with their commit
            self.schedule_check()

    def _find(self) -> dict[str, Metadata]:
        """Return the unreferenced objects; none while the store may lack pods of the node (`client.COMPLETE`)."""
        if self._store.get(_COMPLETE) is None:
            return {}
        kept = {str(kind): self._store.get_all(kind) for kind in DEPENDENCIES}
        if not any(kept.values()):
            return {}
        return unreferenced(kept, (user for kind in _USERS for user in self._store.get_all(kind)))

    def _gone_owners(self) -> set[str]:
        """Return the uids of pods that are not stored, but whose tokens are: the token came after the deletion, or the
        deletion had no uid, or none came.
        """
        if self._store.get(_COMPLETE) is None:
            return set()
        owners = {bound_uid(token) for token in self._store.get_all(ResourceType.SERVICE_ACCOUNT_TOKEN)} - {""}
        return owners and owners - {head_of(pod.encode()).uid for pod in self._store.get_all(ResourceType.POD)}

    def _drop(self, key: str) -> None:
        self._store.delete(key, self._suspects[key].uid or "", Cause(UNUSED), self._context.clock.now_ms())
        del self._suspects[key]
        _log.info("%s: dropped from the store, no pod uses it", key)


def unreferenced(kept: Mapping[str, Iterable[str]], users: Iterable[str]) -> dict[str, Metadata]:
    """Find the objects that no user references.

    Args:
        kept: JSON texts of objects, by type. Objects without name or namespace are skipped.
        users: JSON texts of pods and volumes. An undecodable text may reference anything: the result is empty.

    Returns:
        The objects' metadata by their keys in the store.
    """
    names: set[str] = set()
    for user in users:
        try:
            _add_texts(decode_json(user), names)
        except (msgspec.DecodeError, UnicodeError):
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
