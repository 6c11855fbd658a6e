"""Records the events of a hive, as the recorder of a running node does."""

from beehive.delivery import DeliveryRecord as Delivery
from beehive.delivery import HiveEvent, TurnTaken
from beehive.hive import Hive
from beehive.trace import Record
from beehive.trace.entries import AnyEntry, EntrySink, Serialiser
from beehive.trace.redact import Redactor
from edged.cri.contract import ContainerRuntime
from edged.cri.recording import CriEntry, recording
from edgehub.link import LinkFactory
from edgehub.recording import RecordingLinks
from metamanager.recording import RecordingStore
from metamanager.store import Store
from modules.lab.replay.worker_reads import CHANGES


class Recorder:
    """A recorder of deliveries, CRI calls, link frames and store commits of a hive in memory.

    Args:
        hive: the hive to record, not yet started.
    """

    def __init__(self, hive: Hive) -> None:
        redactor = Redactor()
        self._serialiser = Serialiser(0.0, redactor)
        self.kept: list[AnyEntry] = []
        self.add = self.kept.append
        self.sink = EntrySink(hive.clock, redactor, hive.next_span, self.add)
        """Takes the entries of recorded parts."""
        hive.taps.append(self)
        hive.watchers.append(self._happened)

    def delivered(self, record: Delivery) -> None:
        """Record a delivery (`beehive.delivery.Tap`)."""
        self.kept.append(record)

    def runtime(self, runtime: ContainerRuntime) -> ContainerRuntime:
        """Wrap a container runtime so that its calls are recorded."""
        return recording(runtime, self.sink)

    def links(self, make: LinkFactory) -> LinkFactory:
        """Wrap a link factory so that the frames of its links are recorded."""
        return RecordingLinks(make, self.sink)

    def store(self, store: Store) -> RecordingStore:
        """Wrap a store so that its commits are recorded."""
        return RecordingStore(store, self.sink)

    def records(self, *, reads: bool = True) -> tuple[Record, ...]:
        """Return the records, oldest first.

        Args:
            reads: include CRI calls that change nothing; they are most of the records.
        """
        kept = self.kept if reads else [one for one in self.kept if not _only_reads(one)]
        return tuple(sorted(map(self._serialiser.record, kept), key=lambda record: record.time))

    def _happened(self, happened: HiveEvent) -> None:
        if not isinstance(happened, TurnTaken):  # in virtual time all of a moment happens at once
            self.kept.append(happened)


def _only_reads(entry: AnyEntry) -> bool:
    return isinstance(entry, CriEntry) and entry.method not in CHANGES
