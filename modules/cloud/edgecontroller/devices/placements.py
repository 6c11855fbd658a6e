"""The nodes of Devices, and the DeviceModels that they need there."""

from collections import defaultdict
from typing import NamedTuple

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.unvalidated import as_object
from modules.cloud.device_forms import converted_device
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.indexes import discard


class DevicePlacement(NamedTuple):
    """The node and the model of a Device."""

    node: str
    """Empty if it has no node yet."""
    model: ObjectKey | None
    """None if the Device names no model."""


def placement_of(device: JsonObject) -> DevicePlacement:
    """Return the placement of a Device."""
    spec = as_object(converted_device(device).object.get("spec"))
    name = as_object(spec.get("deviceModelRef")).get("name")
    model = ObjectKey(DEVICE_MODEL.key_name, device["metadata"].get("namespace", "default"), name) if name else None
    return DevicePlacement(str(spec.get("nodeName") or ""), model)


class DevicePlacements:
    """The placements of all Devices, by node and by model."""

    def __init__(self) -> None:
        self._of: dict[ObjectKey, DevicePlacement] = {}
        self._on_node: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        self._users: defaultdict[ObjectKey, dict[ObjectKey, None]] = defaultdict(dict)

    def put(self, key: ObjectKey, device: JsonObject | None) -> None:
        """Record a Device; None: it was deleted."""
        old = self._of.pop(key, None)
        if old is not None:
            discard(self._on_node, old.node, key)
            if old.model is not None:
                discard(self._users, old.model, key)
        if device is None:
            return
        new = self._of[key] = placement_of(device)
        if new.node:
            self._on_node[new.node][key] = None
        if new.model is not None:
            self._users[new.model][key] = None

    def of(self, key: ObjectKey) -> DevicePlacement:
        """Return the placement of a Device."""
        return self._of.get(key, DevicePlacement("", None))

    def is_needed(self, node: str, key: ObjectKey) -> bool:
        """Return whether a node needs a Device or a DeviceModel."""
        if key.kind == DEVICE.key_name:
            return key in self._on_node.get(node, ())
        return any(self._of[user].node == node for user in self._users.get(key, ()))

    def nodes_of_model(self, model: ObjectKey) -> list[str]:
        """Return the nodes of the Devices of a model."""
        return list(dict.fromkeys(node for user in self._users.get(model, ()) if (node := self._of[user].node)))

    def on_node(self, node: str) -> list[ObjectKey]:
        """Return the objects that a node needs: the models before the Devices."""
        devices = list(self._on_node.get(node, ()))
        models = dict.fromkeys(model for key in devices if (model := self._of[key].model) is not None)
        return [*models, *devices]
