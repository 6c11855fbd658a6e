"""The dispatcher between a transport and cloudhub."""

import logging
from collections import deque
from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import pykka

from beehive.errors import InboxFullError
from beehive.inbox import STATE_CAPACITY, Inbox
from beehive.names import Group
from modules.cloud.websocket.link import LinkEvent, LinkOpened

if TYPE_CHECKING:
    from beehive.hive import Hive

_log = logging.getLogger(__name__)
_FULL_DEPTH = 512
"""Depth of an inbox above which it counts as full: half the capacity of edgecontroller's."""
_MOST_WAITING: Final = STATE_CAPACITY // 2
"""Items of an inbox above which no more nodes connect: their beginnings and ends are to fit into it."""
_TOLD: Final = (Group.EDGECONTROLLER, Group.DEVICECONTROLLER, Group.ROUTER, Group.TASKMANAGER)
"""The groups that act on connections."""
DEPTH: Final[Callable[[Inbox], int]] = methodcaller("depth")
"""Returns the number of items in an inbox, for `map`: it is asked for each message."""
AT_ONCE: Final = 16
"""Events that are handled before other items of cloudhub's inbox have their turn."""


class Dispatcher:
    """The delivery of link events from a transport's threads to cloudhub, which reports when inboxes are full.

    It never blocks: an edgecontroller without its database would otherwise stop cloudhub, and with it the keepalives
    of all nodes. Events that come before cloudhub's turn share an item of its inbox, which is the dispatcher itself.

    Args:
        cloudhub: receives the events.
        hive: has edgecontroller's inbox.
    """

    def __init__(self, cloudhub: pykka.ActorRef[Any], hive: "Hive") -> None:
        self._cloudhub = cloudhub
        self._events: deque[LinkEvent] = deque()
        self._is_announced = False
        """Whether the dispatcher is in the inbox. It is cleared before events are taken, so none is left behind."""
        names = [str(cloudhub.actor_class.name), *hive.members(Group.EDGECONTROLLER)]
        self._inboxes = [hive.slot(name).inbox for name in names]
        self._told = [hive.slot(name).inbox for group in _TOLD for name in hive.members(group)]
        self._is_refusing = False

    def __call__(self, event: LinkEvent, /) -> None:
        """Deliver an event; closes its link when cloudhub has ended or its inbox is full. A node that connects while
        another module is full is refused, and connects again: nobody would learn of its connection.
        """
        if isinstance(event, LinkOpened) and self._refuses():
            event.link.close()
            return
        self._events.append(event)
        if not self._is_announced:
            self._announce()

    def _refuses(self) -> bool:
        waiting = max(map(DEPTH, self._told), default=0)
        if waiting > _MOST_WAITING and not self._is_refusing:
            _log.warning("nodes cannot connect until fewer messages wait in a module than %d", waiting)
        self._is_refusing = waiting > _MOST_WAITING
        return self._is_refusing

    def _announce(self) -> None:
        self._is_announced = True
        try:
            self._cloudhub.tell(self)
        except (pykka.ActorDeadError, InboxFullError) as error:
            self._is_announced = False
            if isinstance(error, InboxFullError):
                _log.warning("connections of %d nodes dropped: %s", len(self._events), error)
            while self._events:
                self._events.popleft().link.close()  # without cloudhub its transport ends, too

    def next_events(self) -> list[LinkEvent]:
        """Return some of the events, in order, on cloudhub's thread; the others come with another item."""
        self._is_announced = False
        taken = [self._events.popleft() for _ in range(min(len(self._events), AT_ONCE))]
        if self._events and not self._is_announced:
            self._announce()
        return taken

    def is_full(self) -> bool:
        """Return whether many messages wait in cloudhub or edgecontroller."""
        if len(self._events) > _FULL_DEPTH:
            return True
        return max(map(DEPTH, self._inboxes)) > _FULL_DEPTH
