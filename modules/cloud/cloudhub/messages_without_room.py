"""The messages of nodes that wait for room in the inboxes of controllers."""

from collections import deque
from typing import Final

import msgspec

from beehive.inbox import COMMAND_CAPACITY, Inbox
from beehive.message import Message
from beehive.module import Module
from modules.cloud.cloudhub.dispatcher import DEPTH
from modules.cloud.websocket.link import Link

_ROOM: Final = COMMAND_CAPACITY * 3 // 4
"""Depth of an inbox that gets no messages of nodes: there is room left for messages of other modules."""
_PERIOD: Final = 0.01
"""Seconds between two looks whether there is room again."""


class Passing(msgspec.Struct, frozen=True, gc=False):
    """A message of a node for a group of controllers."""

    group: str
    message: Message
    link: Link
    size: int


class MessagesWithoutRoom:
    """Messages on their way to groups of controllers, each group's in their order, as long as its inboxes have room.

    The others wait here: a message for a full inbox would be dropped after a while. Few of each node wait, as a link
    counts them as unhandled, and the server then reads no further ones.

    Args:
        module: cloudhub.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._waiting: dict[str, deque[Passing]] = {}
        self._inboxes: dict[str, list[Inbox]] = {}
        """Of the controllers, by group; they outlive restarts."""
        self._has_timer = False

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def offer(self, passing: Passing) -> None:
        """Pass a message on, or keep it until there is room."""
        waiting = self._waiting.get(passing.group)
        if waiting is None and self._has_room(passing.group):
            self._pass_on(passing)
            return
        self._waiting.setdefault(passing.group, deque()).append(passing)
        self._set_timer()

    def resume(self) -> None:
        """Pass on the messages that have room now."""
        for group, waiting in list(self._waiting.items()):
            while waiting and self._has_room(group):
                self._pass_on(waiting.popleft())
            if not waiting:
                del self._waiting[group]

    def _set_timer(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._module.after(_PERIOD, self._retry)

    def _retry(self) -> None:
        self._has_timer = False
        self.resume()
        if self._waiting:
            self._set_timer()

    def _has_room(self, group: str) -> bool:
        inboxes = self._inboxes.get(group)
        if inboxes is None:
            hive = self._module.hive
            inboxes = self._inboxes[group] = [hive.slot(name).inbox for name in hive.members(group)]
        return max(map(DEPTH, inboxes), default=0) < _ROOM

    def _pass_on(self, passing: Passing) -> None:
        self._module.hive.broadcast(passing.group, passing.message)
        passing.link.handled(passing.size)
