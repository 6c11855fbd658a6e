"""Whether the embedded API server knows all objects that there ever were."""

from modules.apimachinery.application import KnownSince
from modules.apimachinery.types import format_time
from modules.apimachinery.types.times import seconds
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import Storage


class Completeness:
    """The completeness of the database: whether a missing object was deleted. An API server with a new database may
    have lost it with an old one, and nodes must not delete their pods for that.

    Args:
        database: has the objects.
        manifests: a directory that is applied, or None.
        storage: the objects in memory, since the process has started.
    """

    def __init__(self, database: Database, manifests: ManifestDirectory | None, storage: Storage) -> None:
        self._database = database
        self._manifests = manifests
        self._storage = storage

    @property
    def knows_all(self) -> bool:
        """Whether a missing object was deleted; from any thread."""
        has_past = self._database.outlives_process and not self._database.is_new
        return has_past or (self._manifests is not None and self._manifests.loaded)

    @property
    def known_since(self) -> KnownSince | None:
        """The beginning of a new database: a missing object that was made since, in time and version, was deleted. None
        if all are known, or nothing is.
        """
        if self.knows_all or not self._database.is_new:
            return None
        return KnownSince(format_time(seconds(self._storage.began_at)), str(self._storage.first_version))
