"""The module: takes messages, follows `metamanager.rules`, tells others when the store has it for good.

An object's content stays the bytes that came. Questions are `metamanager.lookup`'s, group commit is
`metamanager.batch`'s. A failure of the database is answered with an error and shown as the module not being ready;
it never ends the module, for edged goes on with what it has.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

import msgspec

from beehive import Group, Message, Module, ModuleName, Operation, Resource, ResourceType, Source, Timer, Way, handles
from beehive.errors import BeehiveError
from beehive.names import CLOUD_CONNECTED, DISK_RESOURCE
from metamanager import effects
from metamanager.absent_pods import StoredPod
from metamanager.answers import CONNECTION_LOST, NOT_CONNECTED
from metamanager.batch import Batch, Outcome
from metamanager.cloud_pods import CloudPods
from metamanager.effects import Effect
from metamanager.errors import StoreDamagedError, StoreError, StoreWriteError
from metamanager.figures import StoreFigures
from metamanager.lookup import Lookup
from metamanager.needs import DEPENDENCIES, Unneeded
from metamanager.remote import Remote, object_in
from metamanager.rows import cause_of, head_of, is_being_deleted, parse, row_of, row_of_message
from metamanager.rules import HANDED_ON, Change, Step, plan
from metamanager.shelf import EVENTS_KEPT, Shelf
from metamanager.store import Store, open_store

_log = logging.getLogger(__name__)

VOLUME_SECONDS: Final = 60.0
"""How long edged has for a volume operation (KubeEdge)."""


PROBE_AFTER: Final = 10.0
"""Seconds after which a database that took no change is tried again."""

_PROBE: Final = b'{"metadata":{"name":"probe"}}'

LOST: Final = "the change could not be written to the database"
"""Text of the error answer when the commit failed (disk full, I/O error)."""


class MetaSettings(msgspec.Struct, frozen=True):
    """What the module must be told."""

    data_source: str
    """Path of an SQLite file, or a database URL as SQLAlchemy takes it."""

    remote_query_timeout: float = 60.0
    """Seconds that the cloud has for an answer (KubeEdge's remoteQueryTimeout)."""

    report_events: bool = False
    """Whether the cloud is told of events (KubeEdge's modules.edged.reportEvent); they are kept in any case."""

    node: str = ""
    """Name of this node. Empty: the cloud is not asked for the list of its pods (`metamanager.cloud_pods`)."""


class MetaManager(Module):
    """See the module's docstring. Its start fails with `StoreOpenError` when the database cannot be opened.

    Args:
        settings: see there.
        open_store: opens the database that the settings name; the simulation has one in which disks fail.
        figures: how the database does, for metrics.
    """

    name = ModuleName.METAMANAGER
    group = Group.META
    batch_limit = 64

    def __init__(
        self,
        settings: MetaSettings,
        open_store: Callable[[str], Store] = open_store,
        figures: StoreFigures | None = None,
    ) -> None:
        super().__init__()
        self._figures = figures or StoreFigures()
        self._settings = settings
        self._open_store = open_store
        self._connected = False
        self._problem = ""
        """Why the database takes no change."""
        self._next_probe: Timer | None = None
        self._flush_is_due = False
        self._closing = ExitStack()

    def on_start(self) -> None:
        """Open the database. The hub says only once that it is connected: started again after a failure, we take it
        for connected and are told when it is not.
        """
        self._connected = self.slot.restarts > 0
        try:
            self._open()
        except StoreDamagedError as error:
            _log.error("%s", error)
            self._closing.close()
            self._open()
        self._batch = Batch(self._store, self._deliver, self._committed)
        self._closing.callback(self._batch.flush)
        self._lookup = Lookup(self._store, self.clock)
        self._remote = Remote(self, self._settings.remote_query_timeout, self._answered)
        self._closing.callback(self._remote.give_up)
        self._unneeded = Unneeded(self, self._store, self._dropped, self._not_kept_up)
        self._unneeded.look_later()
        self._cloud_pods = CloudPods(
            self,
            self._store,
            self._settings.node,
            self._settings.remote_query_timeout,
            taken=self._listed,
            gone=self._forgotten,
            failed=self._not_kept_up,
        )
        self._link_changed()

    def _open(self) -> None:
        """What is spoilt shows when it is opened, or when it is read. Opened again it is set aside."""
        self._store: Store = self._open_store(self._settings.data_source)
        self._closing.callback(self._store.close)
        self._events = Shelf(self._store, ResourceType.EVENT, EVENTS_KEPT)

    def on_stop(self) -> None:
        """Refuse what is with the cloud, commit and send what was handled, close the database."""
        self._closing.close()

    def on_failure(self, *error: object) -> None:
        """The same. The bus tries the batch again: what was sent is sent twice then, and nothing is lost.

        Of a damaged database nothing more is committed; the next start sets it aside.
        """
        if any(isinstance(each, StoreDamagedError) for each in error):
            self._batch.lose(for_good=True)
        self._closing.close()

    def on_batch_end(self) -> None:
        """Commit when nothing waits any more."""
        self._batch.flush()

    def _flush_soon(self) -> None:
        """Commit after what waits in the inbox now: an answer from the cloud is no message of a batch, but many that
        come together are committed together too.
        """
        if not self._flush_is_due:
            self._flush_is_due = True
            self.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._batch.flush()

    @handles(ResourceType.CONNECTION, Operation.CONNECT, source=Source.EDGEHUB)
    def connection_changed(self, message: Message) -> None:
        """The hub says whether the cloud can be reached; without it no open question will be answered."""
        try:
            self._connected = message.content_as(str) == CLOUD_CONNECTED
        except BeehiveError as error:
            _log.warning("%s", error)
            return
        if not self._connected:
            self._remote.give_up()
        self._link_changed()

    def _link_changed(self) -> None:
        self._cloud_pods.connection_changed(connected=self._connected)

    @handles()
    def take(self, message: Message) -> None:
        """Everything else."""
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
        route, resource = message.route, parse(message.route.resource)
        wanted = plan(
            route.operation, resource.type, route.source, named=bool(resource.name), connected=self._connected
        )
        again = self._again(message, resource, wanted.change)
        lost = False
        try:
            is_new = self._change(message, resource, wanted.change)
        except StoreWriteError as error:
            if again is None and not wanted.even_if_lost:
                raise
            self._write_failed(error)
            is_new = lost = True
        sent: list[Effect] = []
        for step in wanted.steps:
            if is_new or wanted.even_if_old or step not in HANDED_ON:
                sent += _TAKE[step](self, message)
        if wanted.change is Change.NONE or (lost and again is None):
            return Outcome(sent)
        otherwise = lambda: sent if wanted.even_if_lost else self._unstored(message, resource, again)  # noqa: E731
        return Outcome(sent, changed=True, otherwise=otherwise, again=again, lost=lost)

    def _again(self, message: Message, resource: Resource, change: Change) -> Callable[[], object] | None:
        """What makes a deletion once more, also its announcement; None for any other change."""
        going = change is Change.PUT and resource.type == ResourceType.POD and is_being_deleted(message.content_bytes())
        return partial(self._change, message, resource, change) if change is Change.DELETE or going else None

    def _unstored(self, message: Message, resource: Resource, again: Callable[[], object] | None) -> list[Effect]:
        """What is said of a change that could not be stored. A pod that is to go goes all the same, for that frees
        room; the cloud, which has an error for an answer, sends its deletion again.
        """
        goes = again is not None and resource.type == ResourceType.POD
        return [*([effects.to_edged(message)] if goes else ()), *self._refuse(message, LOST)]

    def _change(self, message: Message, resource: Resource, change: Change) -> bool:
        """Change the store; False when the message is about an older state than what is there.

        A patch of a pod that is gone is not kept: nobody would ever delete it.
        """
        if change is Change.PUT_ANSWER:
            row = self._lookup.row_of_answer(message)
            return row is not None and self._store.put(row)
        if resource.type in DEPENDENCIES:
            self._unneeded.look_later()
        if change is Change.PUT:
            self._cloud_pods.said(message.route.resource, message.content_bytes())
            if resource.type == ResourceType.PODPATCH and self._store.get(_pod_of(resource)) is None:
                return True
            row = row_of_message(message, self.clock.now_ms())
            return not self._lookup.was_deleted(row) and self._store.put(row)
        if change is Change.PUT_EVENT:
            return self._events.put(row_of_message(message, self.clock.now_ms()))
        if change is Change.DELETE:
            return self._delete(message, resource)
        return True

    def _delete(self, message: Message, resource: Resource) -> bool:
        """Delete the object that is meant and no later one of its name; with a pod goes what was kept for it."""
        uid = head_of(message.content_bytes()).uid or ""
        self._remote.void(message.route.resource)
        if uid:
            self._lookup.deleted(message.route.resource, uid)
        self._cloud_pods.deleted(resource, message.route.resource, uid)
        cause, now = cause_of(message), self.clock.now_ms()
        deleted = self._store.delete(message.route.resource, uid, cause, now)
        if resource.type == ResourceType.POD:
            self._unneeded.look_later()
            if deleted:
                self._store.delete(f"{resource.namespace}/{ResourceType.PODPATCH}/{resource.name}", "", cause, now)
            if uid:
                self._store.delete_owned(ResourceType.SERVICE_ACCOUNT_TOKEN, uid)
        return deleted

    def _ok_to_sender(self, message: Message) -> list[Effect]:
        return [effects.answer(message, message.reply(self.clock))] if message.header.sync else []

    def _event_to_cloud(self, message: Message) -> list[Effect]:
        return [effects.to_cloud(message.with_header(sync=False))] if self._settings.report_events else []

    def _refuse(self, message: Message, text: str) -> list[Effect]:
        return [effects.refusal(message, text, self.clock)]

    def _answer_or_ask(self, message: Message) -> list[Effect]:
        values = self._lookup.in_store(message)
        return [effects.stored(message, values, self.clock)] if values else self._ask_cloud(message)

    def _answer_and_refresh(self, message: Message) -> list[Effect]:
        values = self._lookup.good_in_store(message)
        if not values:
            return self._ask_cloud(message)
        if parse(message.route.resource).type != ResourceType.SERVICE_ACCOUNT_TOKEN:
            self._remote.refresh(message)
        return [effects.stored(message, values, self.clock)]

    def _answer_or_refuse(self, message: Message) -> list[Effect]:
        values = self._lookup.in_store(message)
        return [effects.stored(message, values, self.clock)] if values else self._refuse(message, NOT_CONNECTED)

    def _ask_cloud(self, message: Message) -> list[Effect]:
        self._remote.ask(message)
        return []

    def _answered(self, requests: list[Message], result: Message | str) -> None:
        if isinstance(result, Message):
            self._cloud_pods.said(requests[0].route.resource, object_in(result))
        try:
            outcome = self._lookup.answered(requests, result)
        except (StoreError, UnicodeError) as error:
            outcome = self._lookup.passed_on(requests, result)
            if isinstance(error, StoreDamagedError):
                self._batch.add(outcome)
                raise
            if isinstance(error, StoreWriteError):
                self._write_failed(error)
            else:
                _log.warning("the answer about %s is not kept: %s", requests[0].route.resource, error)
        self._batch.add(outcome)
        self._flush_soon()

    def _ask_volume_plugin(self, message: Message) -> list[Effect]:
        def done(result: Message | BeehiveError) -> None:
            if isinstance(result, Message) and result.route.operation != Operation.ERROR:
                answer = effects.to_cloud(message.reply(self.clock, result.content))
            else:
                text = str(result) if isinstance(result, BeehiveError) else result.content_bytes().decode()
                answer = effects.refusal(message, text, self.clock)
            self._batch.add(Outcome([answer]))
            self._flush_soon()

        self.request(ModuleName.EDGED, message, VOLUME_SECONDS, done)
        return []

    def _unsupported(self, message: Message) -> list[Effect]:
        route = message.route
        _log.warning("not supported: %s %s from %s", route.operation, route.resource, route.source)
        return self._refuse(message, f"metamanager: {route.operation} not supported") if message.header.sync else []

    def _refused(self, message: Message, error: Exception) -> Outcome:
        return Outcome(self._refuse(message, str(error)))

    def _write_failed(self, error: StoreWriteError) -> None:
        if error.batch_lost:
            self._batch.lose()
        self._committed(error)

    def _committed(self, error: StoreError | None) -> None:
        """Show outside how the database does. What it said last is not logged again: the cloud sends every few seconds
        what was not acknowledged.
        """
        if error is None:
            if self._problem:
                _log.warning("the database takes changes again")
                self.announce_ready()
            self._problem = ""
            self._figures.takes_changes = True
            return
        self._figures.write_failures += 1
        if error.hint != self._problem:
            _log.error("%s", error)
            self.announce_not_ready(str(error))
            self.send(ModuleName.EDGED, self.message(DISK_RESOURCE, Operation.UPDATE, None))
        self._problem = error.hint
        self._figures.takes_changes = False
        if self._next_probe is None:
            self._next_probe = self.after(PROBE_AFTER, self._probe)

    def _probe(self) -> None:
        """See whether changes are taken again: nobody else may try for long, when the cloud is away."""
        self._next_probe = None
        if not self._problem:
            return
        try:
            self._store.put(row_of("null/store/probe", _PROBE, self.clock.now_ms()))
        except StoreWriteError as error:
            self._write_failed(error)
        except StoreDamagedError:
            raise
        except StoreError as error:
            self._committed(error)
        else:
            self._batch.add(Outcome((), changed=True))
        self._batch.flush()

    def _dropped(self) -> None:
        self._batch.add(Outcome((), changed=True))
        self._batch.flush()

    def _listed(self, outcome: Outcome) -> None:
        self._batch.add(outcome)
        self._flush_soon()

    def _forgotten(self, pod: StoredPod) -> None:
        """The cloud does not have a pod any more, and has not said so by itself: as if it had."""
        identity = {"metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}}
        source = ModuleName.EDGECONTROLLER
        deletion = self.message(pod.key, Operation.DELETE, identity, source=source, group=Group.RESOURCE)
        try:
            self._delete(deletion, parse(pod.key))
        except StoreError as error:
            self._not_kept_up(error)
        else:
            self._listed(Outcome([effects.to_edged(deletion)], changed=True, otherwise=list))

    def _not_kept_up(self, error: StoreError) -> None:
        """What is done now and then could not be done; it is tried again."""
        if isinstance(error, StoreDamagedError):
            raise error
        if isinstance(error, StoreWriteError):
            self._write_failed(error)
        else:
            _log.warning("the store is looked through later: %s", error)

    def _deliver(self, effect: Effect) -> None:
        """A request that is handed on is answered by whoever gets it; its sender waits for that."""
        if effect.message.header.sync and effect.way is not Way.RESPONSE:
            self.delegate(effect.message, effect.destination)
        if effect.way is Way.SEND:
            self.send(effect.destination, effect.message)
        elif effect.way is Way.BROADCAST:
            self.broadcast(effect.destination, effect.message)
        else:
            self.respond(effect.message)


def _pod_of(patch: Resource) -> str:
    return f"{patch.namespace}/{ResourceType.POD}/{patch.name}"


_TAKE: dict[Step, Callable[[MetaManager, Message], list[Effect]]] = {
    Step.TO_EDGED: lambda _, message: [effects.to_edged(message)],
    Step.TO_TWIN: lambda _, message: [effects.to_twin(message)],
    Step.TO_CLOUD: lambda _, message: [effects.to_cloud(message)],
    Step.REPORT_TO_CLOUD: lambda _, message: [effects.to_cloud(message.with_header(sync=False))],
    Step.EVENT_TO_CLOUD: MetaManager._event_to_cloud,
    Step.OK_TO_CLOUD: lambda meta, message: [effects.ok_to_cloud(message, meta.clock)],
    Step.OK_TO_SENDER: MetaManager._ok_to_sender,
    Step.ANSWER: lambda meta, message: [meta._lookup.from_store(message)],
    Step.ANSWER_OR_ASK: MetaManager._answer_or_ask,
    Step.ANSWER_AND_REFRESH: MetaManager._answer_and_refresh,
    Step.ANSWER_OR_REFUSE: MetaManager._answer_or_refuse,
    Step.ASK_CLOUD: MetaManager._ask_cloud,
    Step.REFUSE: lambda meta, message: meta._refuse(message, NOT_CONNECTED),
    Step.REFUSE_PATCH: lambda meta, message: meta._refuse(message, CONNECTION_LOST),
    Step.TO_VOLUME_PLUGIN: MetaManager._ask_volume_plugin,
    Step.UNSUPPORTED: MetaManager._unsupported,
}
