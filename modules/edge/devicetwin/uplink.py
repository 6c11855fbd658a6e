"""Sends the cloud the changes of devices that it has not confirmed: KubeEdge's confirm protocol, one message for each
device.

A message is encoded when it leaves, from all unconfirmed values of the device, so a newer value replaces an older one
and no property is forgotten. The next message about a device leaves after the answer to the previous one, so an old
value never overwrites a newer one. Nothing is sent without a connection; after a reconnect each device sends its
unconfirmed values once. A KubeEdge cloud does not answer a message that it could not carry out; the message is then
repeated with growing delays.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any, Final, Protocol

import msgspec

from beehive import Group, Message, Module, ModuleName, Operation, Timer
from beehive.backoff import doubled
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.names import OK
from modules.edge.devicetwin import answers, topics
from modules.edge.devicetwin.slots import Slots
from modules.edge.devicetwin.state import Device, Times

_log = logging.getLogger(__name__)

WINDOW: Final = 32
"""Largest number of messages that wait for an answer."""

PATIENCE: Final = 60.0
"""Seconds to wait for an answer to the first attempt; doubled with each repetition."""

LONGEST_PATIENCE: Final = 600.0

_TEMPORARY: Final = (408, 429)
_CONFLICT: Final = 409
_LATEST: Final = 2**53
"""Milliseconds; a number that every JSON decoder reads exactly."""


class Verdict(msgspec.Struct, frozen=True):
    """The meaning of the cloud's answer."""

    taken: bool
    final: bool
    """Whether a repetition is useless."""
    reason: str = ""
    later: Times | None = None
    """Times of the values that the cloud has: the message's values count with later times."""


class Flight(msgspec.Struct, frozen=True):
    """A message that waits for its answer."""

    device: str
    is_state: bool
    number: int
    """Number of the last change in the message."""
    tries: int
    timer: Timer


class Repetition(msgspec.Struct, frozen=True):
    """A message that the cloud has not taken, and that waits until it is due again."""

    number: int
    """Number of the last change in the message."""
    timer: Timer


Key = tuple[str, bool]


class ConfirmedDevices(Protocol):
    """The devices whose states and values the cloud confirms."""

    def answered(self, device_id: str, is_state: bool, number: int, *, refused: bool) -> None:
        """Handle the cloud's confirmation, or its final refusal, of what had a number."""

    def overtaken(self, device_id: str, later: Times) -> None:
        """Give the values of a device later times than the cloud has."""


