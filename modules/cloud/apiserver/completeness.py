"""Whether the embedded API server knows all objects that there ever were."""

from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.storage.database.database import Database


class Completeness:
    """Knows whether a missing object was deleted. An API server with a new database may have lost it with an old one,
    and nodes must not delete their pods for that.

    Args:
        database: has the objects.
        manifests: a directory that is applied, or None.
    """

    def __init__(self, database: Database, manifests: ManifestDirectory | None) -> None:
        self._database = database
        self._manifests = manifests

    @property
    def knows_all(self) -> bool:
        """Whether a missing object was deleted; from any thread."""
        has_past = self._database.outlives_process and not self._database.is_new
        return has_past or (self._manifests is not None and self._manifests.loaded)
