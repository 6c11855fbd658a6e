"""The module metamanager: stores messages by `metamanager.rules` and replies after the commit."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

import msgspec

from beehive import DeliveryMode, Group, Message, Module, ModuleName, Operation, Resource, ResourceType, Source, handles
from beehive.errors import BeehiveError
from beehive.names import CLOUD_CONNECTED
from metamanager import replies
from metamanager.batch import Batch
from metamanager.cloud_pods import CloudPods
from metamanager.errors import StoreDamagedError, StoreError, StoreWriteError
from metamanager.event_store import EVENTS_KEPT, EventStore
from metamanager.local_query import LocalQuery
from metamanager.remote_query import RemoteQuery, object_in
from metamanager.replies import Outcome, Reply
from metamanager.rows import StoredObject, cause_of, head_of, is_being_deleted, row_of, row_of_message
from metamanager.rules import DESTINATIONS, Change, plan
from metamanager.steps import Steps
from metamanager.store import Store, open_store
from metamanager.store_health import StoreHealth, StoreStatistics
from metamanager.unreferenced import DEPENDENCIES, Unreferenced

_log = logging.getLogger(__name__)

_PROBE: Final = b'{"metadata":{"name":"probe"}}'

_OF_CONTENT: Final = frozenset({Change.PUT, Change.PUT_EVENT, Change.DELETE})
"""Changes that need the content as bytes."""

LOST: Final = "the change could not be written to the database"
"""Text of the error answer after a failed commit (disk full, I/O error)."""

_COMING_BACK: Final = frozenset({ResourceType.DEVICE, ResourceType.DEVICE_MODEL, ResourceType.SERVICE_ACCOUNT_ACCESS})
"""Kinds that the cloud deletes on a node although it still has them, and may send again: a Device gets another node, a
DeviceModel goes with the last of its Devices on the node, a ServiceAccountAccess with the last pod of the account.
"""


class MetaSettings(msgspec.Struct, frozen=True):
    """Settings of metamanager."""

    data_source: str
    """Path of an SQLite file, or a database URL of SQLAlchemy."""

    remote_query_timeout: float = 60.0
    """Seconds that the cloud has for an answer (KubeEdge's remoteQueryTimeout)."""

    report_events: bool = False
    """Whether events go to the cloud (KubeEdge's modules.edged.reportEvent); the store keeps them in any case."""

    node: str = ""
    """Name of this node. If empty, metamanager does not ask the cloud for its list of pods (`metamanager.cloud_pods`).
    """


class MetaManager(Module):
    """The module that stores the objects that the cloud sends, and answers this node's requests for them.

    It follows `metamanager.rules` for each message, and replies when the change is committed (`Batch`). The content of
    an object stays byte for byte as received. A failure of the database does not end the module, for edged continues
    with the objects it has: the sender gets an error, and the module is not ready. Only the start fails, with
    `StoreOpenError`, when the database cannot be opened.

    Args:
        settings: of metamanager.
        open_store: opens the database of the settings; the simulation passes one with failing disks.
        statistics: of the database, for metrics.
    """

    name = ModuleName.METAMANAGER
    group = Group.META
    batch_limit = 64
    has_turn_clock = True

    def __init__(
        self,
        settings: MetaSettings,
        open_store: Callable[[str], Store] = open_store,
        statistics: StoreStatistics | None = None,
    ) -> None:
        super().__init__()
        self._statistics = statistics or StoreStatistics()
        self._settings = settings
        self._open_store = open_store
        self._connected = False
        self._flush_is_due = False
        self._closing = ExitStack()
        self._lose_for_good: Callable[[], None] = lambda: None
        """Rolls the batch back, once there is one."""

    def on_start(self) -> None:
        """Open the database.

        edgehub announces a connection only once. So after a restart the module assumes one, and receives an event when
        it ends.
        """
        self._connected = self.slot.restarts > 0
        try:
            self._open()
        except StoreDamagedError as error:
            _log.error("%s", error)
            self._closing.close()
            self._open()
        self._health = StoreHealth(self, self._statistics, self._write_probe)
        self._batch = Batch(self._store, self, self._health)
        self._closing.callback(self._batch.flush)
        self._lose_for_good = partial(self._batch.lose, for_good=True)
        self._local_query = LocalQuery(self._store, self.clock)
        self._remote_query = RemoteQuery(self, self._settings.remote_query_timeout, self._answered)
        self._steps = Steps(
            self,
            self._local_query,
            self._remote_query,
            self,
            report_events=self._settings.report_events,
        )
        self._unreferenced = Unreferenced(self, self._store, self)
        self._unreferenced.schedule_check()
        self._cloud_pods = CloudPods(
            self,
            self._store,
            self._settings.node,
            self._settings.remote_query_timeout,
            self,
        )
        self._link_changed()

    def _open(self) -> None:
        """Open the database and read its events. Damage shows here; the next open sets a damaged file aside."""
        self._store: Store = self._open_store(self._settings.data_source)
        self._closing.callback(self._store.close)
        self._events = EventStore(self._store, ResourceType.EVENT, EVENTS_KEPT)

    def on_stop(self) -> None:
        """Commit, send the replies, close the database."""
        self._closing.close()

    def on_failure(self, *error: object) -> None:
        """Close as in `on_stop`. The bus delivers the batch again, so replies may be sent twice and none is lost.

        Commit nothing more to a damaged database; the next start sets it aside.
        """
        try:
            if any(isinstance(each, StoreDamagedError) for each in error):
                self._lose_for_good()
        finally:
            self._closing.close()

    def give_up(self, message: Message) -> None:
        """Answer an operation of a volume, which edged may carry out."""
        self.deliver(replies.refusal(message, "metamanager has failed; whether it was done is not known", self.clock))

    def on_batch_end(self) -> None:
        """Commit the batch."""
        self._batch.flush()

    def _flush_soon(self) -> None:
        """Commit after the messages that wait in the inbox: answers from the cloud belong to no batch, but answers that
        arrive together are committed together.
        """
        if not self._flush_is_due:
            self._flush_is_due = True
            self.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._batch.flush()

    @handles(ResourceType.CONNECTION, Operation.CONNECT, source=Source.EDGEHUB)
    def connection_changed(self, message: Message) -> None:
        """Take edgehub's connection event; a lost connection ends all open queries."""
        try:
            self._connected = message.content_as(str) == CLOUD_CONNECTED
        except BeehiveError as error:
            _log.warning("%s", error)
            return
        if not self._connected:
            self._remote_query.cancel_all()
        self._link_changed()

    def _link_changed(self) -> None:
        self._cloud_pods.connection_changed(connected=self._connected)

    @handles()
    def handle(self, message: Message) -> None:
        """Handle any other message."""
        try:
            outcome = self._carry_out(message)
        except StoreDamagedError:
            raise
        except StoreWriteError as error:
            self._write_failed(error)
            outcome = self._refused(message, error)
        except (BeehiveError, UnicodeError) as error:
            _log.warning("%s %s: %s", message.route.operation, message.route.resource, error)
            outcome = self._refused(message, error)
        self._batch.add(outcome)

    def _carry_out(self, message: Message) -> Outcome:
        route, resource = message.route, message.subject
        planned = plan(
            route.operation, resource.type, route.source, named=bool(resource.name), connected=self._connected
        )
        content = message.content_bytes() if planned.change in _OF_CONTENT else b""
        retry = self._deletion_retry(message, content, planned.change)
        lost = False
        try:
            is_new = self._change(message, content, planned.change)
        except StoreWriteError as error:
            if retry is None and not planned.even_if_lost:
                raise
            self._write_failed(error)
            is_new = lost = True
        sent: list[Reply] = []
        for step in planned.steps:
            to = DESTINATIONS.get(step)
            if to is None:
                sent += self._steps.table[step](message)
            elif (is_new or planned.even_if_old) and (not to.is_optional or self.hive.members(to.name)):
                sent.append(replies.forward(message, to))
        if planned.change is Change.NONE or (lost and retry is None):
            return Outcome(sent)
        unstored = sent.copy if planned.even_if_lost else partial(self._unstored, message, retry)
        return Outcome(sent, changed=True, failure_replies=unstored, retry=retry, lost=lost)

    def _deletion_retry(self, message: Message, content: bytes, change: Change) -> Callable[[], object] | None:
        """Return a function that repeats a deletion, or the update that announces a pod's; None for other changes."""
        ending = change is Change.PUT and message.subject.type == ResourceType.POD and is_being_deleted(content)
        return partial(self._change, message, content, change) if change is Change.DELETE or ending else None

    def _unstored(self, message: Message, retry: Callable[[], object] | None) -> list[Reply]:
        """Return the replies for a change that could not be stored.

        edged ends a deleted pod nevertheless, because that frees room on the disk. The cloud receives an error and
        sends the deletion again.
        """
        pod_ends = retry is not None and message.subject.type == ResourceType.POD
        return [*([replies.unstored(message)] if pod_ends else ()), replies.refusal(message, LOST, self.clock)]

    def _change(self, message: Message, content: bytes, change: Change) -> bool:
        """Change the store; return False for a message with an older state than the stored one.

        The patch of a pod that is not stored is not kept: nothing would ever delete it.
        """
        if change is Change.PUT_ANSWER:
            row = self._local_query.row_of_answer(message)
            return row is not None and self._store.put(row)
        resource = message.subject
        if resource.type in DEPENDENCIES:
            self._unreferenced.schedule_check()
        if change is Change.PUT:
            if resource.type == ResourceType.NODE:
                self._cloud_pods.observe_node(resource, message.route.resource, content)
            if resource.type == ResourceType.PODPATCH and self._store.get(_pod_of(resource)) is None:
                return True
            row = row_of_message(message, content, self.clock.now_ms())
            return not self._local_query.was_deleted(row) and self._store.put(row)
        if change is Change.PUT_EVENT:
            return self._events.put(row_of_message(message, content, self.clock.now_ms()))
        if change is Change.DELETE:
            return self._delete(message, content)
        return True

    def _delete(self, message: Message, content: bytes) -> bool:
        """Delete the object of the message's uid, not a successor of its name; with a pod its patch and tokens."""
        resource, uid = message.subject, head_of(content).uid or ""
        self._remote_query.discard(message.route.resource)
        if uid and resource.type not in _COMING_BACK:
            self._local_query.record_deletion(message.route.resource, uid)
        self._cloud_pods.record_deletion(resource, message.route.resource, uid)
        cause, now = cause_of(message), self.clock.now_ms()
        deleted = self._store.delete(message.route.resource, uid, cause, now)
        if resource.type == ResourceType.POD:
            self._unreferenced.schedule_check()
            if deleted:
                self._store.delete(f"{resource.namespace}/{ResourceType.PODPATCH}/{resource.name}", "", cause, now)
            if uid:
                self._store.delete_owned(ResourceType.SERVICE_ACCOUNT_TOKEN, uid)
        return deleted

    def _answered(self, requests: list[Message], result: Message | str) -> None:
        asked = requests[0]
        if isinstance(result, Message) and asked.subject.type == ResourceType.NODE:
            self._cloud_pods.observe_node(asked.subject, asked.route.resource, object_in(result))
        try:
            outcome = self._local_query.keep_answer(requests, result)
        except (StoreError, UnicodeError) as error:
            outcome = self._local_query.pass_on(requests, result)
            if isinstance(error, StoreDamagedError):
                self._batch.add(outcome)
                raise
            if isinstance(error, StoreWriteError):
                self._write_failed(error)
            else:
                _log.warning("the answer about %s is not kept: %s", asked.route.resource, error)
        self.add_change(outcome)

    def _refused(self, message: Message, error: Exception) -> Outcome:
        return Outcome([replies.refusal(message, str(error), self.clock)])

    def _write_failed(self, error: StoreWriteError) -> None:
        if error.batch_lost:
            self._batch.lose()
        self._health.report(error)

    def _write_probe(self) -> None:
        """Write and commit a row, to find out whether the database takes changes again."""
        try:
            self._store.put(row_of("null/store/probe", _PROBE, self.clock.now_ms()))
        except StoreWriteError as error:
            self._write_failed(error)
        except StoreDamagedError:
            raise
        except StoreError as error:
            self._health.report(error)
        else:
            self._batch.add(Outcome((), changed=True))
        self._batch.flush()

    def add_change(self, outcome: Outcome) -> None:
        """As `StoreChanges`."""
        self._batch.add(outcome)
        self._flush_soon()

    def remove_object(self, stored: StoredObject) -> None:
        """Handle an object that the cloud no longer has as if the cloud had deleted it."""
        identity = {"metadata": {"name": stored.name, "namespace": stored.namespace, "uid": stored.uid}}
        source = ModuleName.EDGECONTROLLER
        deletion = self.message(stored.key, Operation.DELETE, identity, source=source, group=Group.RESOURCE)
        delete, lost = partial(self._delete, deletion, deletion.content_bytes()), False
        try:
            delete()
        except StoreWriteError as error:
            self._write_failed(error)
            lost = True
        except StoreError as error:
            self.change_failed(error)
            return
        self.add_change(Outcome([replies.to_edged(deletion)], changed=True, retry=delete, lost=lost))

    def change_failed(self, error: StoreError) -> None:
        """Handle the failure of a periodic check, which is repeated later."""
        if isinstance(error, StoreDamagedError):
            raise error
        if isinstance(error, StoreWriteError):
            self._write_failed(error)
        else:
            _log.warning("the store cannot be searched now, trying again later: %s", error)

    def deliver(self, reply: Reply) -> None:
        """Send a reply. The receiver of a forwarded request answers the request's sender itself."""
        if reply.message.header.sync and reply.mode is not DeliveryMode.RESPONSE:
            self.delegate(reply.message, reply.destination)
        if reply.mode is DeliveryMode.SEND:
            self.send(reply.destination, reply.message)
        elif reply.mode is DeliveryMode.BROADCAST:
            self.broadcast(reply.destination, reply.message)
        else:
            self.respond(reply.message)


def _pod_of(patch: Resource) -> str:
    return f"{patch.namespace}/{ResourceType.POD}/{patch.name}"