class Uplink:
    """The sender of states and values to the cloud until they are confirmed.

    Args:
        module: devicetwin; everything runs on its thread.
        node: name of the node.
        slots: have the committed states of devices.
        devices: get the cloud's confirmations.
    """

    def __init__(
        self,
        module: Module,
        node: str,
        slots: Slots,
        devices: ConfirmedDevices,
    ) -> None:
        self._module = module
        self._node = node
        self._slots = slots
        self._devices = devices
        self._connected = False
        self._due: OrderedDict[Key, int] = OrderedDict()
        """Devices with unsent changes, with the number of attempts so far."""
        self._flights: dict[str, Flight] = {}
        self._flying: set[Key] = set()
        self._repetitions: dict[Key, Repetition] = {}

    @property
    def waiting(self) -> int:
        """Number of messages that are due or without an answer."""
        return len(self._due) + len(self._flights)

    def connected(self) -> None:
        """Request the list of the node's devices, and send the values that are due."""
        self._drop_flights()
        self._connected = True
        clock = self._module.clock
        question = answers.detail_question(self._node, clock.new_id(), clock.now_ms())
        self._send(self._message(topics.MEMBERSHIP_DETAIL, topics.DETAIL_OPERATION, question))
        self._pump()

    def disconnected(self) -> None:
        """Keep all unanswered messages for the next connection."""
        self._connected = False
        self._drop_flights()

    def enqueue(self, device: Device) -> None:
        """Queue the state and the values of a committed device for the cloud, if they have changed. What waits for its
        repetition goes on waiting, unless there is something newer.
        """
        for key, is_due in (((device.id, True), device.state_due), ((device.id, False), device.twins_are_due)):
            repetition = self._repetitions.get(key)
            if is_due and (repetition is None or repetition.number != device.number):
                self._end_repetition(key)
                self._enqueue(key, 0)
        self._pump()

    def forget(self, device_id: str) -> None:
        """Forget the messages about a device that is gone: an answer to them confirms nothing of a later one. Others
        get their places.
        """
        for message_id, flight in list(self._flights.items()):
            if flight.device == device_id:
                flight.timer.cancel()
                del self._flights[message_id]
        for key in ((device_id, False), (device_id, True)):
            self._flying.discard(key)
            self._due.pop(key, None)
            self._end_repetition(key)
        self._pump()

    def handle(self, answer: Message) -> None:
        """Handle an answer of the cloud; an unexpected one is ignored."""
        flight = self._flights.pop(answer.parent_id, None)
        if flight is None:
            return
        flight.timer.cancel()
        key = (flight.device, flight.is_state)
        self._flying.discard(key)
        verdict = verdict_of(answer)
        if verdict.later:
            _log.info("the cloud has values of %s with later times: its values are told again", flight.device)
            self._devices.overtaken(flight.device, verdict.later)
            if flight.tries:
                self._repeat_later(key, flight)
            else:
                self._enqueue(key, 1)
            self._pump()
            return
        if not verdict.taken:
            what = topics.upload_resource(flight.device, state=flight.is_state)
            _log.warning("the cloud does not take %s: %s", what, verdict.reason)
        if verdict.taken or verdict.final:
            self._devices.answered(flight.device, flight.is_state, flight.number, refused=not verdict.taken)
            device = self._slots.saved(flight.device)
            if device is not None:
                self.enqueue(device)
        else:
            self._repeat_later(key, flight)
        self._pump()

    def _repeat_later(self, key: Key, flight: Flight) -> None:
        pause = doubled(PATIENCE, flight.tries, LONGEST_PATIENCE)
        timer = self._module.after(pause, lambda: self._again(key, flight.tries + 1))
        self._repetitions[key] = Repetition(flight.number, timer)

    def _end_repetition(self, key: Key) -> None:
        repetition = self._repetitions.pop(key, None)
        if repetition is not None:
            repetition.timer.cancel()

    def _again(self, key: Key, tries: int) -> None:
        self._repetitions.pop(key, None)
        self._enqueue(key, tries)
        self._pump()

    def _enqueue(self, key: Key, tries: int) -> None:
        if key not in self._flying:
            self._due.setdefault(key, tries)

    def _pump(self) -> None:
        while self._connected and self._due and len(self._flights) < WINDOW:
            key, tries = self._due.popitem(last=False)
            device = self._slots.saved(key[0])
            if device is not None and (device.state_due if key[1] else device.twins_are_due):
                self._fly(key, device, tries)

    def _fly(self, key: Key, device: Device, tries: int) -> None:
        clock = self._module.clock
        event_id, now = clock.new_id(), clock.now_ms()
        content: Any = answers.upload(device, event_id, now)
        if key[1]:
            content = msgspec.json.encode(answers.state_json(device, event_id, now)).decode()
        message = self._message(topics.upload_resource(device.id, state=key[1]), Operation.UPDATE, content)
        timer = self._module.after(doubled(PATIENCE, tries, LONGEST_PATIENCE), lambda: self._expired(message.id))
        self._flights[message.id] = Flight(device.id, key[1], device.number, tries, timer)
        self._flying.add(key)
        self._send(message)

    def _expired(self, message_id: str) -> None:
        flight = self._flights.pop(message_id, None)
        if flight is None:
            return
        key = (flight.device, flight.is_state)
        self._flying.discard(key)
        self._again(key, flight.tries + 1)

    def _drop_flights(self) -> None:
        """Queue all messages again that are not answered, or not taken, before all others."""
        unsent = [(flight.device, flight.is_state) for flight in self._flights.values()]
        unsent += self._repetitions
        for flight in self._flights.values():
            flight.timer.cancel()
        for key in reversed(unsent):
            self._end_repetition(key)
            self._due[key] = 0
            self._due.move_to_end(key, last=False)
        self._flights.clear()
        self._flying.clear()

    def _message(self, resource: str, operation: str, content: Any) -> Message:
        return self._module.message(resource, operation, content, group=Group.RESOURCE)

    def _send(self, message: Message) -> None:
        self._module.send(ModuleName.EDGEHUB, message)


def verdict_of(answer: Message) -> Verdict:
    """Return the meaning of an answer: `OK`, a text, or an object with an HTTP status (this project's cloud refuses in
    this form).

    A text other than `OK`, and an error without a code, may be temporary.
    """
    try:
        content: Any = decode_json(answer.content_raw(), Any)
    except (BeehiveError, msgspec.DecodeError, UnicodeError) as error:
        return Verdict(taken=False, final=False, reason=str(error))
    if answer.route.operation != Operation.ERROR and not isinstance(content, dict):
        taken = content is None or content == OK
        return Verdict(taken=taken, final=taken, reason="" if taken else str(content)[:200])
    code = content.get("code") if isinstance(content, dict) else None
    reason = content.get("reason") if isinstance(content, dict) else content
    if isinstance(code, int) and 200 <= code < 300:
        return Verdict(taken=True, final=True)
    later = _later(content.get("twin")) if isinstance(content, dict) and code == _CONFLICT else None
    if later:
        return Verdict(taken=False, final=False, later=later)
    final = isinstance(code, int) and 400 <= code < 500 and code not in _TEMPORARY
    return Verdict(taken=False, final=final, reason=str(reason)[:200])


def _later(twins: Any) -> Times:
    """Return the times in an answer, without invalid ones."""
    made: dict[str, dict[str, int]] = {}
    for name, twin in twins.items() if isinstance(twins, dict) else ():
        sides = {side: _time(twin.get(side)) for side in ("actual", "expected")} if isinstance(twin, dict) else {}
        known = {side: time for side, time in sides.items() if time}
        if known:
            made[name] = known
    return made


def _time(side: Any) -> int:
    metadata = side.get("metadata") if isinstance(side, dict) else None
    time = metadata.get("timestamp") if isinstance(metadata, dict) else None
    return time if type(time) is int and 0 < time < _LATEST else 0
