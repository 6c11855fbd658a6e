"""The devices of the node and their models, from the cloud's membership messages and the stored objects.

A device exists here because a membership message named it, or because its Device object is stored; the object makes up
for messages that were missed while the node was offline. A device that has an object is removed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from beehive import Message, Operation, ResourceType
from modules.apimachinery.device_objects import DeviceObject, ModelObject, read_device, read_model
from modules.edge.devicetwin import answers, changes
from modules.edge.devicetwin.absent_objects import AbsentObject
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Change, Models, Rules
from modules.edge.devicetwin.requests import DeviceRequest, MembershipRequest
from modules.edge.devicetwin.slots import Done, Slots
from modules.edge.devicetwin.state import Device
from modules.edge.devicetwin.store import UNREADABLE, Stored
from modules.edge.devicetwin.topics import is_device_id

MAX_DEVICES: Final = 10_000
"""Largest number of devices of one node."""

Notes = tuple[str, ...]


class Members:
    """The devices and models of the node.

    Args:
        slots: the devices.
        node: name of the node.
        rules: of changes.
        repeat_later: called when the store has refused a change by the cloud, to have `repeat` called later.
    """

    def __init__(self, slots: Slots, node: str, rules: Rules, repeat_later: Callable[[], None]) -> None:
        self._slots = slots
        self._node = node
        self._rules = rules
        self._repeat_later = repeat_later
        self._unstored: dict[str, DeviceRequest | None] = {}
        """Devices about which the store has refused the cloud's newest message, with what was to be added; None if
        the device was to be removed, or its object has that.
        """
        self._models: dict[str, ModelObject] = {}
        self._objects: dict[str, DeviceObject] = {}

    def models_of(self, device_id: str) -> Models:
        """Return the properties of a device's model; empty if the model is not stored here, or models are ignored."""
        if self._rules.like_kubeedge:
            return {}
        found = self._objects.get(device_id)
        model = self._models.get(found.model) if found is not None else None
        return model.properties if model is not None else {}

    def named_by(self, device_id: str) -> frozenset[str]:
        """Return the properties that a device's object names."""
        found = self._objects.get(device_id)
        return frozenset(found.desired) if found is not None else frozenset()

    def load(self, stored: Stored, stamp: MessageStamp) -> Notes:
        """Load the stored devices and objects, and apply objects that arrived while the module was not running to their
        devices.
        """
        self._models = {one.id: one for one in stored.models}
        self._slots.load(stored.devices)
        there = {one.id for one in stored.objects}
        notes: Notes = ()
        for device in stored.devices:
            if device.has_object and device.id not in there:
                self._remove(device, "", stamp)
        for one in stored.objects:
            notes += self._put_object(one, stamp)
        return notes

    def handle(self, asked: MembershipRequest, stamp: MessageStamp) -> Notes:
        """Take the cloud's message about the membership."""
        notes: Notes = ()
        for one in (*asked.added, *(asked.devices or ())):
            notes += self._add(one, asked.event_id, stamp)
        for one in asked.removed:
            if one.id not in self._objects:
                self._remove_known(one.id, asked.event_id, stamp)
        if asked.devices is not None:
            named = {one.id for one in asked.devices}
            for device_id in self._unstored.keys() - named - self._objects.keys():
                self._unstored[device_id] = None
            for device in list(self._slots.all()):
                if device.id not in named and not device.has_object:
                    self._remove(device, asked.event_id, stamp)
        return notes

    def absent_from(self, listed: Iterable[DeviceRequest]) -> list[AbsentObject]:
        """Return the objects that the cloud's list of the node's devices lacks: Devices, then the models that none of
        its Devices has.
        """
        there = {one.id for one in listed}
        models = {one.model for key, one in self._objects.items() if key in there}
        return [
            *_heads(ResourceType.DEVICE, self._objects, there),
            *_heads(ResourceType.DEVICE_MODEL, self._models, models),
        ]

    def repeat(self, stamp: MessageStamp) -> Notes:
        """Repeat the changes that the store has refused: the cloud sends an object only once when metamanager has
        stored it.
        """
        notes: Notes = ()
        for device_id, added in sorted(self._unstored.items(), key=lambda item: item[0]):
            found = self._objects.get(device_id)
            if found is not None:
                notes += self._put_object(found, stamp, device_id)
            elif added is not None:
                notes += self._add(added, "", stamp)
            else:
                self._remove_known(device_id, "", stamp)
        return notes

    def handle_object(self, message: Message, stamp: MessageStamp) -> Notes:
        """Take a Device or DeviceModel that metamanager has stored, or whose deletion it has stored."""
        resource = message.subject
        key = f"{resource.namespace}/{resource.name}"
        if message.route.operation == Operation.DELETE:
            return self._delete_object(resource.type, key, stamp)
        try:
            if resource.type == ResourceType.DEVICE_MODEL:
                self._models[key] = read_model(message.content_bytes())
                return self._review(key, stamp)
            if resource.type == ResourceType.DEVICE:
                return self._put_object(read_device(message.content_bytes()), stamp, key)
        except UNREADABLE as error:
            return (f"{message.route.resource} cannot be read and is not used: {error}",)
        return ()

    def is_late_deletion(self, message: Message) -> bool:
        """Return whether a deletion is of an earlier object with the name of the present one, which stays."""
        resource = message.subject
        found = (self._models if resource.type == ResourceType.DEVICE_MODEL else self._objects).get(
            f"{resource.namespace}/{resource.name}"
        )
        return not _may_delete(found, _uid(message))

    def _delete_object(self, kind: str, key: str, stamp: MessageStamp) -> Notes:
        if kind == ResourceType.DEVICE_MODEL:
            self._models.pop(key, None)
        elif kind == ResourceType.DEVICE:
            self._objects.pop(key, None)
            self._remove_known(key, "", stamp)
        return ()

    def _review(self, model: str, stamp: MessageStamp) -> Notes:
        """Apply the objects of a model's devices again: the model may allow other desired values than before."""
        users = [(key, one) for key, one in self._objects.items() if one.model == model]
        return tuple(note for key, one in users for note in self._put_object(one, stamp, key))

    def _put_object(self, read: DeviceObject, stamp: MessageStamp, key: str = "") -> Notes:
        device_id = key or read.id
        self._objects[device_id] = read
        device = self._slots.get(device_id)
        if device is not None and not _is_same(device.uid, read.metadata.uid):
            self._remove(device, "", stamp)  # it was deleted without a message to this node
            device = None
        if device is None:
            notes = self._add(DeviceRequest(device_id, read.metadata.name, read.description), "", stamp)
            device = self._slots.get(device_id)
            if device is None:
                return notes
        change = changes.apply_object(device, read, self.models_of(device_id), stamp, self._rules)
        return self._commit(change)

    def _add(self, asked: DeviceRequest, event_id: str, stamp: MessageStamp) -> Notes:
        if not is_device_id(asked.id):
            return (f"a device with the id {asked.id[:200]!r} is not taken: namespace/name is wanted",)
        device = self._slots.get(asked.id)
        event_id = event_id or stamp.new_id()
        if device is not None:
            return self._commit(changes.join(device, asked, self.models_of(asked.id), event_id, stamp), asked)
        if len(self._slots) >= MAX_DEVICES:
            return (f"the device {asked.id} is not taken: a node has at most {MAX_DEVICES}",)
        earlier, models = self._slots.saved(asked.id), self.models_of(asked.id)
        return self._commit(changes.add(asked, earlier, models, event_id, self._node, stamp), asked)

    def _remove_known(self, device_id: str, event_id: str, stamp: MessageStamp) -> None:
        """Remove a device, if there is one, and repeat no addition of it."""
        self._unstored.pop(device_id, None)
        device = self._slots.get(device_id)
        if device is not None:
            self._remove(device, event_id, stamp)

    def _remove(self, device: Device, event_id: str, stamp: MessageStamp) -> None:
        said = answers.membership(self._node, event_id or stamp.new_id(), stamp.now, [], [device])
        self._slots.remove(device.id, (said,), self._ends(device.id, None))

    def _commit(self, change: Change, added: DeviceRequest | None = None) -> Notes:
        device_id = change.device.id
        self._slots.change(change.device, change.publications, change.failed, self._ends(device_id, added))
        return change.notes

    def _ends(self, device_id: str, added: DeviceRequest | None) -> Done:
        """Return the steps after a commit: a refused one is repeated, unless the cloud has sent something newer."""

        def ended(stored: bool) -> None:
            if stored:
                self._unstored.pop(device_id, None)
            elif device_id in self._unstored or len(self._unstored) < MAX_DEVICES:
                self._unstored[device_id] = added
                self._repeat_later()

        return ended


def _heads(
    kind: ResourceType, objects: Mapping[str, DeviceObject] | Mapping[str, ModelObject], listed: set[str]
) -> Iterator[AbsentObject]:
    """Yield the objects that are not listed; without a uid nobody can tell them from their successors."""
    for key, one in objects.items():
        if key not in listed and one.metadata.uid:
            yield AbsentObject(kind, key, one.metadata)


def _uid(message: Message) -> str:
    """Return the uid of the object in a message; empty if it names none."""
    try:
        return read_device(message.content_bytes()).metadata.uid
    except UNREADABLE:
        return ""


def _may_delete(found: DeviceObject | ModelObject | None, uid: str) -> bool:
    return found is None or _is_same(found.metadata.uid, uid)


def _is_same(one: str, other: str) -> bool:
    """Return whether two uids may be of one object: one that is empty may be of any."""
    return not one or not other or one == other
