"""The Devices and DeviceModels of the cluster, as devicecontroller remembers them."""

from collections import defaultdict
from typing import NamedTuple

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.devicecontroller.records import DeviceRecord, ModelRecord, device_record, model_record
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged


class DeviceChange(NamedTuple):
    """A change of a Device."""

    key: ObjectKey
    old: DeviceRecord | None
    new: DeviceRecord | None


class DevicesByKey:
    """The Devices and DeviceModels by key, as they change."""

    def __init__(self) -> None:
        self.devices: dict[ObjectKey, DeviceRecord] = {}
        self._models: dict[ObjectKey, ModelRecord] = {}
        self._on_node: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        self._users: defaultdict[ObjectKey, dict[ObjectKey, None]] = defaultdict(dict)

    def others_than(self, seen: set[ObjectKey]) -> list[ObjectKey]:
        """Return the known objects that are not among these: the Devices first, then the DeviceModels."""
        return [key for key in (*self.devices, *self._models) if key not in seen]

    def on_node(self, node: str) -> list[ObjectKey]:
        """Return the Devices of a node."""
        return list(self._on_node.get(node, ()))

    def model_of(self, key: ObjectKey, device: DeviceRecord) -> ModelRecord | None:
        """Return the model of a Device, or None."""
        return self._models.get(_model_key(key, device))

    def put_model(self, key: ObjectKey, changed: ObjectChanged) -> list[ObjectKey]:
        """Take over a change of a DeviceModel, and return the Devices that use it."""
        if changed.change == EventType.DELETED:
            self._models.pop(key, None)
        else:
            self._models[key] = model_record(changed.object)
        return list(self._users.get(key, ()))

    def put_device(self, key: ObjectKey, changed: ObjectChanged) -> DeviceChange:
        """Take over a change of a Device, and return it."""
        new = None if changed.change == EventType.DELETED else device_record(changed.object)
        old = self.devices.pop(key, None)
        if old is not None:
            self._on_node[old.node].pop(key, None)
            self._users[_model_key(key, old)].pop(key, None)
        if new is not None:
            self.devices[key] = new
            self._on_node[new.node][key] = None
            self._users[_model_key(key, new)][key] = None
        return DeviceChange(key, old, new)


def _model_key(key: ObjectKey, device: DeviceRecord) -> ObjectKey:
    return ObjectKey(DEVICE_MODEL.key_name, key.namespace, device.model)


def device_key(namespace: str, name: str) -> ObjectKey:
    """Return the key of a Device."""
    return ObjectKey(DEVICE.key_name, namespace, name)
