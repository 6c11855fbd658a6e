"""The subject of a message: its resource, and for a request of the Kubernetes API (an Application) its verb and key.

All Applications have the resource `null`. The Applications of metamanager, the metaserver and edgemesh are under way
together, and come in another order in another run.
"""

from typing import Final

import msgspec

from beehive import BeehiveError, Message
from beehive.names import Operation
from beehive.printable import clipped

_NULL: Final = "null"
_ANSWERS: Final = frozenset({Operation.RESPONSE, Operation.ERROR})


class _Asked(msgspec.Struct, rename="pascal"):
    key: str
    verb: str


def subject(message: Message) -> str:
    """Return the object of a message; it matches the messages of two runs."""
    resource = message.route.resource
    if resource != _NULL or message.route.operation in _ANSWERS:
        return resource
    try:
        asked = message.content_as(_Asked)
    except BeehiveError:
        return resource
    return f"{asked.verb} {asked.key}"


def named(message: Message) -> str:
    """Return the operation and the object of a message, for a line of a log."""
    what, operation = subject(message), message.route.operation
    return clipped(what if operation == _NULL else f"{operation} {what}")
