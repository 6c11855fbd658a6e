"""What a capture says: messages with their time and direction, by the connections and lives of the node.

A proxy between the two counts its connections, from 1 again when it is itself started anew. A connection begins with
the request of its upgrade, or with its first frame where the capture begins later. It ends when a side closed it; where
nobody saw that, because the cloud was killed or a cable was pulled, halfway between its last frame and the next one.

An agent that starts registers its node, which one that only connects again does not do. So a connection after the first
in which the node is registered begins a life.
"""

import re
from itertools import pairwise
from typing import Any, Final

import msgspec

from beehive.trace import Direction, LinkFrame, Note, NoteKind, RecordedMessage
from modules.replay.outputs import message_of
from modules.replay.recorded import Recorded

Step = tuple[str, str]
"""Operation and resource."""

_NODE_TYPES: Final = ("node", "nodepatch", "nodestatus", "lease")
_POD_OF: Final = re.compile(rb'"nodeName"\s*:\s*"([^"]+)"')
_REGISTERS: Final = 10.0
"""Seconds after the beginning of a connection within which an agent that was started registers its node."""


class Captured(msgspec.Struct, frozen=True):
    """A message of the capture."""

    time: float
    to_edge: bool
    message: RecordedMessage

    @property
    def step(self) -> Step:
        """What is done to what."""
        return self.message.operation, self.message.resource


class Connected(msgspec.Struct):
    """A connection of the capture."""

    up: float
    down: float = float("inf")
    messages: list[Captured] = []


class Life(msgspec.Struct, frozen=True):
    """What happened between two starts of the agent."""

    connections: list[Connected]

    @property
    def began(self) -> float:
        """When its first connection was made."""
        return self.connections[0].up

    @property
    def messages(self) -> list[Captured]:
        """All of it, in order."""
        return [one for connection in self.connections for one in connection.messages]


def connections(recorded: Recorded) -> list[Connected]:
    """The connections between edge and cloud, in the order of their beginning; at least one."""
    found: list[Connected] = []
    current: dict[int, Connected] = {}
    for record in recorded.records:
        if isinstance(record, LinkFrame):
            if record.connection not in current:
                found.append(current.setdefault(record.connection, _connected(record.time)))
            one = _captured(record)
            current[record.connection].messages += [] if one is None else [one]
        elif isinstance(record, Note) and record.kind == NoteKind.FOREIGN and (number := _number(record.data)):
            if _is_upgrade(record.data):
                found.append(_connected(record.time))
                current[number] = found[-1]
            elif record.data.get("kind") in ("close", "end") and number in current:
                current[number].down = min(current[number].down, record.time)
    return _ended([one for one in found if one.messages]) or [_connected(0.0)]


def lives(found: list[Connected], node: str) -> list[Life]:
    """Connections by the lives of the agent."""
    made: list[Life] = []
    for connection in found:
        if not made or registers(connection, node):
            made.append(Life([]))
        made[-1].connections.append(connection)
    return made


def node_in(messages: list[Captured]) -> str:
    """Name of the node that speaks: by what it says of itself, or by the pods that it is given."""
    for one in messages:
        parts = one.message.resource.split("/")
        if len(parts) == 3 and parts[1] in _NODE_TYPES:
            return parts[2]
    given = (_POD_OF.search(one.message.content) for one in messages if one.to_edge)
    return next((found.group(1).decode() for found in given if found is not None), "node")


def _captured(frame: LinkFrame) -> Captured | None:
    message = message_of(frame.frame)
    return None if message is None else Captured(frame.time, frame.direction is Direction.IN, message)


def _connected(up: float) -> Connected:
    return Connected(up, messages=[])


def _number(line: Any) -> int:
    """Number of the connection to the cloud that a line is about; 0 for none."""
    listener, number = line.get("listener"), line.get("conn")
    about = isinstance(listener, str) and listener.startswith("ws") and isinstance(number, int)
    return number if about else 0


def _is_upgrade(line: dict[str, Any]) -> bool:
    return line.get("kind") == "http-request" and "/events" in str(line.get("line", ""))


def registers(connection: Connected, node: str) -> bool:
    """Whether an agent that was started registers its node on a connection."""
    registration = ("insert", f"null/node/{node}")
    return any(
        one.step == registration and one.time < connection.up + _REGISTERS
        for one in connection.messages
        if not one.to_edge
    )


def _ended(found: list[Connected]) -> list[Connected]:
    """Each connection ends before the next one begins; the last one need not end."""
    found = sorted(found, key=lambda one: one.up)
    for one, following in pairwise(found):
        last = min(one.messages[-1].time, following.up)
        one.down = min(one.down, following.up) if one.down != float("inf") else (last + following.up) / 2
    return found
