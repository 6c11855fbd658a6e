"""The changes of transactions, which are published after the commit."""

from beehive.module import Module
from modules.apimachinery.kinds import kind_named
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.recorded_writes import RecordedWrites
from modules.cloud.authorization.rbac.index import KINDS, RbacIndex
from modules.cloud.fleet_counts import FleetCounts
from modules.cloud.object_writes import JOURNAL, WRITES_RESOURCE, WRITTEN
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import ObjectEvent, Storage
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import ObjectChanged, WatchHistory, WatchQuery, WatchStart


class CommittedChanges:
    """The publisher of changes to the watches, the index of roles and the change journal.

    Args:
        module: the API server; sends the messages.
        database: has the changes that watches may begin with.
        subscriptions: the watches.
        index: gets the roles and bindings, which authorize users.
        fleet: counts nodes, pods and devices; None: nothing does.
    """

    def __init__(
        self,
        module: Module,
        database: Database,
        subscriptions: Subscriptions,
        index: RbacIndex,
        fleet: FleetCounts | None = None,
    ) -> None:
        self._module = module
        self._database = database
        self._subscriptions = subscriptions
        self._index = index
        self._fleet = fleet
        self._history: WatchHistory | None = None
        self._changes: list[ObjectChanged] = []
        """The committed ones that nobody was told yet."""
        self.is_loaded = False
        """Whether watches can begin."""
        self.writes = RecordedWrites()
        """Names who makes the changes."""

    def load(self, storage: Storage, left_out: set[str]) -> None:
        """Take over the loaded objects.

        Args:
            storage: has them.
            left_out: the kinds with objects that were removed when they were loaded; watches of them begin anew.
        """
        self._index.load(each for name in KINDS for each in storage.list(kind_named(name)))
        if self._fleet is not None:
            self._fleet.load(each for kind in self._fleet.kinds for each in storage.list(kind))
        stored = self._database.watch_history()
        stored.began.update(dict.fromkeys(left_out, storage.version))
        self._history, self.is_loaded = WatchHistory(storage, stored), True

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch."""
        if self._history is None:
            raise RuntimeError("the objects are not loaded")
        return self._history.start(query)

    def handle_event(self, event: ObjectEvent, transactions: Transactions) -> None:
        """Publish a change after the commit."""
        is_own = not transactions.is_adopting
        write = self.writes.write_of(event, self._module.clock.now()) if is_own else None

        def record() -> None:
            if event.key.kind in KINDS:
                self._index.handle_event(event)
            elif self._fleet is not None and event.key.kind in self._fleet.names:
                self._fleet.handle_event(event)
            if self._history is not None:
                self._changes.append(self._history.record(event))
            if write is not None:
                self.writes.add(write)

        transactions.after_commit(record, None if is_own else record)

    def forget(self) -> None:
        """Delete stored changes that no watch can begin with now."""
        if self._history is not None:
            for kind, until in self._history.drain_forgotten().items():
                self._database.forget_changes(kind, until)

    def publish(self) -> None:
        """Tell the changes of the transaction."""
        changes, self._changes = self._changes, []
        for changed in changes:
            self._subscriptions.publish(changed)
        module, writes = self._module, self.writes.drain()
        if writes and module.hive.members(JOURNAL):
            module.broadcast(JOURNAL, module.message(WRITES_RESOURCE, WRITTEN, writes))
