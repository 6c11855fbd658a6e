"""The outbox on a simulated disk."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from beehive import ContentError, FrameError, Message, decode
from beehive.names import Group, ModuleName, Operation
from edgehub.errors import OutboxError
from edgehub.outbox.sqlite import SqliteOutbox
from edgehub.outbox.store import StoredMessage
from modules.lab.simulate.disk import Disk, copy_database
from modules.lab.simulate.publication_watch import PublicationWatch
from modules.lab.simulate.world import Process, World

OUTBOX = "edgecore-outbox.db"
_RESOURCE = "simulated/upload"


class UploadWatch:
    """The check that stored uploads reach the cloud in their order, whatever happens to process, disk and line.

    Args:
        world: collects violations.
        node: node of the uploads.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self._made = 0
        self._kept: dict[int, str] = {}
        """Ids of stored uploads that have not arrived, by number."""
        self._arrived: set[str] = set()
        self.repeated = 0

    def next(self, process: Process) -> Message:
        """Make one more message that only the outbox keeps."""
        self._made += 1
        return Message.new(
            process.clock,
            source=ModuleName.EVENTBUS,
            group=Group.USER,
            resource=_RESOURCE,
            operation=Operation.UPLOAD,
            content=self._made,
        )

    def stored(self, frames: Iterable[bytes]) -> None:
        """Note that the outbox has stored frames."""
        for frame in frames:
            number, key = _number_of(frame)
            if number and key not in self._arrived:
                self._kept[number] = key

    def arrived(self, frame: bytes) -> None:
        """Check a frame that the cloud's process has taken."""
        number, key = _number_of(frame)
        if not number:
            return
        if key in self._arrived:
            self.repeated += 1
            return
        self._arrived.add(key)
        self._kept.pop(number, None)
        earlier = min(self._kept, default=number)
        if earlier < number:
            text = f"{self._node}: {number} has reached the cloud before {earlier}"
            self._world.violated("uploads keep their order", text)

    def missing(self) -> list[int]:
        """Return the numbers of stored uploads that have not reached the cloud."""
        return sorted(self._kept)


class OutboxDisk:
    """State of a node's outbox file, across processes."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.flushed = 0
        """Bytes of the write-ahead log that survive a loss of power."""

    def copy(self, old: Path, new: Path, *, power: bool) -> None:
        """Copy the files for the next process, as they are on the disk now."""
        copy_database(old, new, OUTBOX, self.flushed if power else None)


class SimulatedOutbox:
    """The real outbox on a simulated disk (`edgehub.outbox.store.OutboxStore`)."""

    def __init__(
        self, directory: Path, process: Process, place: OutboxDisk, watches: Sequence[UploadWatch | PublicationWatch]
    ) -> None:
        if place.disk.locked or place.disk.full:
            raise OutboxError("open the outbox", OUTBOX, "the disk is full or locked")
        path = directory / OUTBOX
        self._inner = SqliteOutbox(path)
        self._log = path.with_name(path.name + "-wal")
        self._process = process
        self._place = place
        self._watches = watches
        place.flushed = self._log_bytes()
        self.load = self._inner.load
        self.close = self._inner.close

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        """Write to the outbox, unless the disk is full or locked."""
        disk, kept = self._place.disk, list(put)
        self._process.point()
        self._process.sleep(disk.commit_seconds(self._process))
        if disk.full or disk.locked:
            raise OutboxError("write the outbox", OUTBOX, "the disk is full or locked")
        self._inner.change(kept, gone)
        self._place.flushed = self._log_bytes()
        for watch in self._watches:
            watch.stored(one.frame for one in kept)
        self._process.point()

    def _log_bytes(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0


def _number_of(frame: bytes) -> tuple[int, str]:
    """Return number and id of an upload; 0 for any other frame."""
    try:
        message = decode(frame)
        return (message.content_as(int), message.id) if message.route.resource == _RESOURCE else (0, "")
    except (FrameError, ContentError):
        return 0, ""
