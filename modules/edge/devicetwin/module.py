"""The module devicetwin: devices, their properties and states, between applications, mappers and the cloud."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from beehive import Group, Message, Module, ModuleName, Operation, ResourceType, Source, Timer, handles
from beehive.errors import BeehiveError
from beehive.names import CLOUD_CONNECTED, OK
from metamanager.client import CallError
from modules.edge.devicetwin import answers, changes, owner, topics
from modules.edge.devicetwin.absent_objects import absent_queries
from modules.edge.devicetwin.answers import MessageStamp, Publication
from modules.edge.devicetwin.changes import Change, Rules
from modules.edge.devicetwin.errors import BAD_JSON, FAILED, FORBIDDEN, NO_DEVICE, NOT_FOUND, TwinRefused
from modules.edge.devicetwin.feed import DeviceFeed
from modules.edge.devicetwin.membership import Members
from modules.edge.devicetwin.owner import OwnerAnswer
from modules.edge.devicetwin.requests import (
    event_id_of,
    read_attributes,
    read_membership,
    read_object,
    read_refusal,
    read_state,
    read_twins,
)
from modules.edge.devicetwin.slots import Slots
from modules.edge.devicetwin.state import Device, Times, confirmed, moved_after, settled, state_confirmed
from modules.edge.devicetwin.store import MetaStore, Stored
from modules.edge.devicetwin.topics import Action, Asked
from modules.edge.devicetwin.uplink import Uplink

_log = logging.getLogger(__name__)

MOST_HELD: Final = 1024
"""Messages that may wait until the devices have been read from the store."""

READ_AGAIN_AFTER: Final = 5.0
"""Seconds before another attempt to read the store."""

REPEAT_AFTER: Final = 5.0
"""Seconds before another attempt to store devices that the cloud has sent."""

FLUSH_AFTER: Final = 5.0
"""Seconds after which the cloud's confirmations are stored. A lost confirmation only costs a repeated message."""

MAX_PAYLOAD: Final = 512 * 1024
"""Longest message of an application, in characters."""

BUSY: Final = "too many changes of this device wait for the node's database"


class TwinSettings(msgspec.Struct, frozen=True):
    """Settings of devicetwin."""

    node: str
    """Name of the node."""
    mqtt: bool = False
    """Whether eventbus runs; without it nothing is published."""
    mappers: bool = False
    """Whether dmi runs; it then gets the Device and DeviceModel objects."""
    rules: Rules = Rules()


