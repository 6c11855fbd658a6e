"""Reads a capture: messages with time and direction, by connections and by runs of the agent.

A proxy between cloud and edge numbers its connections, from 1 again when it restarts. A connection begins with its
upgrade request, or with its first frame if the capture begins later. It ends when a side closes it. If neither did,
because the cloud was killed or a cable was pulled, it ends halfway between its last frame and the next connection.

An agent that starts registers its node; one that reconnects does not. So a connection that registers the node begins a
run, except the first connection, which always does.
"""

import re
from itertools import pairwise
from typing import Any, Final

import msgspec

from beehive.trace import Direction, LinkFrame, Note, NoteKind, RecordedMessage
from modules.lab.replay.outputs import message_of
from modules.lab.replay.recorded import Recorded

Step = tuple[str, str]
"""Operation and resource."""

_NODE_TYPES: Final = ("node", "nodepatch", "nodestatus", "lease")
_POD_OF: Final = re.compile(rb'"nodeName"\s*:\s*"([^"]+)"')
_REGISTERS: Final = 10.0
"""Seconds after the beginning of a connection within which a started agent registers its node."""


class CapturedMessage(msgspec.Struct, frozen=True):
    """A message of the capture."""

    time: float
    to_edge: bool
    message: RecordedMessage

    @property
    def step(self) -> Step:
        """Operation and resource."""
        return self.message.operation, self.message.resource


class CapturedConnection(msgspec.Struct):
    """A connection of the capture."""

    up: float
    down: float = float("inf")
    messages: list[CapturedMessage] = []


class AgentRun(msgspec.Struct, frozen=True):
    """The connections between two starts of the agent."""

    connections: list[CapturedConnection]

    @property
    def began(self) -> float:
        """When its first connection was made."""
        return self.connections[0].up

    @property
    def messages(self) -> list[CapturedMessage]:
        """All its messages, in order."""
        return [one for connection in self.connections for one in connection.messages]


def connections(recorded: Recorded) -> list[CapturedConnection]:
    """Return the connections between edge and cloud in the order of their beginnings; at least one."""
    found: list[CapturedConnection] = []
    current: dict[int, CapturedConnection] = {}
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


def agent_runs(found: list[CapturedConnection], node: str) -> list[AgentRun]:
    """Group connections by runs of the agent."""
    made: list[AgentRun] = []
    for connection in found:
        if not made or registers(connection, node):
            made.append(AgentRun([]))
        made[-1].connections.append(connection)
    return made


def node_in(messages: list[CapturedMessage]) -> str:
    """Return the node's name, from the messages about the node itself, or from the pods that it receives."""
    for one in messages:
        parts = one.message.resource.split("/")
        if len(parts) == 3 and parts[1] in _NODE_TYPES:
            return parts[2]
    given = (_POD_OF.search(one.message.content) for one in messages if one.to_edge)
    return next((found.group(1).decode() for found in given if found is not None), "node")


def _captured(frame: LinkFrame) -> CapturedMessage | None:
    message = message_of(frame.frame)
    return None if message is None else CapturedMessage(frame.time, frame.direction is Direction.IN, message)


def _connected(up: float) -> CapturedConnection:
    return CapturedConnection(up, messages=[])


def _number(line: Any) -> int:
    """Return the number of the connection to the cloud in a capture's line; 0 if the line is about something else."""
    listener, number = line.get("listener"), line.get("conn")
    about = isinstance(listener, str) and listener.startswith("ws") and isinstance(number, int)
    return number if about else 0


def _is_upgrade(line: dict[str, Any]) -> bool:
    return line.get("kind") == "http-request" and "/events" in str(line.get("line", ""))


def registers(connection: CapturedConnection, node: str) -> bool:
    """Return whether a started agent registers its node on a connection."""
    registration = ("insert", f"null/node/{node}")
    return any(
        one.step == registration and one.time < connection.up + _REGISTERS
        for one in connection.messages
        if not one.to_edge
    )


def _ended(found: list[CapturedConnection]) -> list[CapturedConnection]:
    """Let each connection end before the next one begins; the last one need not end."""
    found = sorted(found, key=lambda one: one.up)
    for one, following in pairwise(found):
        last = min(one.messages[-1].time, following.up)
        one.down = min(one.down, following.up) if one.down != float("inf") else (last + following.up) / 2
    return found
