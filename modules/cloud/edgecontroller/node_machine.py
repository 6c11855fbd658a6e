"""The life of a node at one cloudcore, as a pure machine: events in, effects out (`NodeConnections` runs it).

A node connects and registers, in either order; its connection is replaced, ends, or is found at another cloudcore; its
Node object is deleted and made again; the API server's versions go back. ObjectSyncs belong to a Node's uid, and
acknowledged versions to an epoch: nothing of a Node that was deleted counts for one of the same name, and no version of
another epoch counts as acknowledged. The mirror may be behind the cloudcore that has served the node before. So stored
ObjectSyncs are kept until it is certain that their Node was deleted.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from modules.cloud.storage.object_sync import Holder, NodeState


class NodeRecord(msgspec.Struct, frozen=True, gc=False):
    """The state of one node between two events."""

    connection: str = ""
    """The claimed connection; "" without one."""
    is_served: bool = False
    """Whether the node's ObjectSyncs are loaded, and it is sent messages."""
    registered: str | None = None
    """The connection over which the node has registered last, "" before it was claimed; None: it has not registered."""
    has_registered_early: bool = False
    """Whether the node has registered while its connection was being claimed."""
    ended: str = ""
    """A connection whose beginning is not to be handled any more: its end was handled, or it was ended from here."""
    elsewhere: Holder = Holder()
    """The cloudcore of the database that has claimed the node since."""


class Seen(Protocol):
    """The state that a decision reads besides the record, as far as it needs it: a read may cost a query."""

    @property
    def now(self) -> float:
        """Seconds since 1970."""

    @property
    def uid(self) -> str:
        """The uid of the Node object in the mirror, or ""."""

    @property
    def stored(self) -> NodeState:
        """The stored state of the node."""

    @property
    def is_behind(self) -> bool:
        """Whether the Node of the stored state may be one that the mirror has not been told of yet."""

    @property
    def epoch(self) -> int:
        """The number of the present epoch."""

    @property
    def is_epoch_over(self) -> bool:
        """Whether another cloudcore has begun the next epoch."""


# Events


class Connected(msgspec.Struct, frozen=True):
    """A connection has begun, and the cluster knows that it is this cloudcore's."""

    connection: str
    holder: Holder
    """This cloudcore, and when the connection began."""


class Superseded(msgspec.Struct, frozen=True):
    """A connection cannot be claimed: the node has connected to another cloudcore since."""

    connection: str


class Disconnected(msgspec.Struct, frozen=True):
    """A connection has ended."""

    connection: str


class Registered(msgspec.Struct, frozen=True):
    """The API server has answered the node's registration."""

    connection: str
    """The claimed connection when the registration came; "" if there was none."""


class Restored(msgspec.Struct, frozen=True):
    """edgecontroller has started again, or has taken over the state that another cloudcore has written."""


class ClaimedElsewhere(msgspec.Struct, frozen=True):
    """Another cloudcore of the database has claimed the node."""

    holder: Holder


class Dropped(msgspec.Struct, frozen=True):
    """The connection is to end, and the node to connect again."""


class RolledBack(msgspec.Struct, frozen=True):
    """Changes to the node's ObjectSyncs were rolled back; nothing was sent."""


class NodeAdded(msgspec.Struct, frozen=True):
    """The API server has a new Node object."""

    uid: str


class NodeDeleted(msgspec.Struct, frozen=True):
    """The Node object was deleted."""

    uid: str


class DeletionConfirmed(msgspec.Struct, frozen=True):
    """The API server has confirmed that the Node object does not exist (`ConfirmDeletion`)."""

    connection: str
    uid: str
    """Of the earlier Node."""


NodeEvent = (
    Connected
    | Superseded
    | Disconnected
    | Registered
    | Restored
    | ClaimedElsewhere
    | Dropped
    | RolledBack
    | NodeAdded
    | NodeDeleted
    | DeletionConfirmed
)


# Effects


class Claim(msgspec.Struct, frozen=True):
    """Write in the database that the node is this cloudcore's."""

    connection: str
    connected_at: float