class DeviceTwin(Module):
    """The module that keeps the devices of the node.

    It changes a device in memory, lets metamanager commit it, and then answers, publishes and tells the cloud (`slots`,
    `uplink`). The stored Device objects determine which devices exist and their desired values, no matter which cloud
    sent the objects (`membership`). No message of a device, an application or the cloud can end the module: an
    unreadable one is refused with a reason.

    Args:
        settings: of devicetwin.
        feed: receives each committed change.
    """

    name = ModuleName.DEVICETWIN
    group = Group.TWIN
    announces_readiness = True
    has_turn_clock = True

    def __init__(self, settings: TwinSettings, feed: DeviceFeed | None = None) -> None:
        super().__init__()
        self._settings = settings
        self._feed = feed
        self._rules = settings.rules
        self._held: deque[Message] | None = deque()
        self._flushing: Timer | None = None
        self._store = MetaStore(self)
        self._slots = Slots(self._store, self)
        self._uplink = Uplink(self, settings.node, self._slots, self)
        self._members = Members(self._slots, settings.node, settings.rules, self._repeat_later)
        self._absent = absent_queries(self)
        self._repeating: Timer | None = None

    def on_start(self) -> None:
        """Read the devices. edgehub announces a connection once: after a restart the module assumes one."""
        self._connected = self.slot.restarts > 0
        self._store.load(self._loaded)

    def on_stop(self) -> None:
        """Store the cloud's confirmations."""
        self._slots.flush()

    @handles(ResourceType.CONNECTION, Operation.CONNECT, source=Source.EDGEHUB)
    def connection_changed(self, message: Message) -> None:
        """Take edgehub's connection event."""
        try:
            self._connected = message.content_as(str) == CLOUD_CONNECTED
        except BeehiveError as error:
            _log.warning("%s", error)
            return
        if self._held is None:
            self._link_changed()

    @handles()
    def handle(self, message: Message) -> None:
        """Handle any other message, or hold it until the devices are known."""
        if self._held is not None:
            if len(self._held) < MOST_HELD:
                self._held.append(message)
            else:
                self._reply(message, FAILED, "the node's devices are not read yet")
            return
        asked = topics.asked_by(message, self._settings.node)
        try:
            _ACTIONS[asked.action](self, message, asked)
        except TwinRefused as refused:
            self._refuse(message, asked, refused)
        except BeehiveError as error:
            _log.warning("%s", error)
            self._reply(message, FAILED, str(error))

    def _loaded(self, stored: Stored | CallError) -> None:
        if isinstance(stored, CallError):
            _log.error("the devices are not read, and are asked for again: %s", stored)
            self.announce_not_ready(f"the devices are not read: {stored}")
            self.after(READ_AGAIN_AFTER, lambda: self._store.load(self._loaded))
            return
        held, self._held = self._held or deque(), None
        self._log_notes(self._members.load(stored, self._stamp()))
        for device in self._slots.all():
            self._uplink.enqueue(device)
        self._publish_deltas()
        self._link_changed()
        for message in held:
            self.handle(message)
        self.announce_ready()

    def _publish_deltas(self) -> None:
        """Publish the expected values again: messages that the previous process had not published are lost."""
        if not self._rules.like_kubeedge:
            for device in self._slots.all():
                for said in answers.delta(device, self._stamp()):
                    self.publish(said)

    def _link_changed(self) -> None:
        if self._connected:
            self._uplink.connected()
        else:
            self._uplink.disconnected()
            self._absent.cancel()

    def _confirm(self, message: Message, _asked: Asked) -> None:
        self._uplink.handle(message)

    def _device(self, asked: Asked, event_id: str, reason: str = NO_DEVICE) -> Device:
        """Return the device of a request. Raises TwinRefused with the reason if there is none."""
        device = self._slots.get(asked.id)
        if device is None:
            raise TwinRefused(NOT_FOUND, reason, event_id)
        return device

    def _twin_update(self, message: Message, asked: Asked) -> None:
        request = read_twins(_request(message), plain=self._rules.like_kubeedge)
        device, models = self._device(asked, request.event_id), self._members.models_of(asked.id)
        self._change(message, changes.update_twins(device, request, models, self._stamp(), self._rules))

    def _twin_get(self, message: Message, asked: Asked) -> None:
        event_id = _event_id(message, "Unmarshal twin info not json failed , err: not a JSON object")
        device = self._device(asked, event_id, f"Device {asked.id} not found while getting twin")
        self._change(message, Change(device, (answers.get_result(device, event_id, self.clock.now_ms()),)))

    def _twin_sync(self, message: Message, asked: Asked) -> None:
        request = read_twins(_request(message))
        device, models = self._device(asked, request.event_id), self._members.models_of(asked.id)
        change = changes.sync_twins(device, request.twins, models, request.event_id, self._stamp(), self._rules)
        self._change(message, change)

    def _state_update(self, message: Message, asked: Asked) -> None:
        request = _request(message)
        state, event_id = read_state(request), event_id_of(request)
        device = self._device(asked, event_id)
        change = changes.set_state(device, state, event_id, self._stamp(), self._rules, read_refusal(request))
        self._change(message, change)

    def _state_get(self, message: Message, asked: Asked) -> None:
        event_id = _event_id(message, BAD_JSON)
        device = self._device(asked, event_id, f"Device {asked.id} not found while getting state")
        said = answers.state_result(device, event_id, self.clock.now_ms(), topics.STATE_GET_RESULT)
        self._change(message, Change(device, (said,)))

    def _attributes(self, message: Message, asked: Asked) -> None:
        request = _request(message)
        event_id = event_id_of(request)
        device = self._device(asked, event_id)
        self._change(message, changes.set_attributes(device, read_attributes(request), event_id, self._stamp()))

    def _owner(self, message: Message, asked: Asked) -> None:
        """Set desired values for the node's owner, and answer with a code and a reason."""
        wanted = owner.read_desired(message.content_bytes())
        device = self._slots.get(asked.id)
        if device is None:
            raise owner.unknown_device(asked.id, [one.id for one in self._slots.all()])
        models, named = self._members.models_of(asked.id), self._members.named_by(asked.id)
        self._change(message, owner.set_desired(device, wanted, models, named, self._stamp(), self._rules))

    def _desired_by_owner(self, message: Message, _asked: Asked) -> None:
        """Answer dmi, which tells mappers."""
        found = {device.id: device.desired_by_owner for device in self._slots.all()}
        self.reply(message, {each: values for each, values in found.items() if values})

    def _membership(self, message: Message, _asked: Asked) -> None:
        asked = read_membership(_request(message))
        self._log_notes(self._members.handle(asked, self._stamp()))
        if asked.devices is not None:
            self._absent.ask(self._members.absent_from(asked.devices))

    def _membership_get(self, message: Message, _asked: Asked) -> None:
        event_id = _event_id(message, BAD_JSON)
        said = answers.members(self._settings.node, event_id, self.clock.now_ms(), self._slots.all())
        self.publish(said)
        self._reply(message)

    def _object(self, message: Message, _asked: Asked) -> None:
        """Take a Device or DeviceModel that metamanager has stored or deleted."""
        if message.route.operation == Operation.DELETE and self._members.is_late_deletion(message):
            return
        self._log_notes(self._members.handle_object(message, self._stamp()))
        if self._settings.mappers:
            self.send(ModuleName.DMI, message)

    def _forbidden(self, message: Message, _asked: Asked) -> None:
        topic = topics.topic_of(message.route.resource)
        _log.warning("refused: a message of an application under %s, a topic of the cloud", topic)
        self._reply(message, FORBIDDEN, "only the cloud uses this topic")

    def _unknown(self, message: Message, _asked: Asked) -> None:
        route = message.route
        _log.warning("not for devices: %s %s from %s", route.operation, route.resource[:200], route.source)
        self._reply(message, NOT_FOUND, "devicetwin knows no such message")

    def _change(self, message: Message, change: Change) -> None:
        """Commit a change, then answer the message's sender."""
        if not self._slots.has_room(change.device.id):
            self._reply(message, FAILED, BUSY)
            if change.failed is not None:
                self.publish(change.failed)
            return
        self._log_notes(change.notes)

        def done(stored: bool) -> None:
            if stored:
                self._reply(message, state=change.device.state)
            else:
                self._reply(message, FAILED, changes.NOT_STORED)

        self._slots.change(change.device, change.publications, change.failed, done)

    def committed(self, before: Device | None, device: Device | None) -> None:
        """Take a device before and after a commit; None if it did not exist."""
        if before is not None and device is None:
            self._uplink.forget(before.id)
        if device is not None:
            self._uplink.enqueue(device)
        if self._feed is not None:
            self._feed.put(before, device)
        known = device or before
        if self._settings.mappers and known is not None and known.has_object:
            self._notify_mappers(known.id, before, device)

    def _notify_mappers(self, device_id: str, before: Device | None, device: Device | None) -> None:
        was, values = (one.desired_by_owner if one is not None else {} for one in (before, device))
        if values != was:
            self.send(ModuleName.DMI, self.message(topics.mapper_resource(device_id), Operation.UPDATE, values))

    def answered(self, device_id: str, is_state: bool, number: int, *, refused: bool) -> None:
        """Note the cloud's confirmation, and store it a little later."""
        forget = state_confirmed if is_state else settled if refused else confirmed
        self._amend(device_id, lambda device: forget(device, number))

    def overtaken(self, device_id: str, later: Times) -> None:
        """Give the values of a device later times than the cloud has."""
        self._amend(device_id, lambda device: moved_after(device, later))

    def _amend(self, device_id: str, change: Callable[[Device], Device]) -> None:
        self._slots.amend(device_id, change)
        if self._flushing is None:
            self._flushing = self.after(FLUSH_AFTER, self._flush)

    def _flush(self) -> None:
        self._flushing = None
        self._slots.flush()

    def _repeat_later(self) -> None:
        """Repeat later the changes that the store has refused."""
        if self._repeating is None:
            self._repeating = self.after(REPEAT_AFTER, self._repeat)

    def _repeat(self) -> None:
        self._repeating = None
        self._log_notes(self._members.repeat(self._stamp()))

    def _refuse(self, message: Message, asked: Asked, refused: TwinRefused) -> None:
        """Publish a refusal on the topic for answers to the request, with its event_id."""
        end = _RESULTS.get(asked.action)
        if message.route.source == Source.BUS and end is not None:
            topic = topics.device_topic(asked.id, end) if asked.id else topics.node_topic(self._settings.node, end)
            now = self.clock.now_ms()
            self.publish(answers.error(topic, refused.event_id, now, refused.code, refused.reason))
        else:
            _log.warning("not taken: %s: %s", message.route.resource[:200], refused.reason)
        self._reply(message, refused.code, refused.reason)

    def _reply(self, message: Message, code: int = 0, reason: str = "", state: str = "") -> None:
        """Answer a waiting sender: eventbus then acknowledges the message to its broker, and dmi answers the mapper.

        A refusal is final, and the application has received it; after a failure the message may be sent again. dmi
        learns that the state of the device is unknown, which an earlier process may have set.
        """
        if not message.header.sync:
            return
        if message.route.source == topics.OWNER_SOURCE:
            self.reply(message, OwnerAnswer(code, reason))
            return
        if code >= FAILED:
            self.respond(message.error(self.clock, reason, source=self.name))
        else:
            taken = {"state": state} if state.lower() == changes.UNKNOWN else OK
            self.reply(message, {"code": code, "reason": reason} if code else taken)

    def publish(self, said: Publication) -> None:
        """Send a message to applications."""
        if self._settings.mqtt:
            message = self.message(said.topic, Operation.PUBLISH, said.payload.decode(), group=Group.BUS)
            self.send(ModuleName.EVENTBUS, message)

    def _stamp(self) -> MessageStamp:
        return MessageStamp(self.clock.now_ms(), self.clock.new_id)

    def _log_notes(self, notes: tuple[str, ...]) -> None:
        for note in notes:
            _log.warning("%s", note)


