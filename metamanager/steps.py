"""Carries out the steps that `metamanager.rules` plans for a message."""

import logging
from collections.abc import Callable
from typing import Final

from beehive import Group, Message, Module, ModuleName, Operation, ResourceType
from beehive.errors import BeehiveError
from metamanager import replies
from metamanager.answers import CONNECTION_LOST, DELETION_NOT_STORED, NOT_CONNECTED
from metamanager.local_query import LocalQuery
from metamanager.remote_query import RemoteQuery
from metamanager.replies import Outcome, Reply, StoreChanges
from metamanager.rows import parse
from metamanager.rules import Step

_log = logging.getLogger(__name__)

VOLUME_SECONDS: Final = 60.0
"""Seconds that edged has for a CSI operation (KubeEdge)."""


class Steps:
    """Makes the replies of each step; queries to the cloud and to edged reply later.

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
        self.clock = module.clock
        self._module = module
        self._local_query = local_query
        self._remote_query = remote_query
        self._changes = changes
        self._report_events = report_events

    def run(self, step: Step, message: Message) -> list[Reply]:
        """Carry out one step for a message and return its replies.

        Raises:
            StoreError: the store cannot be read.
        """
        return STEPS[step](self, message)

    def from_store(self, message: Message) -> list[Reply]:
        """Answer from the store, even if it has nothing."""
        return [self._local_query.reply(message)]

    def from_store_or_ask(self, message: Message) -> list[Reply]:
        """Answer from the store; ask the cloud if the store has nothing."""
        values = self._local_query.find(message)
        return [replies.stored(message, values, self.clock)] if values else self.ask_cloud(message)

    def from_store_and_refresh(self, message: Message) -> list[Reply]:
        """Answer from the store and ask the cloud in the background; a token that is fresh needs no refresh."""
        values = self._local_query.find_fresh(message)
        if not values:
            return self.ask_cloud(message)
        if parse(message.route.resource).type != ResourceType.SERVICE_ACCOUNT_TOKEN:
            self._remote_query.refresh(message)
        return [replies.stored(message, values, self.clock)]

    def from_store_or_refuse(self, message: Message) -> list[Reply]:
        """Answer from the store; refuse if the store has nothing."""
        values = self._local_query.find(message)
        return [replies.stored(message, values, self.clock)] if values else self.refuse(message, NOT_CONNECTED)

    def ask_cloud(self, message: Message) -> list[Reply]:
        """Ask the cloud; its answer is handled later."""
        self._remote_query.query(message)
        return []

    def refuse(self, message: Message, text: str) -> list[Reply]:
        """Answer with an error."""
        return [replies.refusal(message, text, self.clock)]

    def deletion_to_cloud(self, message: Message) -> list[Reply]:
        """Have the cloud delete a pod that has ended, unless the next start would run it again."""
        if self._local_query.would_run_again(message):
            return self.refuse(message, DELETION_NOT_STORED)
        return [replies.to_cloud(message)]

    def ok_to_sender(self, message: Message) -> list[Reply]:
        """Answer OK, if the sender waits."""
        return [replies.answer(message, message.reply(self.clock))] if message.header.sync else []

    def event_to_cloud(self, message: Message) -> list[Reply]:
        """Send an event to the cloud, if events are reported."""
        return [replies.to_cloud(message.with_header(sync=False))] if self._report_events else []

    def to_volume_plugin(self, message: Message) -> list[Reply]:
        """Ask edged to carry out a CSI operation; its answer goes to the cloud later."""

        def done(result: Message | BeehiveError) -> None:
            if isinstance(result, Message) and result.route.operation != Operation.ERROR:
                answer = replies.to_cloud(message.reply(self.clock, result.content))
            else:
                text = str(result) if isinstance(result, BeehiveError) else result.content_bytes().decode()
                answer = replies.refusal(message, text, self.clock)
            self._changes.add_change(Outcome([answer]))

        self._module.request(ModuleName.EDGED, message, VOLUME_SECONDS, done)
        return []

    def to_mesh(self, message: Message) -> list[Reply]:
        """Forward a message to edgemesh, if the node has it."""
        return [replies.to_mesh(message)] if self._module.hive.members(Group.MESH) else []

    def unsupported(self, message: Message) -> list[Reply]:
        """Log a message that no rule supports; answer with an error if the sender waits."""
        route = message.route
        _log.warning("not supported: %s %s from %s", route.operation, route.resource, route.source)
        return self.refuse(message, f"metamanager: {route.operation} not supported") if message.header.sync else []


STEPS: dict[Step, Callable[[Steps, Message], list[Reply]]] = {
    Step.TO_EDGED: lambda _, message: [replies.to_edged(message)],
    Step.TO_MESH: Steps.to_mesh,
    Step.TO_TWIN: lambda _, message: [replies.to_twin(message)],
    Step.TO_CLOUD: lambda _, message: [replies.to_cloud(message)],
    Step.DELETION_TO_CLOUD: Steps.deletion_to_cloud,
    Step.REPORT_TO_CLOUD: lambda _, message: [replies.to_cloud(message.with_header(sync=False))],
    Step.EVENT_TO_CLOUD: Steps.event_to_cloud,
    Step.OK_TO_CLOUD: lambda steps, message: [replies.ok_to_cloud(message, steps.clock)],
    Step.OK_TO_CLOUD_AS_META: lambda steps, message: [replies.ok_to_cloud_as_meta(message, steps.clock)],
    Step.OK_TO_SENDER: Steps.ok_to_sender,
    Step.ANSWER: Steps.from_store,
    Step.ANSWER_OR_ASK: Steps.from_store_or_ask,
    Step.ANSWER_AND_REFRESH: Steps.from_store_and_refresh,
    Step.ANSWER_OR_REFUSE: Steps.from_store_or_refuse,
    Step.ASK_CLOUD: Steps.ask_cloud,
    Step.REFUSE: lambda steps, message: steps.refuse(message, NOT_CONNECTED),
    Step.REFUSE_PATCH: lambda steps, message: steps.refuse(message, CONNECTION_LOST),
    Step.TO_VOLUME_PLUGIN: Steps.to_volume_plugin,
    Step.UNSUPPORTED: Steps.unsupported,
}
