"""The module taskmanager: answers the jobs of KubeEdge's cloud."""

import logging
from typing import Any

from beehive import Group, Message, Module, ModuleName, handles
from beehive.errors import BeehiveError
from edged.api import Nanoseconds, format_time
from modules.edge.taskmanager.refusals import refusal_of

_log = logging.getLogger(__name__)


class TaskManager(Module):
    """Refuses jobs of KubeEdge's cloud, so that their statuses say why this node does not carry them out.

    It belongs to no group: edgehub sends it jobs by its name, and it needs no events of the connection.

    Args:
        node: name of this node; jobs of others are ignored.
    """

    name = ModuleName.TASKMANAGER

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    @handles(None, source=ModuleName.TASKMANAGER)
    def on_job(self, message: Message) -> None:
        """Answer a job with a failure."""
        try:
            content: Any = message.content_as(Any)
        except BeehiveError:
            content = None
        route, now = message.route, format_time(Nanoseconds(self.clock.now_ns()))
        refusal = refusal_of(route.resource, route.operation, content, self._node, now)
        if refusal is None:
            _log.debug("not a job of this node: %s %s", route.operation[:50], route.resource[:200])
            return
        _log.info("job refused: %s", route.resource)
        answer = self.message(
            refusal.resource, refusal.operation, refusal.content, source=ModuleName.EDGEHUB, group=Group.HUB
        )
        self.send(ModuleName.EDGEHUB, answer)

    @handles()
    def ignore(self, message: Message) -> None:
        """Ignore other messages."""
        _log.debug("not a job: %s %s", message.route.operation[:50], message.route.resource[:200])
