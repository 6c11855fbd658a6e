"""The cloud of a capture, as our edge meets it: it says what the real one said, on the connections that there were."""

from collections import defaultdict
from typing import Any, Final

from beehive import Message, decode, encode
from beehive.names import Group, ModuleName, Operation
from beehive.simulation import Simulation
from edgehub.errors import ClosedHereError, LinkError, LinkLostError
from edgehub.link import Link, LinkEvents
from modules.replay.capture import Captured, Connected, Life, Step

_LATENCY: Final = 0.01
"""Seconds after which the cloud answers."""
_SAID: Final = (Operation.INSERT, Operation.UPDATE)
_LOST: Final = "the captured connection ended"


class CapturedCloud:
    """What the real cloud said during one life of the edge: answers when ours asks, everything else at its time.

    Args:
        simulation: gives time.
        life: the life.
        before: what was captured of earlier ones, for what nobody asked in this one.
        node: name of the node.
    """

    def __init__(self, simulation: Simulation, life: Life, before: list[Captured], node: str) -> None:
        self.simulation = simulation
        self.said = 0
        self._node = f"null/node/{node}"
        self._connections = life.connections
        self._told = [one for one in (*before, *life.messages) if one.to_edge]
        steps = {one.message.id: one.step for one in life.messages if not one.to_edge}
        self._answers: dict[Step, list[Message]] = defaultdict(list)
        for one in life.messages:
            asked = steps.get(one.message.parent_id)
            if one.to_edge and asked is not None:
                self._answers[asked].append(one.message.message())
        self._answers_to = frozenset(steps)
        self._numbers: dict[Step, int] = defaultdict(int)
        self._over: set[str] = set()
        """Ids of what has been said of itself."""

    def connection(self) -> Connected | None:
        """The connection that is there now, or is the next; None when there is none any more."""
        now = self.simulation.clock.monotonic()
        return next((one for one in self._connections if one.down > now), None)

    def unasked(self, connection: Connected) -> list[Captured]:
        """What it has to say of itself on a connection."""
        said = [one for one in connection.messages if one.to_edge and one.message.parent_id not in self._answers_to]
        return [one for one in said if one.message.id not in self._over]

    def tell(self, one: Captured) -> bytes:
        """Something that it says of itself; once, also when our edge connects anew."""
        self._over.add(one.message.id)
        return encode(one.message.message())

    def answer(self, frame: bytes) -> bytes | None:
        """The answer to a message of our edge: that to the same question of the real one, or to its last."""
        asked = decode(frame)
        step = (asked.route.operation, asked.route.resource)
        if asked.parent_id:
            return None
        answers = self._answers.get(step) or self._as_told(asked) or self._as_said(asked)
        if not answers:
            return None
        number = self._numbers[step]
        self._numbers[step] += 1
        answer = answers[min(number, len(answers) - 1)]
        key = answer.id if number < len(answers) else f"{answer.id}#{number}"
        return encode(answer.with_header(msg_id=key, parent_msg_id=asked.id))

    def _as_told(self, asked: Message) -> list[Message]:
        """What the cloud would have answered to a question that the real edge did not ask: the object as it was told of
        last, or else first, for example where the capture begins after the node had asked.
        """
        resource = asked.route.resource
        told = [one for one in self._told if one.message.resource == resource and one.message.content[:1] == b"{"]
        if asked.route.operation != Operation.QUERY or not told:
            return []
        now = self.simulation.clock.monotonic()
        one = next((one for one in reversed(told) if one.time <= now), told[0])
        message = one.message.message()
        return [message.with_route(operation=Operation.RESPONSE).with_header(msg_id=f"{message.id}#{asked.id}")]

    def _as_said(self, asked: Message) -> list[Message]:
        """What the cloud would have answered to a node that registers itself, where the capture begins after that."""
        if asked.route.resource != self._node or asked.route.operation not in _SAID:
            return []
        answer = asked.with_content({"Object": asked.content_as(dict), "Err": None})
        route = {"source": ModuleName.EDGECONTROLLER, "group": Group.RESOURCE, "operation": Operation.RESPONSE}
        return [answer.with_route(**route).with_header(msg_id=f"registered#{asked.id}")]


class CapturedLink(Link):
    """A link to the captured cloud; up while a captured connection was."""

    def __init__(self, cloud: CapturedCloud) -> None:
        self._cloud = cloud
        self._clock = cloud.simulation.clock
        self._queue: Any = cloud.simulation.queue()

    def run(self, events: LinkEvents) -> LinkError:
        """See `Link`."""
        connection = self._cloud.connection()
        if connection is not None:
            self._later(connection.up, None)
        opened = self._queue.get()
        if connection is None or isinstance(opened, LinkError):
            return opened if isinstance(opened, LinkError) else LinkLostError(_LOST)
        events.opened()
        for one in self._cloud.unasked(connection):
            self._later(one.time, one)
        if connection.down != float("inf"):
            self._later(connection.down, LinkLostError(_LOST))
        return self._serve(events)

    def send(self, frame: bytes) -> None:
        """See `Link`."""
        self._queue.put(1)
        answer = self._cloud.answer(frame)
        if answer is not None:
            self._later(self._clock.monotonic() + _LATENCY, answer)

    def close(self) -> None:
        """See `Link`."""
        self._queue.put(ClosedHereError())

    def _serve(self, events: LinkEvents) -> LinkError:
        while not isinstance(item := self._queue.get(), LinkError):
            if isinstance(item, int):
                events.confirmed(item)
            else:
                self._cloud.said += 1
                events.received(self._cloud.tell(item) if isinstance(item, Captured) else item)
        return item

    def _later(self, time: float, item: object) -> None:
        self._clock.after(max(0.0, time - self._clock.monotonic()), lambda: self._queue.put(item))
