"""The dispatcher between a transport and cloudhub."""

import logging
from typing import TYPE_CHECKING, Any

import pykka

from beehive.errors import InboxFullError
from beehive.names import Group
from modules.cloud.websocket.link import LinkEvent

if TYPE_CHECKING:
    from beehive.hive import Hive

_log = logging.getLogger(__name__)
_FULL_DEPTH = 512
"""Depth of an inbox above which it counts as full: half the capacity of edgecontroller's."""


class Dispatcher:
    """The delivery of link events from a transport's threads to cloudhub, which reports when inboxes are full.

    It never blocks: an edgecontroller without its database would otherwise stop cloudhub, and with it the keepalives
    of all nodes.

    Args:
        cloudhub: receives the events.
        hive: has edgecontroller's inbox.
    """

    def __init__(self, cloudhub: pykka.ActorRef[Any], hive: "Hive") -> None:
        self._cloudhub = cloudhub
        names = [str(cloudhub.actor_class.name), *hive.members(Group.EDGECONTROLLER)]
        self._inboxes = [hive.slot(name).inbox for name in names]

    def __call__(self, event: LinkEvent, /) -> None:
        """Deliver an event; closes its link when cloudhub has ended or its inbox is full."""
        try:
            self._cloudhub.tell(event)
        except pykka.ActorDeadError:
            event.link.close()  # cloudhub has ended, and its transport with it
        except InboxFullError as error:
            _log.warning("node %s: connection dropped: %s", event.node, error)
            event.link.close()

    def is_full(self) -> bool:
        """Return whether many messages wait in cloudhub or edgecontroller."""
        return any(inbox.depth() > _FULL_DEPTH for inbox in self._inboxes)