class Release(msgspec.Struct, frozen=True):
    """Send the node nothing more, and forget what its connection needed."""


class Close(msgspec.Struct, frozen=True):
    """End a connection, after the transaction."""

    connection: str


class Load(msgspec.Struct, frozen=True):
    """Read the node's ObjectSyncs; from now on it is served."""

    forgets: bool
    """Whether the stored ones belong to an earlier Node object, and are deleted."""
    resets: bool
    """Whether their versions belong to another epoch, and count as not acknowledged."""
    state: NodeState | None
    """The state to store; None: it is stored."""


class Store(msgspec.Struct, frozen=True):
    """Store the state of the node."""

    state: NodeState


class Forget(msgspec.Struct, frozen=True):
    """Delete the ObjectSyncs and the state of the node."""


class BeginConnection(msgspec.Struct, frozen=True):
    """Nothing has been sent over the present connection, or to the present Node, yet."""


class Restart(msgspec.Struct, frozen=True):
    """The node's process has started, perhaps with an empty store: what it was not sent over this connection counts as
    not acknowledged.
    """


class EnsureNode(msgspec.Struct, frozen=True):
    """The node is to have its Node object."""

    uid: str


class SendUnacknowledged(msgspec.Struct, frozen=True):
    """Send the node the objects that it needs and has not acknowledged."""


class EndWatches(msgspec.Struct, frozen=True):
    """End the watches of the node's metaserver."""


class DeleteNode(msgspec.Struct, frozen=True):
    """Send the node the deletion of its Node object."""

    uid: str


class ConfirmDeletion(msgspec.Struct, frozen=True):
    """Ask the API server whether the Node object no longer exists: the mirror may only be behind."""

    connection: str
    uid: str


class RestoreMissed(msgspec.Struct, frozen=True):
    """Another cloudcore has seen a restore of etcd that this one has not: list all again, as the mirror is older."""


class Disappeared(msgspec.Struct, frozen=True):
    """The node has disconnected: its state is to be written soon, as perhaps cloudcore stops."""


NodeEffect = (
    Claim
    | Release
    | Close
    | Load
    | Store
    | Forget
    | BeginConnection
    | Restart
    | EnsureNode
    | SendUnacknowledged
    | EndWatches
    | DeleteNode
    | ConfirmDeletion
    | RestoreMissed
    | Disappeared
)
ForCluster = ConfirmDeletion | RestoreMissed | Disappeared
"""The effects about the API server, which `ClusterClient` carries out."""


def step(record: NodeRecord, event: NodeEvent, seen: Seen) -> tuple[NodeRecord, list[NodeEffect]]:
    """Return the record after an event, and what follows, in order."""
    match event:
        case Connected():
            return _connected(record, event, seen)
        case Superseded(connection):
            known = msgspec.structs.replace(record, ended="")
            return known, [] if record.ended == connection else [Close(connection)]
        case Disconnected(connection) if record.connection == connection:
            return _released(record), [Release(), Disappeared()]
        case Disconnected(connection):
            return msgspec.structs.replace(record, ended=connection), []
        case Registered():
            return _registered(record, event, seen)
        case Restored():
            return _restored(record, seen)
        case ClaimedElsewhere(holder):
            return _dropped(msgspec.structs.replace(record, elsewhere=holder))
        case Dropped():
            return _dropped(record)
        case RolledBack():
            return record, [BeginConnection(), *([_load(seen)] if record.is_served else [])]
        case NodeAdded() | NodeDeleted() | DeletionConfirmed():
            return record, list(_of_node_object(record, event, seen))


def _of_node_object(
    record: NodeRecord, event: NodeAdded | NodeDeleted | DeletionConfirmed, seen: Seen
) -> Iterator[NodeEffect]:
    match event:
        case NodeAdded(uid) if record.is_served:
            load = _load(seen)
            if load.forgets:
                yield from (load, BeginConnection(), EnsureNode(uid))
            elif not seen.stored.uid:
                yield Store(NodeState(uid, seen.epoch))
            yield SendUnacknowledged()  # it may have registered before its earlier Node was seen to be gone
        case NodeDeleted(uid):
            yield from (EndWatches(), BeginConnection())
            if seen.stored.uid in ("", uid):
                yield Forget()
        case DeletionConfirmed(connection, uid) if record.connection == connection != record.registered:
            if not seen.uid:
                if seen.stored.uid == uid:
                    yield from (EndWatches(), BeginConnection(), Forget())
                yield DeleteNode(uid)


