"""The stored Devices and DeviceModels, reduced to the fields that mappers need, and the objects that each mapper should
have. Pure.

Objects are kept in their smallest encoded form: a device of ten properties takes about a kilobyte.
"""

import logging
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

import msgspec
from google.protobuf.message import Message

from modules.edge.dmi.conversion import device_message, model_message
from modules.edge.dmi.objects import (
    MappedDevice,
    MappedModel,
    protocol_of,
    read_mapped_device,
    read_mapped_model,
    with_desired,
)
from modules.edge.dmi.watchdog import patience_of

_log = logging.getLogger(__name__)

MAX_OBJECTS: Final = 10_000
"""Largest number of devices, and of models, of one node."""

Kind = Literal["model", "device"]


class Key(NamedTuple):
    """An object that a mapper may have."""

    kind: Kind
    id: str
    """`namespace/name`."""


class Mark(NamedTuple):
    """An object about which the mapper of a protocol has to be informed."""

    protocol: str
    key: Key


class Wanted(NamedTuple):
    """An object in the form that a mapper should have."""

    message: Message
    digest: bytes
    """Digest of the message; it identifies the object's state."""
    model: str = ""
    """The model that the mapper must have before this device."""
    notes: tuple[str, ...] = ()
    """The parts that are not sent to the mapper, and why."""


class _Stored(NamedTuple):
    text: bytes
    protocol: str
    model: str = ""
    patience: float = 0.0


class Catalogue:
    """The devices and models of the node."""

    def __init__(self) -> None:
        self._devices: dict[str, _Stored] = {}
        self._models: dict[str, _Stored] = {}
        self._of_model: dict[str, set[str]] = {}
        self._by_owner: dict[str, dict[str, str]] = {}
        """The desired values of the node's owner, by device."""

    def put_device(self, device: MappedDevice) -> set[Mark]:
        """Store a Device, and return the objects to send to mappers."""
        key = device.id
        old = self._devices.get(key)
        if old is None and len(self._devices) >= MAX_OBJECTS:
            return set()
        self._forget_device(key)
        protocol = protocol_of(device, self._model(device.model))
        self._devices[key] = _Stored(msgspec.json.encode(device), protocol, device.model, _patience(device))
        self._of_model.setdefault(device.model, set()).add(key)
        marks = {Mark(one.protocol, Key("model", one.model)) for one in (old, self._devices[key]) if one is not None}
        return marks | {Mark(one.protocol, Key("device", key)) for one in (old, self._devices[key]) if one is not None}

    def put_desired(self, key: str, values: dict[str, str]) -> set[Mark]:
        """Store the desired values that the node's owner has set for a device, and return the objects to send to
        mappers.
        """
        if values:
            self._by_owner[key] = values
        else:
            self._by_owner.pop(key, None)
        stored = self._devices.get(key)
        return set() if stored is None else {Mark(stored.protocol, Key("device", key))}

    def remove_device(self, key: str) -> set[Mark]:
        """Remove a Device, and return the objects to send to mappers."""
        self._by_owner.pop(key, None)
        old = self._devices.get(key)
        if old is None:
            return set()
        self._forget_device(key)
        return {Mark(old.protocol, Key("device", key)), Mark(old.protocol, Key("model", old.model))}

    def put_model(self, model: MappedModel) -> set[Mark]:
        """Store a DeviceModel, and return the objects to send to mappers: the model may change its devices too."""
        old = self._models.get(model.id)
        if old is None and len(self._models) >= MAX_OBJECTS:
            return set()
        self._models[model.id] = _Stored(msgspec.json.encode(model), model.spec.protocol)
        return self._marks_of_model(model.id, {model.spec.protocol, old.protocol if old else ""})

    def remove_model(self, key: str) -> set[Mark]:
        """Remove a DeviceModel, and return the objects to send to mappers."""
        old = self._models.pop(key, None)
        return self._marks_of_model(key, {old.protocol}) if old is not None else set()

    def protocol(self, device: str) -> str:
        """Return the protocol of a device; empty for an unknown one."""
        found = self._devices.get(device)
        return found.protocol if found is not None else ""

    def devices(self, protocol: str) -> Iterator[tuple[str, float]]:
        """Yield the devices of a protocol, each with the seconds after which it is silent (`watchdog.patience_of`)."""
        return ((key, one.patience) for key, one in self._devices.items() if one.protocol == protocol)

    def keys(self, protocol: str) -> Iterator[Key]:
        """Yield the objects that concern the mapper of a protocol, models first."""
        used = {one.model for one in self._devices.values() if one.protocol == protocol and one.model}
        yield from (Key("model", key) for key, one in sorted(self._models.items())
                    if one.protocol == protocol or key in used)  # fmt: skip
        yield from (Key("device", key) for key, one in sorted(self._devices.items()) if one.protocol == protocol)

    def wanted(self, protocol: str, key: Key) -> Wanted | None:
        """Return an object in the form that the mapper of a protocol should have; None if the mapper should not have
        it.

        A device whose model is missing is not sent, because a mapper cannot start it. Neither is an object that DMI
        cannot express.
        """
        try:
            return self._wanted_model(protocol, key.id) if key.kind == "model" else self._wanted_device(protocol, key)
        except (ValueError, TypeError) as error:
            _log.error("the %s %s cannot be told to its mapper: %s", key.kind, key.id, error)
            return None

    def _wanted_device(self, protocol: str, key: Key) -> Wanted | None:
        stored = self._devices.get(key.id)
        model = self._model(stored.model) if stored is not None else None
        if stored is None or model is None or stored.protocol != protocol:
            return None
        device = with_desired(read_mapped_device(stored.text), self._by_owner.get(key.id, {}))
        message, notes = device_message(device, model)
        return Wanted(message, _digest(message), stored.model, notes)

    def _wanted_model(self, protocol: str, key: str) -> Wanted | None:
        stored = self._models.get(key)
        if stored is None:
            return None
        users = (self._devices[each].protocol for each in self._of_model.get(key, ()))
        if stored.protocol != protocol and protocol not in users:
            return None
        message = model_message(read_mapped_model(stored.text))
        return Wanted(message, _digest(message))

    def _model(self, key: str) -> MappedModel | None:
        stored = self._models.get(key)
        return read_mapped_model(stored.text) if stored is not None else None

    def _forget_device(self, key: str) -> None:
        old = self._devices.pop(key, None)
        if old is not None:
            users = self._of_model[old.model]
            users.discard(key)
            if not users:
                del self._of_model[old.model]

    def _marks_of_model(self, key: str, protocols: set[str]) -> set[Mark]:
        """Return the objects to send to mappers after a change of a model; a device without a protocol of its own has
        its model's.
        """
        marks: set[Mark] = set()
        for each in sorted(self._of_model.get(key, ())):
            marks |= self.put_device(read_mapped_device(self._devices[each].text))
        return marks | {Mark(protocol, Key("model", key)) for protocol in protocols if protocol}


def _patience(device: MappedDevice) -> float:
    return patience_of(
        [(one.collect_cycle, one.report_cycle) for one in device.spec.properties or () if one.report_to_cloud]
    )


def _digest(message: Message) -> bytes:
    return blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
