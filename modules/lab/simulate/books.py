"""Everything that an API server derives from its objects, as plain values: of a running one, and of a fresh load."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from beehive.clock import Clock
from modules.apimachinery.kinds import kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import KINDS, RbacIndex
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.object_sync import Holder
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import WatchHistory

GRAPHED = ("Pod", "PersistentVolume", "Node")
"""The kinds of the graph of nodes."""
VALUES = "Secret"
"""The kind whose former states a database does not keep."""


def plain(thing: Any) -> Any:
    """Return an object of the product as plain dictionaries, without the empty ones that a look leaves, and without the
    order of dictionaries.
    """
    if isinstance(thing, Mapping):
        found = {key: plain(value) for key, value in thing.items()}
        return {key: value for key, value in found.items() if value not in ({}, 0)}
    if isinstance(thing, msgspec.Struct | tuple | list | set | frozenset | str | int | bytes) or thing is None:
        return thing
    if type(thing).__module__.startswith("modules."):
        return plain({name: value for name, value in vars(thing).items() if not callable(value)})
    return ""


class Parts:
    """The parts of an API server that follow from its objects."""

    def __init__(
        self,
        cluster: Cluster,
        graph: NodeGraph,
        index: RbacIndex,
        collector: GarbageCollector,
        history: WatchHistory,
    ) -> None:
        self.cluster = cluster
        self._graph = graph
        self._index = index
        self._collector = collector
        self._history = history

    def books(self) -> dict[str, Any]:
        """Return all of them."""
        return {
            **self._of_storage(),
            "roles": plain(self._index._roles),
            "bindings": plain(self._index._bindings),
            "subjects": plain(self._index._by_subject),
            "references": plain(self._graph._references),
            "named": plain(self._graph._named),
            "hostnames": plain(self._graph._hostnames),
            "charges": plain(self._graph.accounts._charges),
            "accounts": [plain(each) for each in self._counters()],
            "owners": plain(self._collector._owners),
            "terminating": sorted(self._collector._terminating),
            "quotas": self._quotas(),
            "rooms": self._rooms(),
            "history": self._changes(),
            "floors": {kind: self._history._floor(kind) for kind in self._changes()},
        }

    def _of_storage(self) -> dict[str, Any]:
        storage = self.cluster.storage
        orders = {kind: [*storage.list(kind_named(kind))] for kind in ("ConfigMap", "Pod", VALUES)}
        return {
            "version": storage.version,
            "objects": {key: msgspec.json.encode(obj) for key, obj in storage._objects.items()},
            "kinds": {kind: sorted(objects) for kind, objects in storage._of_kind.items() if objects},
            "lists": {kind: [obj["metadata"]["name"] for obj in found] for kind, found in orders.items()},
            "pods": plain(storage._pods_of),
            "unbound": [(rank.below, rank.created, rank.key) for rank in sorted(storage.unbound._order)],
            "places": sorted(storage.unbound._ranks),
            "sizes": plain(storage.sizes),
            "nominated": sorted(storage._nominated),
            "large": sorted(storage.large),
        }

    def _counters(self) -> Iterable[Any]:
        accounts = self._graph.accounts
        return accounts._cost, accounts._mirrors, accounts._bound, accounts._reserved

    def _quotas(self) -> Any:
        ledger = self.cluster.quotas
        ledger._open()
        return {key: account.used for each in ledger._accounts.values() for key, account in each.items()}

    def _rooms(self) -> Any:
        rooms = self.cluster.scheduler._placer()._fleet.rooms
        return {
            name: (plain(room.used), plain(room.counted), sorted(room._known), room.lowest_priority)
            for name, room in rooms.items()
        }

    def _changes(self) -> dict[str, list[Any]]:
        found = {
            kind: [(one.version, one.change, one.object["metadata"]["name"]) for one, _ in changes]
            for kind, changes in self._history._changes.items()
            if kind != VALUES
        }
        return {kind: changes for kind, changes in found.items() if changes}

    def wrong_sizes(self) -> Iterator[str]:
        """Yield the counts of bytes that are not those of what is kept, and states that were rolled back."""
        past = self.cluster.storage._past
        for kind, changes in past._changes.items():
            if past._bytes[kind] != sum(change.size for change in changes):
                yield f"past states of {kind}"
            if max((change.version for change in changes), default=0) > self.cluster.storage.version:
                yield f"a state of {kind} that was rolled back"
        for kind, noted in self._history._changes.items():
            if self._history._bytes[kind] != sum(size for _, size in noted):
                yield f"history of {kind}"


def parts_of(server: ApiServer) -> Parts:
    """Return the parts of a running API server that has loaded its objects."""
    (collector,) = (each for each in server._reconcilers._all if isinstance(each, GarbageCollector))
    history = server._changes._history
    if history is None:
        raise ValueError("the objects are not loaded")
    return Parts(server._cluster, server._graph, server._changes._index, collector, history)


class Loader:
    """Loads the objects of a database, and writes nothing.

    Args:
        path: of the database.
        clock: the time.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._database = Database(str(path), "loader", durable=False)
        self._clock = clock

    def object_changed(self, event: ObjectEvent) -> None:
        """Ignore a change: all objects are taken afterwards."""

    def nodes_claimed(self, claims: Sequence[tuple[str, Holder]]) -> None:
        """Ignore claims."""

    def changes_rolled_back(self, events: list[ObjectEvent], nodes: set[str]) -> None:
        """Ignore it: nothing is written."""

    def parts(self) -> Parts:
        """Return the parts of a fresh load."""
        cluster, index, collects = Cluster(self._clock), RbacIndex(), GarbageCollector
        transactions = Transactions(cluster.storage, self._database, self)
        transactions.begin()
        storage = cluster.storage
        history = WatchHistory(storage, self._database.watch_history())
        transactions.abandon()
        graph, collector = NodeGraph(storage, self._clock), collects(cluster)
        for kind in GRAPHED:
            graph.add_objects(storage.list(kind_named(kind)))
        index.load(each for name in KINDS for each in storage.list(kind_named(name)))
        collector.load()
        cluster.quotas.load()
        return Parts(cluster, graph, index, collector, history)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def differences_of_books(running: Parts, loaded: Parts, but: Set[str] = frozenset()) -> Iterator[str]:
    """Yield what a running API server has in its books in place of what a fresh load finds, `but` for some of them."""
    yield from running.wrong_sizes()
    found, wanted = running.books(), loaded.books()
    for name in sorted(wanted.keys() - but):
        if found[name] != wanted[name]:
            yield f"{name}: {_different(found[name], wanted[name])}"


def _different(found: Any, wanted: Any) -> str:
    """Return what differs, clipped: objects are long."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]
        found, wanted = {key: found.get(key) for key in keys}, {key: wanted.get(key) for key in keys}
    return f"{found!s:.500} in place of {wanted!s:.500}"