def _connected(record: NodeRecord, event: Connected, seen: Seen) -> tuple[NodeRecord, list[NodeEffect]]:
    """Claim the node, and send it its unacknowledged objects. If another cloudcore of the database has begun the next
    epoch, the connection is ended, and the node connects again while all is listed again.

    The beginning of a connection may be told any number of times, because its transaction failed: once ended, it stays
    so.
    """
    if record.ended == event.connection:
        return _released(record), [Release()]
    is_elsewhere = record.elsewhere.is_newer_than(event.holder, seen.now)
    record = msgspec.structs.replace(record, ended="", elsewhere=Holder())
    if is_elsewhere:
        return msgspec.structs.replace(record, ended=event.connection), [Close(event.connection)]
    claim = Claim(event.connection, event.holder.connected_at)
    if seen.is_epoch_over:
        return _released(record), [claim, Release(), Close(event.connection), RestoreMissed()]
    load = _load(seen)
    effects: list[NodeEffect] = [claim, load, *_confirmation(event.connection, seen), BeginConnection()]
    if record.has_registered_early:
        effects += [Restart(), EnsureNode(seen.uid)]
    claimed = msgspec.structs.replace(
        record,
        connection=event.connection,
        is_served=True,
        has_registered_early=False,
    )
    return claimed, [*effects, SendUnacknowledged()]


def _registered(record: NodeRecord, event: Registered, seen: Seen) -> tuple[NodeRecord, list[NodeEffect]]:
    """Send a node everything that it was not sent over this connection. A process that has no answer in time registers
    again over the same connection.
    """
    is_present = event.connection == record.connection
    is_repeated = is_present and event.connection != "" and record.registered == event.connection
    effects: list[NodeEffect] = [] if is_repeated else [EndWatches()]
    if record.is_served and not is_present:  # the watch may have reported the Node before the connection was claimed
        effects.append(EnsureNode(seen.uid))
    is_early = record.has_registered_early or not record.is_served
    noted = msgspec.structs.replace(record, registered=event.connection, has_registered_early=is_early)
    return noted, [*effects, Restart(), SendUnacknowledged()]


def _restored(record: NodeRecord, seen: Seen) -> tuple[NodeRecord, list[NodeEffect]]:
    if not record.connection:
        return record, []
    if seen.is_epoch_over:
        return _dropped(record)  # it connects again, and then all is listed again
    effects = [_load(seen), *_confirmation(record.connection, seen), SendUnacknowledged()]
    return msgspec.structs.replace(record, is_served=True), effects


def _confirmation(connection: str, seen: Seen) -> list[NodeEffect]:
    """Return the question whether the Node object of the stored state is gone, if none is in the mirror."""
    former = "" if seen.uid else seen.stored.uid
    return [ConfirmDeletion(connection, former)] if former else []


def _dropped(record: NodeRecord) -> tuple[NodeRecord, list[NodeEffect]]:
    if not record.connection:
        return record, []
    released = msgspec.structs.replace(_released(record), ended=record.connection)
    return released, [Release(), Close(record.connection)]


def _released(record: NodeRecord) -> NodeRecord:
    """Return the record of a node without a connection."""
    return NodeRecord(ended=record.ended, elsewhere=record.elsewhere)


def _load(seen: Seen) -> Load:
    """Return how the stored ObjectSyncs are loaded: those of a Node that the mirror lacks are kept, unless the mirror
    has a newer one.
    """
    found, uid = seen.stored, seen.uid
    is_other = found.uid not in ("", uid)
    is_kept = is_other and (not uid or seen.is_behind)
    state = NodeState(found.uid if is_kept else uid, seen.epoch)
    return Load(is_other and not is_kept, found.epoch != seen.epoch, None if found == state else state)
