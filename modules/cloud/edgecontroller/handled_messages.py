"""Reports the handled messages that have no answer to cloudhub, which forwards few of a node's messages before that."""

from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from modules.cloud.durations import Durations
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE


class HandledMessages:
    """The number of a module's handled messages without an answer, by node: an answer shows cloudhub the same.

    Args:
        module: edgecontroller, which reports them.
        durations: of the handling, by resource type.
    """

    def __init__(self, module: Module, durations: dict[str, Durations]) -> None:
        self._module = module
        self._durations = durations
        self._counts: dict[str, int] = {}
        self.begin = module.owe
        """Notes that the handling of a message begins."""
        self._done: list[Message] = []
        """Messages whose answers wait for the commit."""

    def count(self, message: Message, since: float, *, is_answered: bool) -> None:
        """Count a message of a node as handled, which was taken at `since`, in monotonic seconds."""
        self._done.append(message)
        resource = message.subject_on_cloud
        if not is_answered:
            self._counts[resource.node] = self._counts.get(resource.node, 0) + 1
        durations = self._durations.get(resource.type)
        if durations is None:
            durations = self._durations[resource.type] = Durations()
        durations.observe(self._module.clock.monotonic() - since)

    def report(self) -> None:
        """Report the number of messages that were handled without an answer since the last call, after the commit."""
        if self._done:
            self._module.settle(*self._done)
            self._done.clear()
        if self._counts:
            handled, self._counts = self._counts, {}
            self._module.send(ModuleName.CLOUDHUB, self._module.message(HANDLED_RESOURCE, HANDLED, handled))
