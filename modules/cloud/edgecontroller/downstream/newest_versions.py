"""The versions that the API server has answered with and its watches have not reported yet."""

from collections import OrderedDict
from typing import Final

from modules.cloud.client.reflector.request_state import is_lower
from modules.cloud.storage.object_sync import ObjectSync

_MOST: Final = 10_000
"""Objects that are remembered; a watch is behind by few."""


class NewestVersions:
    """The newest version of each kind that was told, and the objects that were answered to nodes in a newer one.

    An object that is missing was deleted, unless it is one of these: then the watch is behind.
    """

    def __init__(self) -> None:
        self._of_kind: dict[str, str] = {}
        self._ahead: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """By uid, kind and version."""

    def told(self, kind: str, uid: str, version: str) -> None:
        """Note a change."""
        self._ahead.pop(uid, None)
        if not is_lower(version, self._of_kind.get(kind, "")):
            self._of_kind[kind] = version

    def listed(self, kind: str, version: str) -> None:
        """Note a complete list; its version may be lower than one before, after a restore."""
        self._of_kind[kind] = version

    def of(self, kind: str) -> str:
        """Return the newest version of a kind that was told; "" before any."""
        return self._of_kind.get(kind, "")

    def ahead(self, kind: str, uid: str, version: str) -> None:
        """Note an object in an answer that is missing here."""
        self._ahead[uid] = kind, version
        if len(self._ahead) > _MOST:
            self._ahead.popitem(last=False)

    def is_ahead(self, uid: str, acknowledged: ObjectSync) -> bool:
        """Return whether an object that is missing may only not have been told yet: it was answered to a node, or sent
        by another cloudcore, in a newer version than was told.
        """
        newest = self._of_kind.get(acknowledged.key.kind)
        if newest is not None and acknowledged.version and is_lower(newest, str(acknowledged.version)):
            return True
        known = self._ahead.get(uid)
        if known is None:
            return False
        kind, version = known
        if is_lower(self._of_kind.get(kind, "0"), version):
            return True
        del self._ahead[uid]
        return False
