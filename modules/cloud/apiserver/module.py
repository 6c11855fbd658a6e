"""The module apiserver."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import ClassVar, Final, TypeVar

import msgspec

from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group
from modules.apimachinery.api_errors import Failures
from modules.apimachinery.computed import ManyStepsError, Results, in_few_steps
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.apiserver import api_calls, full_disk
from modules.cloud.apiserver.authorized_calls import AuthorizedCalls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.collection_deletions import CollectionDeletions
from modules.cloud.apiserver.committed_changes import CommittedChanges
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.full_disk import DiskRoom
from modules.cloud.apiserver.loading import LoadedObjects
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.previews import Previews, call_in, steps_of
from modules.cloud.apiserver.reconcilers import PERIOD, ControlPlane, Reconcilers, reconcilers_of
from modules.cloud.apiserver.recorded_writes import NO_WRITER
from modules.cloud.apiserver.system_objects import apply_definitions, make_system_objects
from modules.cloud.apiserver.tokens.claims import AccountClaims, is_void
from modules.cloud.apiserver.tokens.signing_keys import TokenKeys
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.call_requests import failure
from modules.cloud.client.calls import ApiCall, ApiCalls, ApiResult
from modules.cloud.fleet_counts import FleetCounts
from modules.cloud.object_writes import ADMINISTRATOR, ObjectWriter, writer_of
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.listener import poll_for_changes
from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.past_states import COMPACTION_SECONDS
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import WatchQuery, WatchStart

_Result = TypeVar("_Result")
_Refused = TypeVar("_Refused")

_MANIFESTS_PERIOD: Final = 1.0
"""Seconds between two reads of the manifests."""
_MANIFESTS: Final = ObjectWriter(ADMINISTRATOR, "manifests")
_DEFAULTS: Final = ControlPlane()
_DELETE_COLLECTION: Final = "deletecollection"
_IN_GRAPH: Final = (kind_named("Pod"), kind_named("PersistentVolume"), kind_named("Node"))


class ApiServer(Module):
    """The embedded API server: makes API calls and applies manifests, each with what reconcilers write in the same
    transaction (`reconcilers`).

    Calls come from the threads of HTTP servers and from clients in the same process (`ModuleCaller`). Each batch of
    messages is one transaction (`Transactions`). The module's thread waits for the database, and for nothing else.
    Several cloudcores may share the database: each has an API server with all objects.

    Args:
        cluster: the objects, made by the process, so that they outlive a restart of this module.
        database: their durable copy; outlives a restart, too.
        manifests: a watched directory, or None.
        refusals: counts refused requests of nodes.
        failures: counts failures of reconcilers, by name.
        subscriptions: the watches; told each change.
        index: gets the roles and bindings, which authorize users; None: its own.
        fleet: counts nodes, pods and devices; None: nothing does.
        control_plane: what it does beside that.
        is_alone: whether no other cloudcore is known that shares the database.
    """

    name: ClassVar[str] = api_messages.MODULE
    group: ClassVar[str] = api_messages.MODULE

    def __init__(
        self,
        cluster: Cluster,
        database: Database,
        manifests: ManifestDirectory | None,
        refusals: Refusals,
        subscriptions: Subscriptions,
        *,
        failures: Counter[str] | None = None,
        index: RbacIndex | None = None,
        fleet: FleetCounts | None = None,
        control_plane: ControlPlane = _DEFAULTS,
        is_alone: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        index = RbacIndex() if index is None else index
        self._cluster = cluster
        self._database = database
        self._manifests = manifests
        self._subscriptions = subscriptions
        self._control_plane = control_plane
        self._is_alone = is_alone
        self._reconcilers = Reconcilers(partial(reconcilers_of, cluster, control_plane), failures)
        self._graph = NodeGraph(cluster.storage, self.clock)
        completeness = Completeness(database, manifests, cluster.storage)
        self._calls = AuthorizedCalls(cluster, self._graph, index, refusals, completeness, self.clock)
        self._disk = DiskRoom(database, self.clock)
        self._changes = CommittedChanges(self, database, subscriptions, index, fleet)
        self._loaded = LoadedObjects(self.announce_progress, self.clock)
        self._transactions = Transactions(cluster.storage, database, self, self._undo, self._loaded)
        self._is_prepared = False
        """Whether the objects that it makes itself are in the database."""
        self._failures = Failures()
        self._previews = Previews(self, cluster, self._call_with, self._calls.may)
        self._deletions = CollectionDeletions(self, cluster, self._delete_part)

    def on_start(self) -> None:
        """Load the objects, and apply definitions and manifests. That takes as long as there are many."""
        self._transact(self._load)
        poll_for_changes(self, self._database, self._poll_database, self._is_alone)
        self.every(PERIOD, self._reconcile_overdue)
        self._database.room.fill()
        self.every(full_disk.FULL_SECONDS, self._use_new_room)
        self.every(COMPACTION_SECONDS, self._cluster.storage.compact)
        if self._manifests is not None:
            self.every(_MANIFESTS_PERIOD, partial(self._transact, self._sync_manifests))
        self._changes.writes.is_started = True

    def on_end(self) -> None:
        """Leave the database as it was after the last transaction; a restarted module loads it. Watches end, and their
        clients begin others.
        """
        self._transactions.abandon()
        self._subscriptions.end_all()

    def on_batch_end(self) -> None:
        """Commit the changes of the batch, and send the replies."""
        self._commit()

    @handles(None, Verb.CALL, source=api_messages.SOURCE)
    def on_call(self, message: Message) -> None:
        """Make an API call: of an administrator without authorization, of a node with it. A large one is made later."""
        if not self._is_awaited(message):
            return
        call = message.content
        is_collection = isinstance(call, ApiCall) and call.verb == _DELETE_COLLECTION
        if not is_collection or not self._deletions.accept(message, call):
            self._previews.attempt(message, self._call)

    @handles(None, Verb.CALLS, source=api_messages.SOURCE)
    def on_calls(self, message: Message) -> None:
        """Make calls of a module in the process, and reply after the commit."""
        if not self._is_awaited(message):
            return
        calls = message.content_as(ApiCalls).calls
        results = [self._at_once(message, call, number) for number, call in enumerate(calls)]

        def reply_without_room() -> None:
            made = zip(calls, results, strict=True)
            self.reply(message, [result and self._without_room(message, call) for call, result in made])

        self._transactions.after_commit(partial(self.reply, message, results), reply_without_room)

    def _is_awaited(self, message: Message) -> bool:
        """Return whether a call is still waited for. Its requester may have given up while the database was away, and
        somebody may have changed the object since: a late call would undo that.
        """
        return message.id in self.hive.pending_requests

    def _at_once(self, message: Message, call: ApiCall, number: int) -> ApiResult | None:
        """Make one of several calls, and return its result; None if it takes long, and nothing is done."""
        if call.verb == _DELETE_COLLECTION or self._previews.is_needed(call):
            return None
        if call.verb == "create":
            call = msgspec.structs.replace(call, message_id=f"{message.header.msg_id} {number}")
        try:
            return in_few_steps(steps_of(call), self._attempt, message, partial(self._serve, call), _refused)
        except api_calls.DryRunError as end:
            return end.result
        except ManyStepsError:
            return None

    def _call_with(self, message: Message, results: Results | None) -> None:
        """Make a large call, whose results are computed, and commit it. Messages of the batch are committed with it.

        Args:
            message: the call.
            results: what is computed; None: its object changes all the time, and it is refused if it takes many steps.
        """
        self._transactions.begin()
        if results is None:
            self._previews.attempt(message, self._call, self._refuse_changed)
        else:
            with results.used():
                self._call(message)
        self._commit()

    def _refuse_changed(self, message: Message) -> None:
        why = "others have changed the object again and again while the request was computed: send it again"
        self.reply(message, failure(HTTPStatus.CONFLICT, why))

    def _delete_part(self, message: Message, part: Sequence[JsonObject], then: Callable[[ApiResult], None]) -> None:
        """Delete objects of a collection, and commit that. Messages of the batch are committed with it."""
        self._transactions.begin()
        self._call(message, part, then)
        self._commit()

    def _call(
        self,
        message: Message,
        part: Sequence[JsonObject] | None = None,
        then: Callable[[ApiResult], None] | None = None,
    ) -> None:
        """Make a call, and reply after the commit.

        Args:
            message: the call.
            part: the objects of its collection that are deleted; None: all.
            then: called with the result instead of a reply.
        """
        done = then or partial(self.reply, message)
        try:
            result = self._attempt(message, lambda: self._serve(call_in(message), part), _refused)
        except api_calls.DryRunError as end:
            result = end.result

        def end_without_room() -> None:
            done(self._without_room(message, message.content_as(ApiCall)))

        self._transactions.after_commit(partial(done, result), end_without_room)

    def _serve(self, call: ApiCall, part: Sequence[JsonObject] | None = None) -> ApiResult:
        if self._disk.is_full and not full_disk.is_vital(call):
            raise full_disk.refusal()
        self._changes.writes.writer = writer_of(call)
        try:
            result = self._calls.serve(call, part)
            self._transactions.collect_changes()
        finally:
            self._changes.writes.writer = NO_WRITER
        return result

    @handles(None, Verb.TOKEN_KEYS, source=api_messages.SOURCE)
    def on_token_keys(self, message: Message) -> None:
        """Reply with the public keys of service accounts' tokens."""
        keys = self._attempt(message, self._cluster.tokens.public_keys, lambda _: dict[str, bytes]())
        self._answer(message, lambda: TokenKeys(keys))

    @handles(None, Verb.TOKEN_OBJECTS, source=api_messages.SOURCE)
    def on_token_objects(self, message: Message) -> None:
        """Reply whether a token is void, as an object that it is bound to no longer exists."""

        def find() -> bool:
            return is_void(message.content_as(AccountClaims), self._cluster.storage, self.clock.now())

        has_lost = self._attempt(message, find, lambda _: True)
        self._answer(message, lambda: has_lost)

    def _answer(self, message: Message, content: Callable[[], object]) -> None:
        """Reply after the commit, or after its failure, when the answer is made in the same way."""

        def reply() -> None:
            self.reply(message, content())

        self._transactions.after_commit(reply, reply)

    def _without_room(self, message: Message, call: ApiCall) -> ApiResult:
        """Return the response to a call whose transaction was undone: a read is made again, a write is refused."""
        if call.verb not in full_disk.READS:
            return ApiResult(refusal=full_disk.refusal().status())
        try:
            return self._calls.serve(call)
        except Exception as failure:  # noqa: BLE001 - as in `_attempt`
            return ApiResult(refusal=self._failures.refusal_of(message, failure).status())

    @handles(None, Verb.WATCH, source=api_messages.SOURCE)
    def on_watch(self, message: Message) -> None:
        """Reply with the beginning of a watch, whose client gets all later changes."""
        read = partial(message.content_as, WatchQuery)
        query = self._attempt(message, read, lambda why: WatchStart(refusal=why))
        self._answer(message, lambda: query if isinstance(query, WatchStart) else self._changes.start_watch(query))

    def _attempt(
        self, message: Message, work: Callable[[], _Result], refused: Callable[[JsonObject], _Refused]
    ) -> _Result | _Refused:
        """Return the result of the work of one message. When it fails, nothing of it remains, and `refused` makes the
        result of the Status.

        Raises:
            DatabaseError: the transaction is lost. The supervisor restarts the module, and the message is tried again.
            DryRunError: the work was a dry run; nothing of it remains.
            ManyStepsError: the work takes many steps; nothing of it remains.
        """
        try:
            return self._transactions.attempt(work)
        except (DatabaseError, api_calls.DryRunError, ManyStepsError):
            raise
        except Exception as error:  # noqa: BLE001 - one sender's message must not stop the module for all
            return refused(self._failures.refusal_of(message, error).status())

    def _load(self) -> None:
        """Take over the objects that the transaction has loaded, and apply definitions and manifests."""
        loaded = self._loaded
        loaded.complete()
        if loaded.left_out:
            self._database.remove_rows(loaded.left_out, self._cluster.storage.next_version())
        for kind in _IN_GRAPH:
            self._graph.add_objects(self._cluster.storage.list(kind))
            self.announce_progress()
        self._reconcilers.load()
        self.announce_progress()
        self._changes.load(self._cluster.storage, {key.kind for key in loaded.left_out})
        self._prepare()
        if self._manifests is not None:
            self._manifests.reset()
            self._sync_manifests()

    def _prepare(self) -> None:
        """Make what the database has from its start: system objects, addresses of Services, and definitions."""
        if self._database.is_new:  # a client of a lost database must not watch on from its version, now or later
            self._database.forget_changes("", self._cluster.storage.first_version)
        self._transactions.attempt(partial(make_system_objects, self._cluster, self._control_plane.namespaces))
        self._transactions.attempt(self._cluster.address_services)
        apply_definitions(self._cluster, self._control_plane.definitions, self._transactions.attempt)
        self._transactions.after_commit(self._set_prepared)

    def _set_prepared(self) -> None:
        self._is_prepared = True

    def _use_new_room(self) -> None:
        """Make the reserve of a disk that was full, and what there was no room for at the start."""
        self._disk.make_reserve()
        if not (self._is_prepared or self._disk.is_full):
            self._changes.writes.is_started = False
            self._transact(self._prepare)
            self._changes.writes.is_started = True

    def _sync_manifests(self) -> None:
        if self._manifests is not None:
            self._transactions.collect_changes()
            self._changes.writes.writer = _MANIFESTS
            try:
                self._manifests.sync()
                self._transactions.collect_changes()
            finally:
                self._changes.writes.writer = NO_WRITER

    def _transact(self, work: Callable[[], None]) -> None:
        """Do work in a transaction of its own, or in the transaction that has begun."""
        is_part = self._database.in_transaction
        self._transactions.begin()
        work()
        if not is_part:
            self._commit()

    def _poll_database(self) -> None:
        """Take over the changes of other cloudcores, and have edgecontroller do so."""
        if self.hive.members(Group.EDGECONTROLLER):
            self.broadcast(Group.EDGECONTROLLER, self.message(api_messages.RESOURCE, Verb.CHANGED_ELSEWHERE))
        if self._transactions.adopt():
            self._reconcile()
            self._commit()
        else:
            self._transact(_nothing)

    def _reconcile(self) -> None:
        """Have the reconcilers write what follows from the changes; without a transaction they begin one for it."""
        if not self._disk.is_full and self._reconcilers.run(self._transactions.attempt):
            self.call_soon(self._run_turn)

    def _commit(self) -> None:
        """Commit the transaction, with what the reconcilers write. Watches get the changes."""
        if self._database.in_transaction:
            self._reconcile()
            self._changes.forget()
        self._transactions.commit()
        self._changes.publish()

    def _undo(self, changes: list[ObjectEvent], version: int) -> None:
        """Take back the changes of a transaction without room; what the API server itself has to do
        is done later.
        """
        self._cluster.storage.undo(changes, version)
        self.changes_rolled_back(changes, set())
        self._disk.record_full()
        self._reconcilers.reset()
        if self._manifests is not None:
            self._manifests.reset()

    def _run_turn(self) -> None:
        """Continue the reconcilers' remaining work, in a transaction after the messages that waited."""
        self._reconcilers.begin_turn()
        self._transact(_nothing)

    def _reconcile_overdue(self) -> None:
        """Carry out work that is due without a change: marking nodes that have fallen silent, for instance."""
        self._reconcilers.run_overdue(lambda work: self._transact(partial(self._transactions.attempt, work)))

    def object_changed(self, event: ObjectEvent) -> None:
        """Take note of a change, by this API server or another cloudcore's (`HandlesChanges`)."""
        if not self._changes.is_loaded:  # the graph gets all objects after that
            self.announce_progress()
            return
        self._graph.handle_event(event)
        self._reconcilers.handle_event(event, is_own=not self._transactions.is_adopting)
        self._changes.handle_event(event, self._transactions)

    def nodes_claimed(self, claims: object) -> None:
        """Do nothing: claims of nodes are no objects (`HandlesChanges`)."""

    def changes_rolled_back(self, events: list[ObjectEvent], _nodes: set[str]) -> None:
        """Take changes back (`HandlesChanges`)."""
        for event in events:
            self._graph.roll_back(event)
            self._reconcilers.roll_back(event)


def _refused(status: JsonObject) -> ApiResult:
    return ApiResult(refusal=status)


def _nothing() -> None:
    """Begin a transaction, which takes over the changes of other cloudcores."""
