"""The custom resources of devices (KubeEdge's `devices.kubeedge.io`)."""

from typing import Final

from modules.apimachinery.kinds import Kind, ObjectKey

API_VERSION: Final = "devices.kubeedge.io/v1beta1"
DEVICE: Final = Kind("Device", API_VERSION, "devices", counts_generations=True, is_custom=True)
DEVICE_MODEL: Final = Kind("DeviceModel", API_VERSION, "devicemodels", counts_generations=True, is_custom=True)
DEVICE_STATUS: Final = Kind("DeviceStatus", API_VERSION, "devicestatuses", counts_generations=True, is_custom=True)
KEY_NAMES: Final = frozenset(kind.key_name for kind in (DEVICE, DEVICE_MODEL))
"""The kinds that nodes get, as in keys of objects."""


def is_sent_to_nodes(key: ObjectKey) -> bool:
    """Return whether an object is a Device or a DeviceModel, which the node of the device gets."""
    return key.kind in KEY_NAMES
