"""The writer of one connection: an actor of its own, because a write to a slow node blocks.

cloudhub tells it what to send and never waits. A node that does not take what it is sent fills the session's
inbox, and is then cut off: it will connect again, and gets everything that it has not acknowledged.
"""

import logging
from typing import TYPE_CHECKING

import msgspec

from beehive.actor import Actor
from beehive.codec import encode
from beehive.errors import ContentError
from beehive.resource import trim_node

if TYPE_CHECKING:
    from beehive.message import Message
    from modules.cloudhub.link import Link

_log = logging.getLogger(__name__)


class Write(msgspec.Struct, frozen=True):
    """Send this message, whose resource is still the cloud's."""

    message: "Message"


class Session(Actor):
    """Writes to one link until the link fails; who reads the link notices that it is closed.

    Args:
        node: whose connection it is, for the log.
        link: the connection.
    """

    def __init__(self, node: str, link: "Link") -> None:
        super().__init__()
        self._node = node
        self._link = link

    def on_receive(self, message: object) -> None:
        """Takes a `Write`."""
        if isinstance(message, Write):
            self._write(message.message)

    def on_stop(self) -> None:
        """Closes the link."""
        self._link.close()

    def _write(self, message: "Message") -> None:
        trimmed = message.with_route(resource=trim_node(message.route.resource))
        try:
            self._link.send(encode(trimmed.with_header(sync=False)))
        except ContentError as error:
            _log.error("node %s: a message could not be encoded: %s", self._node, error)
        except OSError as error:
            _log.info("node %s: the connection failed while writing: %s", self._node, error)
            self._link.close()
