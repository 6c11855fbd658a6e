"""The way of what happens on the links into cloudhub, and what tells the transport to read more slowly.

Nothing here waits. An edgecontroller that is away (its database is) would otherwise stop cloudhub, and with it the
keepalives of all nodes.
"""

import logging
from typing import TYPE_CHECKING, Any

import pykka

from beehive.errors import InboxFullError
from beehive.names import Group
from modules.cloudhub.link import LinkEvent

if TYPE_CHECKING:
    from beehive.hive import Hive

_log = logging.getLogger(__name__)
_CROWD = 512
"""Messages that may wait in cloudhub or edgecontroller: half of what the latter's inbox holds."""


class Inlet:
    """See the module's docstring. For the transport's threads.

    Args:
        cloudhub: where the events go.
        hive: where edgecontroller is.
    """

    def __init__(self, cloudhub: pykka.ActorRef[Any], hive: "Hive") -> None:
        self._cloudhub = cloudhub
        self._hive = hive
        names = [str(cloudhub.actor_class.name), *hive.members(Group.EDGECONTROLLER)]
        self._inboxes = [hive.slot(name).inbox for name in names]

    def __call__(self, event: LinkEvent, /) -> None:
        """Takes an event."""
        try:
            self._cloudhub.tell(event)
        except pykka.ActorDeadError:
            event.link.close()  # cloudhub has ended, and its transport with it
        except InboxFullError as error:
            _log.warning("node %s: connection dropped: %s", event.node, error)
            event.link.close()

    def is_crowded(self) -> bool:
        """Whether cloudhub or edgecontroller is behind."""
        return any(inbox.depth() > _CROWD for inbox in self._inboxes)
