"""What the API server records of its writes for the change journal."""

from modules.apimachinery.kinds import is_being_deleted, uid_of
from modules.apimachinery.printing.fields import text_at
from modules.cloud.object_writes import (
    CHANGED,
    CREATED,
    DELETED,
    DELETING,
    UNKEPT,
    ObjectWrite,
    ObjectWriter,
    changed_fields,
    is_status_only,
)
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_NODE = "Node"
NO_WRITER = ObjectWriter()
"""The author of what cloudcore itself writes."""


class RecordedWrites:
    """The writes of the present transaction that the change journal keeps, and the author of the next ones."""

    def __init__(self) -> None:
        self.is_started = False
        """Whether what cloudcore itself writes is kept; it makes the same objects at each first start."""
        self.writer = NO_WRITER
        """The author of the next changes."""
        self._writes: list[ObjectWrite] = []

    def write_of(self, event: ObjectEvent, now: float) -> ObjectWrite | None:
        """Return the write that a change is; None if the journal does not keep it.

        Args:
            event: the change, by the present writer.
            now: seconds since 1970.
        """
        old, new, kind, writer = event.old, event.new, event.key.kind, self.writer
        if kind in UNKEPT or (writer is NO_WRITER and not self.is_started):
            return None
        fields, has_more = tuple[str, ...](), False
        if event.is_of_status and not writer.writes_status:
            return None
        if event.type is EventType.MODIFIED and old is not None:
            is_begun = is_being_deleted(new) and not is_being_deleted(old)
            if not is_begun and not writer.writes_status and is_status_only(old, new):
                return None
            fields, has_more = changed_fields(kind, old, new, status=writer.writes_status)
            if not fields and not is_begun:
                return None
            verb = DELETING if is_begun else CHANGED
        else:
            verb = DELETED if event.type is EventType.DELETED else CREATED
        node = event.key.name if kind == _NODE else text_at(new, "spec.nodeName")
        return ObjectWrite(
            now, writer.user, writer.manager, verb, kind, event.key.namespace, event.key.name, uid_of(new),
            int(new["metadata"]["resourceVersion"]), node, fields, int(has_more),
        )  # fmt: skip

    def add(self, write: ObjectWrite) -> None:
        """Add a committed write."""
        self._writes.append(write)

    def drain(self) -> list[ObjectWrite]:
        """Return the committed writes since the last call."""
        writes, self._writes = self._writes, []
        return writes
