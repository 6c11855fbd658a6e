"""A view of the objects for another thread, which prepares a write."""

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.storage.object_storage import Storage


class PreviewError(Exception):
    """The end of a request on a preview: it would write now."""


class StoragePreview(Storage):
    """The present objects of a storage, for another thread than its own. It may miss a change, or see half of one: the
    write compares again what was read.

    Args:
        storage: the objects.
    """

    def __init__(self, storage: Storage) -> None:
        vars(self).update(vars(storage), _sorted={})

    def create(self, obj: JsonObject, uid: str = "") -> JsonObject:  # noqa: ARG002 - as the storage
        """End the request.

        Raises:
            PreviewError: always.
        """
        raise PreviewError

    def change(self, *_: object, **__: object) -> JsonObject:
        """As `create`."""
        raise PreviewError

    def change_status(self, key: ObjectKey, *_: object) -> JsonObject:
        """As `create`."""
        raise PreviewError(key)

    def remove(self, key: ObjectKey) -> JsonObject:
        """As `create`."""
        raise PreviewError(key)
