"""The newest versions that watches have reported, and what they may still lack."""

from collections.abc import Mapping

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.client.reflector.request_state import is_lower
from modules.cloud.storage.object_sync import ObjectSync


class NewestVersions:
    """The newest version of each kind that was told: an object that is missing was deleted, unless it existed in a
    newer one. Then the watch is behind.
    """

    def __init__(self) -> None:
        self._of_kind: dict[str, str] = {}

    def observe(self, kind: str, version: str) -> None:
        """Note a change."""
        if not is_lower(version, self._of_kind.get(kind, "")):
            self._of_kind[kind] = version

    def listed(self, kind: str, version: str) -> None:
        """Note a complete list; its version may be lower than one before, after a restore."""
        self._of_kind[kind] = version

    def of(self, kind: str) -> str:
        """Return the newest version of a kind that was told; "" before any."""
        return self._of_kind.get(kind, "")

    def is_behind(self, sync: ObjectSync) -> bool:
        """Return whether an object that is missing may only not have been told yet: it was answered to a node, or sent
        by another cloudcore.
        """
        return self.is_before(sync.key.kind, sync.existed_at)

    def is_before(self, kind: str, version: int) -> bool:
        """Return whether a version of a kind was not told yet; 0, which is no version, is not waited for."""
        newest = self._of_kind.get(kind)
        return newest is not None and is_lower(newest, str(version))

    def ahead(self, syncs: Mapping[str, ObjectSync]) -> dict[ObjectKey, str]:
        """Return the uids of the objects that may only not have been told yet; of several with one key the newest's.

        Args:
            syncs: of a node, by uid.
        """
        found = [(sync.existed_at, uid) for uid, sync in syncs.items() if self.is_behind(sync)]
        return {syncs[uid].key: uid for _, uid in sorted(found)}
