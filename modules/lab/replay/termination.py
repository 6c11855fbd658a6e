"""The termination messages of containers in a replay.

They are files of the node, which no trace has, but statuses have them: the statuses that edged reports, and the
statuses of its earlier runs, which the store and the cloud have. So in a replay an ended container has its message in
the answer of the runtime, where a message of the runtime's own is, too.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.names import ModuleName, ResourceType
from beehive.resource import Side, type_of
from beehive.trace import Delivered

_WITH_STATUSES: Final = frozenset({ResourceType.POD, ResourceType.PODPATCH, ResourceType.PODSTATUS})
_EXITED: Final = "CONTAINER_EXITED"
_MESSAGE: Final = b"exitCode"


class TerminationMessages:
    """Messages by the ids of containers.

    Args:
        deliveries: all recorded deliveries.
    """

    def __init__(self, deliveries: Iterable[Delivered]) -> None:
        self._messages: dict[str, str] = {}
        reported: dict[str, str] = {}
        for one in deliveries:
            if type_of(one.message.resource, Side.EDGE) in _WITH_STATUSES and _MESSAGE in one.message.content:
                found = reported if one.sender == ModuleName.EDGED else self._messages
                found.update(_messages_in(one.message.content.decode()))
        self._messages |= reported

    def add_to(self, answer: bytes) -> bytes:
        """Return the runtime's answer about the status of a container, with its termination message."""
        response = decode_json(answer)
        status = (response or {}).get("status") or {}
        message = self._messages.get(status.get("id", ""))
        if message is None or status.get("state") != _EXITED:
            return answer
        return msgspec.json.encode({**response, "status": {**status, "message": message}})


def _messages_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the containers' ids and messages of statuses in a JSON value, also in strings that are JSON."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        with suppress(msgspec.DecodeError, RecursionError):
            yield from _messages_in(decode_json(value))
    elif isinstance(value, list):
        for item in value:
            yield from _messages_in(item)
    elif isinstance(value, dict):
        if "exitCode" in value and isinstance(value.get("message"), str):
            yield str(value.get("containerID", "")).rpartition("://")[2], value["message"]
        for item in value.values():
            yield from _messages_in(item)
