"""Hears what a hive does, as the recorder of a running node does, and keeps it as records."""

from beehive.clock import Clock
from beehive.delivery import Happened
from beehive.delivery import Record as Delivery
from beehive.hive import Hive
from beehive.trace import Record
from beehive.trace.entries import Kept, Serialiser
from beehive.trace.redact import Redactor
from edged.cri.contract import ContainerRuntime
from edged.cri.recording import CriEntry, recording
from edgehub.link import LinkFactory
from edgehub.recording import RecordingLinks
from metamanager.recording import RecordingStore
from metamanager.store import Store
from modules.replay.runtime import CHANGES


class Ear:
    """See the module's docstring.

    Args:
        hive: that is heard; before it is started.
        origin: monotonic seconds of the time 0 of the records.
    """

    def __init__(self, hive: Hive, origin: float = 0.0) -> None:
        self._hive = hive
        self._clock: Clock = hive.clock
        self._redactor = Redactor()
        self._serialiser = Serialiser(origin, self._redactor)
        self.kept: list[Kept] = []
        self.add = self.kept.append
        hive.taps.append(self)
        hive.watchers.append(self._happened)

    def delivered(self, record: Delivery) -> None:
        """See `beehive.delivery.Tap`."""
        self.kept.append(record)

    def runtime(self, runtime: ContainerRuntime) -> ContainerRuntime:
        """A container runtime, heard."""
        return recording(runtime, self._clock, self._hive.next_span, self.add)

    def links(self, make: LinkFactory) -> LinkFactory:
        """Links, heard."""
        return RecordingLinks(make, self._clock, self._hive.next_span, self.add, self._redactor.frame)

    def store(self, store: Store) -> RecordingStore:
        """A store, heard."""
        return RecordingStore(store, self._clock, self._hive.next_span, self.add, self._redactor.learn)

    def records(self, *, looks: bool = True) -> tuple[Record, ...]:
        """What was heard, oldest first; calls that only look at the runtime are most of it, and can be left out."""
        kept = self.kept if looks else [one for one in self.kept if not _looks(one)]
        return tuple(sorted(map(self._serialiser.record, kept), key=lambda record: record.time))

    def _happened(self, happened: Happened) -> None:
        self.kept.append(happened)


def _looks(entry: Kept) -> bool:
    return isinstance(entry, CriEntry) and entry.method not in CHANGES
