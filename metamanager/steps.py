"""Carries out the steps of a plan that do not only forward the message (`metamanager.rules`)."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from beehive import Group, Message, Module, ModuleName, Operation, ResourceType, Source
from beehive.errors import BeehiveError
from metamanager import replies
from metamanager.answers import CONNECTION_LOST, DELETION_NOT_STORED, NOT_CONNECTED
from metamanager.local_query import LocalQuery
from metamanager.remote_query import RemoteQuery
from metamanager.replies import Outcome, Reply, StoreChanges
from metamanager.rules import Step

_log = logging.getLogger(__name__)

VOLUME_SECONDS: Final = 60.0
"""Seconds that edged has for a CSI operation (KubeEdge)."""


class Steps:
    """The replies of each step of `table`; queries to the cloud and to edged reply later.

    Args:
        module: metamanager; its thread calls everything here.
        local_query: answers from the store.
        remote_query: asks the cloud.
        report_events: whether events go to the cloud (KubeEdge's modules.edged.reportEvent).
        changes: take the reply to a CSI operation once edged has answered.
    """

    def __init__(
        self,
        module: Module,
        local_query: LocalQuery,
        remote_query: RemoteQuery,
        changes: StoreChanges,
        *,
        report_events: bool,
    ) -> None:
        self._clock = module.clock
        self._module = module
        self._local_query = local_query
        self._remote_query = remote_query
        self._changes = changes
        self._report_events = report_events
        self.table: Mapping[Step, Callable[[Message], list[Reply]]] = {
            Step.DELETION_TO_CLOUD: self.deletion_to_cloud,
            Step.EVENT_TO_CLOUD: self.event_to_cloud,
            Step.OK_TO_CLOUD: self.ok_to_cloud,
            Step.OK_TO_CLOUD_AS_META: self.ok_to_cloud_as_meta,
            Step.OK_TO_SENDER: self.ok_to_sender,
            Step.ANSWER: self.from_store,
            Step.ANSWER_OR_ASK: self.from_store_or_ask,
            Step.ANSWER_AND_REFRESH: self.from_store_and_refresh,
            Step.ANSWER_OR_REFUSE: self.from_store_or_refuse,
            Step.ASK_CLOUD: self.ask_cloud,
            Step.REFUSE: self.refuse,
            Step.REFUSE_PATCH: self.refuse_patch,
            Step.TO_VOLUME_PLUGIN: self.to_volume_plugin,
            Step.UNSUPPORTED: self.unsupported,
        }
        """The method that carries out a step and returns its replies; raises StoreError if the store cannot be read.
        """

    def from_store(self, message: Message) -> list[Reply]:
        """Answer from the store, even if it has nothing."""
        return [self._local_query.reply(message)]

    def from_store_or_ask(self, message: Message) -> list[Reply]:
        """Answer from the store; ask the cloud if the store has nothing."""
        values = self._local_query.find(message)
        return [replies.stored(message, values, self._clock)] if values else self.ask_cloud(message)

    def from_store_and_refresh(self, message: Message) -> list[Reply]:
        """Answer from the store and ask the cloud in the background; a token that is fresh needs no refresh."""
        values = self._local_query.find_fresh(message)
        if not values:
            return self.ask_cloud(message)
        if message.subject.type != ResourceType.SERVICE_ACCOUNT_TOKEN:
            self._remote_query.refresh(message)
        return [replies.stored(message, values, self._clock)]

    def from_store_or_refuse(self, message: Message) -> list[Reply]:
        """Answer from the store; refuse if the store has nothing."""
        values = self._local_query.find(message)
        return [replies.stored(message, values, self._clock)] if values else self.refuse(message)

    def ask_cloud(self, message: Message) -> list[Reply]:
        """Ask the cloud; its answer is handled later."""
        self._remote_query.query(message)
        return []

    def refuse(self, message: Message, text: str = NOT_CONNECTED) -> list[Reply]:
        """Answer with an error."""
        return [replies.refusal(message, text, self._clock)]

    def refuse_patch(self, message: Message) -> list[Reply]:
        """Answer with KubeEdge's error for patches."""
        return self.refuse(message, CONNECTION_LOST)

    def deletion_to_cloud(self, message: Message) -> list[Reply]:
        """Have the cloud delete a pod that has ended, unless the next start would run it again."""
        if self._local_query.would_run_again(message):
            return self.refuse(message, DELETION_NOT_STORED)
        return [replies.to_cloud(message)]

    def ok_to_cloud(self, message: Message) -> list[Reply]:
        """Acknowledge a stored message to the cloud (docs/protocol.md, "Acknowledgements")."""
        return [replies.to_cloud(message.reply(self._clock))]

    def ok_to_cloud_as_meta(self, message: Message) -> list[Reply]:
        """Acknowledge a new device or model, with the source and group under which devicetwin has received it."""
        return self.ok_to_cloud(message.with_route(source=Source.META, group=Group.TWIN))

    def ok_to_sender(self, message: Message) -> list[Reply]:
        """Answer OK, if the sender waits."""
        return [replies.answer(message, message.reply(self._clock))] if message.header.sync else []

    def event_to_cloud(self, message: Message) -> list[Reply]:
        """Send an event to the cloud, if events are reported."""
        return [replies.to_cloud(message.with_header(sync=False))] if self._report_events else []

    def to_volume_plugin(self, message: Message) -> list[Reply]:
        """Ask edged to carry out a CSI operation; its answer goes to the cloud later."""

        def done(result: Message | BeehiveError) -> None:
            if isinstance(result, Message) and result.route.operation != Operation.ERROR:
                answer = replies.to_cloud(message.reply(self._clock, result.content))
            else:
                text = str(result) if isinstance(result, BeehiveError) else result.content_bytes().decode()
                answer = replies.refusal(message, text, self._clock)
            self._module.settle(message)
            self._changes.add_change(Outcome([answer]))

        self._module.owe(message)
        self._module.request(ModuleName.EDGED, message, VOLUME_SECONDS, done)
        return []

    def unsupported(self, message: Message) -> list[Reply]:
        """Log a message that no rule supports; answer with an error if the sender waits."""
        route = message.route
        _log.warning("not supported: %s %s from %s", route.operation, route.resource, route.source)
        return self.refuse(message, f"metamanager: {route.operation} not supported") if message.header.sync else []
