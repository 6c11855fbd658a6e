"""Loads the stored objects when an API server starts, without the surplus of a database that nodes have filled."""

import logging
from collections.abc import Callable
from typing import Final

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, ObjectKey, metadata_of
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.authorization.node_accounts import NodeAccounts

_log = logging.getLogger(__name__)

_LARGEST_CAPACITY: Final[JsonObject] = {"status": {"capacity": {"pods": "250"}}}
"""Of a Node; the stored ones come after their pods."""
_MOST_BYTES: Final = {"Event": 64 * 1024, "CertificateSigningRequest": 256 * 1024}
"""Bytes of objects, by kind, that nodes write and that nobody misses."""


class LoadedObjects:
    """The stored objects, taken one after the other, without those that a node has written beyond its quota.

    Earlier versions had no such quota: a database of gigabytes must not keep the cloud from starting. A mirror pod that
    is left out comes again when its node reports it, a status with the node's next report. Objects that are read after
    `complete`, which other cloudcores have changed, are taken as they are stored (`ObjectReader`).

    Args:
        progressed: called now and then while objects are read.
        clock: the time.
    """

    def __init__(self, progressed: Callable[[], None], clock: Clock) -> None:
        self._progressed = progressed
        self._is_complete = False
        self._accounts = NodeAccounts(clock)
        self.left_out: list[ObjectKey] = []
        """The objects whose rows are to be deleted."""

    def admit(self, key: ObjectKey, obj: JsonObject, size: int) -> JsonObject | None:
        """Return an object as memory keeps it; None to leave it out.

        Args:
            key: its key.
            obj: the stored object.
            size: bytes of its JSON.
        """
        if self._is_complete:
            return obj
        if size > _MOST_BYTES.get(key.kind, size):
            self.left_out.append(key)
            return None
        if key.kind == "Node":
            return self._without_surplus(key, obj, {**obj, "status": {}}, key.name)
        node = node_of(obj) if key.kind == "Pod" else ""
        if not node:
            return obj
        if CONFIG_MIRROR not in (metadata_of(obj).get("annotations") or {}):
            return self._without_surplus(key, obj, {**obj, "status": {}}, node)
        if self._accounts.refusal(node, None, obj, _LARGEST_CAPACITY):
            self.left_out.append(key)
            return None
        self._accounts.put(key, obj)
        return obj

    def _without_surplus(self, key: ObjectKey, obj: JsonObject, smaller: JsonObject, node: str) -> JsonObject:
        """Return an object, or its smaller form if the node has written too much."""
        self._accounts.put(key, smaller)
        taken = smaller if self._accounts.refusal(node, smaller, obj, None) else obj
        self._accounts.put(key, taken)
        return taken

    def progressed(self) -> None:
        """Announce that the reading goes on."""
        self._progressed()

    def complete(self) -> None:
        """Note that all stored objects were read, and log if some were left out."""
        self._is_complete = True
        if self.left_out:
            _log.warning(
                "%d stored objects that nodes have written beyond their quota are removed; the first is %s",
                len(self.left_out),
                self.left_out[0],
            )
