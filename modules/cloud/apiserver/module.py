"""The module apiserver."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, Final

from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from modules.apimachinery.api_errors import ApiError, Failures
from modules.apimachinery.computed import ManyStepsError, Results
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.apiserver import api_calls, full_disk, volume_binder
from modules.cloud.apiserver.built_in_controllers import (
    CLUSTER_ROLE,
    aggregate_roles,
    keep_root_certificates,
    make_default_accounts,
    may_lack_account,
    may_lack_certificate,
    orphaned_pods,
    remove_orphans,
)
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.collection_deletions import CollectionDeletions
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.fencing import check_fence
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.apiserver.kubernetes_service import KubernetesService, keep_kubernetes_service, may_lack_service
from modules.cloud.apiserver.loading import LoadedObjects
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.node_lifecycle import MONITOR_PERIOD
from modules.cloud.apiserver.previews import Previews, call_in
from modules.cloud.apiserver.scheduler import makes_room
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.apiserver.tokens.claims import BoundObjects, has_lost_object
from modules.cloud.apiserver.tokens.signing_keys import TokenKeys
from modules.cloud.apiserver.write_notes import WriteNotes
from modules.cloud.authentication.users import Authenticated, User
from modules.cloud.authorization import access_reviews
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.attributes import of_call
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_authorizer import authorize
from modules.cloud.authorization.rbac.escalation import admission
from modules.cloud.authorization.rbac.index import KINDS, RbacIndex
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.client.call_requests import failure
from modules.cloud.client.calls import APPLY, ApiCall, ApiResult
from modules.cloud.object_writes import ADMINISTRATOR, JOURNAL, WRITES_RESOURCE, WRITTEN, ObjectWriter, writer_of
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.listener import poll_for_changes
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import ObjectChanged, ObjectChanges, WatchHistory, WatchQuery, WatchStart

_log = logging.getLogger(__name__)

FULL_SECONDS: Final = 5.0
"""Seconds after which it is looked whether a full disk has room again."""
_MANIFESTS_PERIOD: Final = 1.0
"""Seconds between two reads of the manifests."""
_ROUNDS: Final = 4
"""Parts of what follows from a deletion that are done in one transaction: dependents of dependents, for instance."""
_NODE: Final = "Node"
_MANIFESTS: Final = ObjectWriter(ADMINISTRATOR, "manifests")
_IN_GRAPH: Final = (kind_named("Pod"), kind_named("PersistentVolume"), kind_named(_NODE))


class ApiServer(Module):
    """The embedded API server: makes API calls, applies manifests, and gives pods their nodes and namespaces their
    service account.

    Calls come from the threads of HTTP servers and from clients in the same process (`ModuleCaller`). Each batch of
    messages is one transaction (`Transactions`). The module's thread waits for the database, and for nothing else.
    Several cloudcores may share the database: each has an API server with all objects.

    Args:
        cluster: the objects, made by the process, so that they outlive a restart of this module.
        database: their durable copy; outlives a restart, too.
        manifests: a watched directory, or None.
        definitions: CustomResourceDefinitions that are applied at the start.
        refusals: counts refused requests of nodes.
        subscriptions: of clients in the same process; told each change.
        namespaces: made at the start, beside the namespaces that every cluster has.
        index: gets the roles and bindings, which authorize users; None: its own.
        authority: the API server's certificate authority, PEM, which each namespace has as a ConfigMap; "" without one.
        collects: whether it empties namespaces that are deleted, and deletes the dependents of deleted owners;
            otherwise that is left to Kubernetes' own controllers.
        service: where pods reach the API server, by the Service `kubernetes`; None: nowhere.
    """

    name: ClassVar[str] = api_messages.MODULE
    group: ClassVar[str] = api_messages.MODULE

    def __init__(
        self,
        cluster: Cluster,
        database: Database,
        manifests: ManifestDirectory | None,
        definitions: Sequence[JsonObject],
        refusals: Refusals,
        subscriptions: Subscriptions,
        *,
        namespaces: Sequence[str] = (),
        index: RbacIndex | None = None,
        authority: str = "",
        collects: bool = True,
        service: KubernetesService | None = None,
    ) -> None:
        super().__init__()
        self._service = service
        self._may_lack_service = False
        self._authority = authority
        self._may_lack_certificates = bool(authority)
        """Whether a namespace may lack the ConfigMap with it."""
        self._namespaces = namespaces
        self._index = index or RbacIndex()
        self._may_aggregate = False
        """Whether the rules of aggregated ClusterRoles may have changed."""
        self._cluster = cluster
        self._collector = GarbageCollector(cluster) if collects else None
        self._database = database
        self._manifests = manifests
        self._definitions = definitions
        self._subscriptions = subscriptions
        self._completeness = Completeness(database, manifests)
        self._graph = NodeGraph(cluster.storage, self.clock)
        self._access_control = AccessControl(self._graph, refusals)
        self._loaded = LoadedObjects(self.announce_progress, self.clock)
        self._transactions = Transactions(cluster.storage, database, self, self._undo, self._loaded)
        self._full_until = -FULL_SECONDS
        """Monotonic seconds until which writes are refused because a commit has found no room."""
        self._history: WatchHistory | None = None
        """None until the objects are loaded."""
        self._noted: list[ObjectChanged] = []
        """Committed changes that watches have not been told yet."""
        self._writes = WriteNotes()
        self._may_place = True
        """Whether something has changed since the last attempt that may let a waiting pod onto a node."""
        self._places_soon = False
        """Whether other waiting pods are looked at after the messages that wait."""
        self._changed_nodes: set[str] = set()
        """Nodes that have changed since their taints were looked at."""
        self._may_lack_accounts = True
        """Whether a namespace may lack its service account."""
        self._may_change_phases = True
        """Whether a claim or a volume may have another phase now."""
        self._failures = Failures()
        self._previews = Previews(self, cluster, self._call_with, self._may_call)
        self._deletions = CollectionDeletions(self, cluster, self._delete_part)

    def on_start(self) -> None:
        """Load the objects, and applies definitions and manifests. That takes as long as there are many."""
        self._transact(self._load)
        poll_for_changes(self, self._database, lambda: self._transact(_nothing))
        self.every(MONITOR_PERIOD, self._monitor_nodes)
        self._database.room.fill()
        self.every(FULL_SECONDS, self._make_room)
        if self._collector is not None:
            self.every(MONITOR_PERIOD, self._look_at_namespaces)
        if self._manifests is not None:
            self.every(_MANIFESTS_PERIOD, partial(self._transact, self._sync_manifests))
        self._writes.is_started = True

    def on_stop(self) -> None:
        """Leave the database as it was after the last transaction; watches end, and their clients begin others."""
        self._transactions.abandon()
        self._subscriptions.end_all()
        for message in (*self._previews.end(), *self._deletions.end()):
            self.reply(message, failure(HTTPStatus.SERVICE_UNAVAILABLE, "the API server has stopped"))

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Leave the database as it was after the last transaction; the restarted module loads it."""
        self.on_stop()
        super().on_failure(exception_type, exception_value, traceback)

    def on_batch_end(self) -> None:
        """Commit the changes of the batch, and send the replies."""
        self._commit()

    @handles(None, Verb.CALL, source=api_messages.SOURCE)
    def on_call(self, message: Message) -> None:
        """Make an API call: of an administrator without authorization, of a node with it. A large one is made later."""
        if not self._previews.take(message) and not self._deletions.take(message):
            self._previews.attempt(message, self._call)

    def _may_call(self, call: ApiCall) -> bool:
        """Return whether the node authorizer allows a call; calls of others are authorized before they come here."""
        return not call.node or authorize(of_call(call.node, call), self._graph).allowed

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

        def answer(result: ApiResult) -> None:
            self._transactions.after_commit(lambda: done(result), lambda: done(self._without_room(message)))

        def serve() -> None:
            call = call_in(message)
            with self._writes.by(writer_of(call)):
                answer(self._serve(call, part))
                self._transactions.note_changes()

        try:
            self._handle(message, serve, lambda refusal: answer(ApiResult(refusal=refusal)))
        except api_calls.DryRunError as end:
            answer(end.result)

    @handles(None, Verb.TOKEN_KEYS, source=api_messages.SOURCE)
    def on_token_keys(self, message: Message) -> None:
        """Reply with the public keys of service accounts' tokens."""

        def answer(keys: dict[str, bytes]) -> None:
            self._answer(message, TokenKeys(keys))

        self._handle(message, lambda: answer(self._cluster.tokens.public_keys()), lambda _: answer({}))

    @handles(None, Verb.TOKEN_OBJECTS, source=api_messages.SOURCE)
    def on_token_objects(self, message: Message) -> None:
        """Reply whether an object that a token is bound to no longer exists."""

        def look() -> None:
            bound = message.content_as(BoundObjects)
            self._answer(message, has_lost_object(bound, self._cluster.storage, self.clock.now()))

        self._handle(message, look, lambda _: self._answer(message, content=True))

    def _answer(self, message: Message, content: object) -> None:
        """Reply after the commit, or after its failure, when the answer is the same."""

        def reply() -> None:
            self.reply(message, content)

        self._transactions.after_commit(reply, reply)

    def _authenticate(self, token: str, audiences: tuple[str, ...]) -> Authenticated | None:
        return self._cluster.tokens.authenticate(token, audiences, self._cluster.storage, self.clock.now())

    def _without_room(self, message: Message) -> ApiResult:
        """Return the response to a call whose transaction was undone: a read is made again, a write is refused."""
        call = message.content_as(ApiCall)
        if call.verb not in full_disk.READS:
            return ApiResult(refusal=full_disk.refusal().status())
        try:
            return self._serve(call)
        except Exception as failure:  # noqa: BLE001 - as in `_handle`
            return ApiResult(refusal=self._failures.refusal_of(message, failure).status())

    @handles(None, Verb.WATCH, source=api_messages.SOURCE)
    def on_watch(self, message: Message) -> None:
        """Reply with the beginning of a watch, whose client gets all later changes."""

        def answer(start: Callable[[], WatchStart]) -> None:
            self._transactions.after_commit(lambda: self.reply(message, start()), lambda: self.reply(message, start()))

        def begin() -> None:
            query, history = message.content_as(WatchQuery), self._history
            if history is not None:
                answer(lambda: history.start(query))

        self._handle(message, begin, lambda refusal: answer(lambda: WatchStart(refusal=refusal)))

    def _serve(self, call: ApiCall, part: Sequence[JsonObject] | None = None) -> ApiResult:
        """Make a call.

        Args:
            call: the call.
            part: the objects of its collection that are deleted; None: all.

        Raises:
            ForbiddenError: the node may not make it.
            NoRoomError: the disk is full, and it is a write that can wait.
            ConflictError: another cloudcore runs the controllers.
            DryRunError: a dry run has succeeded; the caller rolls back its changes.
        """
        if self._is_full and not full_disk.is_vital(call):
            raise full_disk.refusal()
        if call.fence:
            check_fence(self._cluster, call.fence)
        if call.user and not call.node:
            user = User(call.user, groups=call.groups)
            of_user = self._cluster.with_admission(admission(user, self._index, _creation(call)))
            with of_user, self._cluster.within_quotas():
                return api_calls.serve(self._cluster, call, part=part)
        if not call.node:
            with self._cluster.within_quotas():
                return api_calls.serve(self._cluster, call, part=part)
        if access_reviews.is_review(call):
            return access_reviews.answer(call, self._graph, self._index, self._authenticate)
        self._access_control.authorize(of_call(call.node, call))
        with self._cluster.with_admission(self._access_control.admission(call.node)):
            return api_calls.serve(self._cluster, call, knows_all=self._completeness.knows_all)

    def _handle(self, message: Message, work: Callable[[], None], refuse: Callable[[JsonObject], None]) -> None:
        """Do the work of one message. When it fails, nothing of it remains, and `refuse` answers the sender.

        Raises:
            DatabaseError: the transaction is lost. The supervisor restarts the module, and the message is tried again.
            DryRunError: the work was a dry run; nothing of it remains.
            ManyStepsError: the work takes many steps; nothing of it remains.
        """
        try:
            self._transactions.attempt(work)
        except (DatabaseError, api_calls.DryRunError, ManyStepsError):
            raise
        except Exception as error:  # noqa: BLE001 - one sender's message must not stop the module for all
            refuse(self._failures.refusal_of(message, error).status())

    def _load(self) -> None:
        """Take over the objects that the transaction has loaded, and apply definitions and manifests."""
        loaded = self._loaded
        loaded.complete()
        if loaded.left_out:
            self._database.remove_rows(loaded.left_out, self._cluster.storage.next_version())
        for kind in _IN_GRAPH:
            self._graph.add_objects(self._cluster.storage.list(kind))
            self.announce_progress()
        self._index.load(each for name in KINDS for each in self._cluster.storage.list(kind_named(name)))
        self._load_owners()
        self._cluster.quotas.load()
        stored = self._database.watch_history()
        stored.began.update({key.kind: self._cluster.storage.version for key in loaded.left_out})
        self._history = WatchHistory(self._cluster.storage, stored)
        self._transactions.attempt(partial(make_system_objects, self._cluster, self._namespaces))
        self._transactions.attempt(self._cluster.address_services)
        self._keep_service(repairs=True)
        for definition in self._definitions:
            self._define(definition)
        if self._manifests is not None:
            self._manifests.reset()
            self._sync_manifests()

    def _sync_manifests(self) -> None:
        if self._manifests is not None:
            self._transactions.note_changes()
            with self._writes.by(_MANIFESTS):
                self._manifests.sync()
                self._transactions.note_changes()

    def _load_owners(self) -> None:
        """Give the garbage collector all objects: something may have been left to do at the last stop."""
        if self._collector is not None:
            for key in self._cluster.storage:
                self._collector.add(key, self._cluster.storage.get(key))
            self.announce_progress()

    def _define(self, definition: JsonObject) -> None:
        def apply() -> None:
            self._cluster.apply(definition)

        try:
            self._transactions.attempt(apply)
        except ApiError as error:  # a person has changed the definition in the meantime
            _log.warning("%s cannot be applied: %s", definition["metadata"]["name"], error)

    def _transact(self, work: Callable[[], None]) -> None:
        """Do work in a transaction of its own, or in the transaction that has begun."""
        is_part = self._database.in_transaction
        self._transactions.begin()
        work()
        if not is_part:
            self._commit()

    def _commit(self) -> None:
        """Commit the transaction, with service accounts of namespaces, places for waiting pods, and the next part of
        what follows from deletions. Watches get the changes.
        """
        if self._database.in_transaction:
            self._transactions.note_changes()
            if not self._is_full:
                self._make_accounts()
                self._aggregate_roles()
                self._note_phases()
                self._taint_nodes()
                self._place()
                self._collect()
                if self._cluster.quotas.has_changed:
                    self._transactions.attempt(self._cluster.keep_quotas)
            self._forget_changes()
        self._transactions.commit()
        noted, self._noted = tuple(self._noted), []
        for changed in noted:
            self._subscriptions.publish(changed)
        if noted and self.hive.members(api_messages.SOURCE):
            self.broadcast(api_messages.SOURCE, self.message(api_messages.RESOURCE, Verb.CHANGED, ObjectChanges(noted)))
        writes = self._writes.take()
        if writes and self.hive.members(JOURNAL):
            self.broadcast(JOURNAL, self.message(WRITES_RESOURCE, WRITTEN, writes))

    @property
    def _is_full(self) -> bool:
        """Whether writes that can wait are refused, because there was no room for one."""
        return self._database.room.is_short or self.clock.monotonic() < self._full_until

    def _make_room(self) -> None:
        """Make the reserve of a disk that was full, if there is room again."""
        if self._database.room.fill():
            _log.warning("%s: there is room on the disk again", self._database.where)

    def _undo(self, changes: list[ObjectEvent], version: int) -> None:
        """Take back the changes of a transaction without room; what the API server itself has to do
        is done later.
        """
        self._cluster.storage.undo(changes, version)
        self.changes_rolled_back(changes, set())
        self._full_until = self.clock.monotonic() + FULL_SECONDS
        self._may_place = self._may_lack_accounts = self._may_lack_certificates = self._may_lack_service = True
        self._may_change_phases = True
        if self._manifests is not None:
            self._manifests.reset()

    def _forget_changes(self) -> None:
        """Delete stored changes that no watch can begin with now."""
        if self._history is not None:
            for kind, until in self._history.take_forgotten().items():
                self._database.forget_changes(kind, until)

    def _monitor_nodes(self) -> None:
        """Mark nodes that have fallen silent, and remove deleted pods of nodes that do not exist. All cloudcores of a
        database do this, and the first one does it.
        """
        lifecycle = self._cluster.node_lifecycle
        if lifecycle.has_silent():
            self._transact(lambda: self._transactions.attempt(lifecycle.mark_silent))
        if orphaned_pods(self._cluster.storage):
            self._transact(lambda: self._transactions.attempt(partial(remove_orphans, self._cluster)))

    def _taint_nodes(self) -> None:
        """Give nodes that report a pressure its taint, before pods are placed. Like `_place`, for own changes only."""
        changed, self._changed_nodes = self._changed_nodes, set()
        if changed:
            self._transactions.attempt(partial(self._cluster.node_lifecycle.taint, changed))

    def _place(self) -> None:
        """Place pods that wait for a node, after a change that may have made room for them; the rest comes after other
        messages, and a change in the meantime begins another round. After its own changes, another cloudcore does this
        itself.
        """
        if self._may_place and not self._places_soon:
            self._may_place = False
            self._cluster.scheduler.begin_round()
            self._place_part()

    def _place_part(self) -> None:
        """Place some of the pods of a round, and have the others placed after the messages that wait."""
        scheduler = self._cluster.scheduler
        if scheduler.has_round:
            self._transactions.attempt(scheduler.place_waiting_pods)
        if scheduler.has_round or self._may_place:
            self._places_soon = True
            self.call_soon(self._place_more)

    def _place_more(self) -> None:
        self._places_soon = False
        has_round = self._cluster.scheduler.has_round
        self._may_place = self._may_place or (has_round and self._is_full)
        self._transact(self._place_part if has_round and not self._is_full else _nothing)

    def _collect(self) -> None:
        """Do a part of what follows from deletions; the rest comes after other messages. Unlike `_place`, it acts on
        changes of other cloudcores, too: one of them may have ended before it was done.
        """
        if self._collector is None or not self._collector.has_work:
            return
        for _ in range(_ROUNDS):
            if self._collector.has_work:
                self._attempt_to_collect(self._collector)
        if self._collector.has_work:
            self.call_soon(lambda: self._transact(_nothing))

    def _attempt_to_collect(self, collector: GarbageCollector) -> None:
        try:
            self._transactions.attempt(collector.collect)
        except DatabaseError:
            raise
        except Exception:  # noqa: BLE001 - one bad object must not stop the module for all; its plan is not made again
            _log.exception("something that follows from a deletion cannot be done")

    def _look_at_namespaces(self) -> None:
        """Bring the conditions of namespaces that are being deleted up to date."""
        if self._collector is not None:
            self._collector.look_at_namespaces()
            if self._collector.has_work:
                self._transact(_nothing)

    def _make_accounts(self) -> None:
        """Make the service accounts and the ConfigMaps that namespaces lack, and the Service `kubernetes`. Like
        `_place`, it acts on changes of this cloudcore only.
        """
        if self._may_lack_accounts:
            self._may_lack_accounts = False
            self._transactions.attempt(partial(make_default_accounts, self._cluster))
        if self._may_lack_certificates and self._authority:
            self._may_lack_certificates = False
            keep = partial(keep_root_certificates, self._cluster, self._authority, repairs=self._collector is not None)
            self._transactions.attempt(keep)
        if self._may_lack_service and self._service is not None:
            self._may_lack_service = False
            self._keep_service(repairs=False)

    def _keep_service(self, *, repairs: bool) -> None:
        """Make the Service `kubernetes`, unless another Service has its address."""
        try:
            self._transactions.attempt(partial(keep_kubernetes_service, self._cluster, self._service, repairs=repairs))
        except ApiError as error:
            _log.warning("pods do not reach the API server by the Service kubernetes: %s", error)

    def _aggregate_roles(self) -> None:
        """Give aggregated ClusterRoles the rules of the roles that they select. Like `_place`, for own changes only."""
        if self._may_aggregate and self._collector is not None:
            self._may_aggregate = False
            self._transactions.attempt(partial(aggregate_roles, self._cluster))

    def _note_phases(self) -> None:
        """Note the phases of volumes and claims. Like `_place`, for own changes only."""
        if self._may_change_phases:
            self._may_change_phases = False
            self._transactions.attempt(self._cluster.note_phases_of_volumes)

    def object_changed(self, event: ObjectEvent) -> None:
        """Take note of a change, by this API server or another cloudcore's (`HandlesChanges`)."""
        history = self._history
        if history is None:  # it is loaded; the graph gets all objects after that
            self.announce_progress()
            return
        self._graph.handle_event(event)
        self._cluster.quotas.handle_event(event)
        if self._collector is not None:
            self._collector.note(event)
        if not self._transactions.is_adopting:
            self._may_place = self._may_place or makes_room(event)
            self._may_lack_accounts = self._may_lack_accounts or may_lack_account(event)
            self._may_lack_certificates = self._may_lack_certificates or may_lack_certificate(event)
            self._may_lack_service = self._may_lack_service or may_lack_service(event)
            self._may_aggregate = self._may_aggregate or event.key.kind == CLUSTER_ROLE
            self._may_change_phases = self._may_change_phases or event.key.kind in volume_binder.KINDS
            if event.key.kind == _NODE and event.type is not EventType.DELETED:
                self._changed_nodes.add(event.key.name)

        write = None if self._transactions.is_adopting else self._writes.write_of(event, self.clock.now())

        def note() -> None:
            self._index.handle_event(event)
            self._noted.append(history.note(event))
            if write is not None:
                self._writes.add(write)

        self._transactions.after_commit(note, note if self._transactions.is_adopting else None)

    def nodes_claimed(self, claims: object) -> None:
        """Do nothing: claims of nodes are no objects (`HandlesChanges`)."""

    def changes_rolled_back(self, events: list[ObjectEvent], _nodes: set[str]) -> None:
        """Take changes back (`HandlesChanges`)."""
        for event in events:
            self._graph.roll_back(event)
            self._cluster.quotas.roll_back(event)
            if self._collector is not None:
                self._collector.undo(event)


def _creation(call: ApiCall) -> AccessRequest | None:
    """Return the right that an apply takes where the object does not exist; None for other calls."""
    if call.patch_type != APPLY:
        return None
    group = call.api_version.rpartition("/")[0]
    return AccessRequest(verb="create", group=group, resource=call.plural, namespace=call.namespace, name=call.name)


def _nothing() -> None:
    """Begin a transaction, which takes over the changes of other cloudcores."""