_ACTIONS: Final[dict[Action, Callable[[DeviceTwin, Message, Asked], None]]] = {
    Action.CONFIRM: DeviceTwin._confirm,
    Action.TWIN_GET: DeviceTwin._twin_get,
    Action.TWIN_UPDATE: DeviceTwin._twin_update,
    Action.TWIN_SYNC: DeviceTwin._twin_sync,
    Action.STATE_GET: DeviceTwin._state_get,
    Action.STATE_UPDATE: DeviceTwin._state_update,
    Action.ATTRIBUTES: DeviceTwin._attributes,
    Action.OWNER: DeviceTwin._owner,
    Action.DESIRED_BY_OWNER: DeviceTwin._desired_by_owner,
    Action.MEMBERSHIP_GET: DeviceTwin._membership_get,
    Action.MEMBERSHIP: DeviceTwin._membership,
    Action.OBJECT: DeviceTwin._object,
    Action.FORBIDDEN: DeviceTwin._forbidden,
    Action.UNKNOWN: DeviceTwin._unknown,
}

_RESULTS: Final = {
    Action.TWIN_GET: topics.TWIN_GET_RESULT,
    Action.TWIN_UPDATE: topics.TWIN_RESULT,
    Action.STATE_GET: topics.STATE_GET_RESULT,
    Action.STATE_UPDATE: topics.STATE_RESULT,
    Action.MEMBERSHIP_GET: topics.MEMBERSHIP_RESULT,
}
"""Suffix of the topic with the answer to each kind of request of an application."""


def _request(message: Message) -> dict[str, object]:
    text = message.content_bytes()
    if len(text) > MAX_PAYLOAD:
        raise TwinRefused(413, f"a message may have {MAX_PAYLOAD} bytes, this one has {len(text)}")
    return read_object(text)


def _event_id(message: Message, reason: str) -> str:
    try:
        return event_id_of(_request(message))
    except TwinRefused as refused:
        raise TwinRefused(refused.code, reason if refused.reason == BAD_JSON else refused.reason) from None
