"""The cloud of a capture as a peer of our edge."""

from collections import defaultdict
from typing import Any, Final

from beehive import Message, decode, encode
from beehive.names import Group, ModuleName, Operation
from beehive.simulation import Simulation
from edgehub.errors import ClosedHereError, LinkError, LinkLostError
from edgehub.link import Link, LinkEvents
from modules.lab.replay.capture import AgentRun, CapturedConnection, CapturedMessage, Step

_LATENCY: Final = 0.01
"""Seconds until the cloud answers."""
_REGISTERING: Final = (Operation.INSERT, Operation.UPDATE)
_LOST: Final = "the captured connection ended"


class CapturedCloud:
    """The messages of the real cloud, sent during one run of the agent: answers when our edge asks, all others at their
    time.

    Args:
        simulation: source of time.
        agent_run: the run of the agent.
        before: messages of earlier runs, which answer questions that this run does not.
        node: name of the node.
    """

    def __init__(self, simulation: Simulation, agent_run: AgentRun, before: list[CapturedMessage], node: str) -> None:
        self.simulation = simulation
        self.sent = 0
        self._node = f"null/node/{node}"
        self._connections = agent_run.connections
        self._to_edge = [one for one in (*before, *agent_run.messages) if one.to_edge]
        steps = {one.message.id: one.step for one in agent_run.messages if not one.to_edge}
        self._answers: dict[Step, list[Message]] = defaultdict(list)
        for one in agent_run.messages:
            asked = steps.get(one.message.parent_id)
            if one.to_edge and asked is not None:
                self._answers[asked].append(one.message.message())
        self._answers_to = frozenset(steps)
        self._numbers: dict[Step, int] = defaultdict(int)
        self._sent: set[str] = set()
        """Ids of unasked messages that are sent."""

    def connection(self) -> CapturedConnection | None:
        """Return the current connection, else the next one, else None."""
        now = self.simulation.clock.monotonic()
        return next((one for one in self._connections if one.down > now), None)

    def unasked(self, connection: CapturedConnection) -> list[CapturedMessage]:
        """Return the messages on a connection that answer no question and are not sent yet."""
        sent = [one for one in connection.messages if one.to_edge and one.message.parent_id not in self._answers_to]
        return [one for one in sent if one.message.id not in self._sent]

    def frame_of(self, one: CapturedMessage) -> bytes:
        """Return the frame of such a message; it counts as sent, also if our edge reconnects."""
        self._sent.add(one.message.id)
        return encode(one.message.message())

    def answer(self, frame: bytes) -> bytes | None:
        """Return the answer to a message of our edge: the captured one to the same question, or the last one; None
        without one.
        """
        asked = decode(frame)
        step = (asked.route.operation, asked.route.resource)
        if asked.parent_id:
            return None
        answers = self._answers.get(step) or self._last_object(asked) or self._registration(asked)
        if not answers:
            return None
        number = self._numbers[step]
        self._numbers[step] += 1
        answer = answers[min(number, len(answers) - 1)]
        key = answer.id if number < len(answers) else f"{answer.id}#{number}"
        return encode(answer.with_header(msg_id=key, parent_msg_id=asked.id))

    def _last_object(self, asked: Message) -> list[Message]:
        """Return an answer to a question that the real edge did not ask: the object as the cloud sent it last before
        now, else first. A capture that begins after the node has asked needs it.
        """
        resource = asked.route.resource
        objects = [one for one in self._to_edge if one.message.resource == resource and one.message.content[:1] == b"{"]
        if asked.route.operation != Operation.QUERY or not objects:
            return []
        now = self.simulation.clock.monotonic()
        one = next((one for one in reversed(objects) if one.time <= now), objects[0])
        message = one.message.message()
        return [message.with_route(operation=Operation.RESPONSE).with_header(msg_id=f"{message.id}#{asked.id}")]

    def _registration(self, asked: Message) -> list[Message]:
        """Return the answer to a node that registers itself, for a capture that begins later than that."""
        if asked.route.resource != self._node or asked.route.operation not in _REGISTERING:
            return []
        answer = asked.with_content({"Object": asked.content_as(dict), "Err": None})
        route = {"source": ModuleName.EDGECONTROLLER, "group": Group.RESOURCE, "operation": Operation.RESPONSE}
        return [answer.with_route(**route).with_header(msg_id=f"registered#{asked.id}")]


class CapturedLink(Link):
    """A link to the captured cloud; up while a captured connection was up."""

    def __init__(self, cloud: CapturedCloud) -> None:
        self._cloud = cloud
        self._clock = cloud.simulation.clock
        self._queue: Any = cloud.simulation.queue()

    def run(self, events: LinkEvents) -> LinkError:
        """Connect when the captured edge did, and serve until the connection ends (`Link.run`)."""
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
        """Confirm the frame immediately and let the cloud answer it."""
        self._queue.put(1)
        answer = self._cloud.answer(frame)
        if answer is not None:
            self._later(self._clock.monotonic() + _LATENCY, answer)

    def close(self) -> None:
        """End the connection."""
        self._queue.put(ClosedHereError())

    def _serve(self, events: LinkEvents) -> LinkError:
        while not isinstance(item := self._queue.get(), LinkError):
            if isinstance(item, int):
                events.confirmed(item)
            else:
                self._cloud.sent += 1
                events.received(self._cloud.frame_of(item) if isinstance(item, CapturedMessage) else item)
        return item

    def _later(self, time: float, item: object) -> None:
        self._clock.after(max(0.0, time - self._clock.monotonic()), lambda: self._queue.put(item))
