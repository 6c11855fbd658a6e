"""What a capture says: messages with their time and direction."""

import msgspec

from beehive.trace import Direction, RecordedMessage
from modules.replay.outputs import message_of
from modules.replay.recorded import Recorded

Step = tuple[str, str]
"""Operation and resource."""


class Captured(msgspec.Struct, frozen=True):
    """A message of the capture."""

    time: float
    to_edge: bool
    message: RecordedMessage

    @property
    def step(self) -> Step:
        """What is done to what."""
        return self.message.operation, self.message.resource


def captured(recorded: Recorded) -> list[Captured]:
    found = []
    for frame in recorded.frames():
        message = message_of(frame.frame)
        if message is not None:
            found.append(Captured(frame.time, frame.direction is Direction.IN, message))
    return found


def node_in(messages: list[Captured]) -> str:
    """Name of the node that speaks."""
    for one in messages:
        parts = one.message.resource.split("/")
        if len(parts) == 3 and parts[1] in ("node", "nodepatch", "nodestatus", "lease"):
            return parts[2]
    return "node"
