"""The MQTT topics of devices, and the kinds of requests to the module. Pure.

A topic is split at its slashes. KubeEdge cuts it at the first occurrence of the namespace, and so misses messages about
devices in namespaces such as `dev` or `e`.
"""

import base64
import binascii
from enum import Enum
from typing import Final

import msgspec

from beehive import Message, ModuleName, ResourceType, Source

DEVICE_PREFIX: Final = "$hw/events/device/"
NODE_PREFIX: Final = "$hw/events/node/"

TWIN_RESULT: Final = "/twin/update/result"
TWIN_DELTA: Final = "/twin/update/delta"
TWIN_DOCUMENT: Final = "/twin/update/document"
TWIN_GET_RESULT: Final = "/twin/get/result"
STATE_RESULT: Final = "/state/update/result"
STATE_GET_RESULT: Final = "/state/get/result"
UPDATED: Final = "/updated"
MEMBERSHIP_UPDATED: Final = "/membership/updated"
MEMBERSHIP_RESULT: Final = "/membership/get/result"

MEMBERSHIP_DETAIL: Final = "membership/detail"
"""Resource of the request for the list of the node's devices."""

OWNER_SOURCE: Final = "edgecore"
"""Source of the node owner's requests, which never leave the node."""

LONGEST_TOPIC: Final = 1024


class Action(Enum):
    """The request in a message."""

    CONFIRM = "confirmation of a message to the cloud"
    TWIN_GET = "twin/get"
    TWIN_UPDATE = "twin/update"
    TWIN_SYNC = "twin/cloud_updated"
    STATE_GET = "state/get"
    STATE_UPDATE = "state/update"
    ATTRIBUTES = "updated"
    OWNER = "desired values of the node's owner"
    DESIRED_BY_OWNER = "what the owner desires of all devices"
    MEMBERSHIP_GET = "membership/get"
    MEMBERSHIP = "membership"
    OBJECT = "a Device or DeviceModel"
    FORBIDDEN = "a topic of the cloud"
    UNKNOWN = "unknown"


class Asked(msgspec.Struct, frozen=True):
    """The request in a message, and its device."""

    action: Action
    id: str = ""


_OF_DEVICE: Final = {
    ("twin", "get"): Action.TWIN_GET,
    ("twin", "update"): Action.TWIN_UPDATE,
    ("state", "get"): Action.STATE_GET,
    ("state", "update"): Action.STATE_UPDATE,
    ("twin", "cloud_updated"): Action.FORBIDDEN,
}
_CLOUD: Final = (ModuleName.DEVICECONTROLLER, Source.EDGE_MANAGER)
_UNKNOWN: Final = Asked(Action.UNKNOWN)
_FORBIDDEN: Final = Asked(Action.FORBIDDEN)


def asked_by(message: Message, node: str) -> Asked:
    """Return the request in a message (KubeEdge's table of sources, groups and resources)."""
    route = message.route
    if message.parent_id:
        return Asked(Action.CONFIRM)
    if route.source == Source.BUS:
        return _from_bus(topic_of(route.resource), node)
    if route.source in _CLOUD:
        return _from_cloud(route.resource, route.operation)
    if route.source in (Source.META, ModuleName.METAMANAGER):
        return Asked(Action.OBJECT)
    if route.source == ModuleName.DMI:
        return Asked(Action.DESIRED_BY_OWNER)
    if route.source == OWNER_SOURCE:
        return Asked(Action.OWNER, route.resource.removeprefix("device/").removesuffix("/twin/desired"))
    return _UNKNOWN


def device_topic(device_id: str, end: str) -> str:
    """Return a topic of a device."""
    return f"{DEVICE_PREFIX}{device_id}{end}"


def node_topic(node: str, end: str) -> str:
    """Return a topic of the node."""
    return f"{NODE_PREFIX}{node}{end}"


def resource_of(topic: str) -> str:
    """Return the resource under which eventbus sends a message of a topic (KubeEdge's base64url)."""
    return base64.urlsafe_b64encode(topic.encode()).decode()


def topic_of(resource: str) -> str:
    """Return the topic of a resource; empty if the resource does not contain one."""
    try:
        return base64.b64decode(resource, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def is_device_id(text: str) -> bool:
    """Return whether a text is a device's id: `namespace/name`, or a name alone."""
    words = text.split("/")
    return len(words) <= 2 and all(words) and len(text) <= LONGEST_TOPIC and not set(text) & set("+#\0")


def _from_bus(topic: str, node: str) -> Asked:
    if topic.startswith(DEVICE_PREFIX):
        words = topic.removeprefix(DEVICE_PREFIX).split("/")
        device_id = "/".join(words[:-2])
        if is_device_id(device_id):
            return Asked(_OF_DEVICE.get((words[-2], words[-1]), Action.UNKNOWN), device_id)
        return _UNKNOWN
    if topic == node_topic(node, "/membership/get"):
        return Asked(Action.MEMBERSHIP_GET)
    forbidden = topic.startswith(NODE_PREFIX) and topic.endswith((MEMBERSHIP_UPDATED, "/membership/detail/result"))
    return _FORBIDDEN if forbidden else _UNKNOWN


def _from_cloud(resource: str, operation: str) -> Asked:
    if ResourceType.MEMBERSHIP in resource and not resource.startswith("device/"):
        return Asked(Action.MEMBERSHIP)
    device_id = resource.removeprefix("device/").removesuffix("/twin/cloud_updated")
    if not is_device_id(device_id):
        return _UNKNOWN
    if resource.endswith("/twin/cloud_updated"):
        return Asked(Action.TWIN_SYNC, device_id)
    if "updated" in operation and resource.startswith("device/"):
        return Asked(Action.ATTRIBUTES, device_id)
    return _UNKNOWN


def upload_resource(device_id: str, *, state: bool) -> str:
    """Return the resource of a message to the cloud with a device's state or its values."""
    return f"device/{device_id}/state/update" if state else f"device/{device_id}/twin/edge_updated"


def mapper_resource(device_id: str) -> str:
    """Return the resource of the message to dmi with the owner's desired values for a device with an object."""
    namespace, _, name = device_id.partition("/")
    return f"{namespace}/{ResourceType.DEVICE_TWIN}/{name}"


def owner_resource(device_id: str) -> str:
    """Return the resource of a request of the node's owner."""
    return f"device/{device_id}/twin/desired"


DETAIL_OPERATION: Final = "get"
