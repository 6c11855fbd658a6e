"""The devices of pods, and their checkpoint file."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from beehive.decoding import decode_json
from beehive.files.damaged import set_aside
from beehive.files.descriptors import raise_shortage
from beehive.files.durable import replace_file
from beehive.files.reading import read_file
from edged.devices.model import Device, DeviceAllocation
from edged.pods.model import PodUid

_log = logging.getLogger(__name__)

_LONGEST = 64 * 1024 * 1024
"""Bytes read of the file."""

ContainerAllocations = dict[str, dict[str, DeviceAllocation]]
"""Allocations by container and resource."""


class Checkpoint(msgspec.Struct, frozen=True):
    """The content of the file."""

    devices: Mapping[str, Sequence[Device]] = {}
    """The reported devices by resource."""
    pods: Mapping[PodUid, ContainerAllocations] = {}


class PodDevices:
    """The allocations of all pods (kubelet's podDevices). Its owner locks it.

    The checkpoint is written as a whole before the container with the devices is made, so that the next agent knows
    them. If an agent is killed between a plug-in's answer and the checkpoint, the next one allocates again.
    """

    def __init__(self, pods: Mapping[PodUid, ContainerAllocations] | None = None) -> None:
        self._pods: dict[PodUid, ContainerAllocations] = dict(pods or {})
        self._reserved: dict[str, set[str]] = {}

    def get(self, uid: PodUid, container: str, resource: str) -> DeviceAllocation | None:
        """Return the container's allocation of a resource."""
        return self._pods.get(uid, {}).get(container, {}).get(resource)

    def of(self, uid: PodUid, container: str) -> dict[str, DeviceAllocation]:
        """Return the container's allocations by resource."""
        return dict(self._pods.get(uid, {}).get(container, {}))

    def held(self, uid: PodUid, resource: str) -> dict[str, frozenset[str]]:
        """Return the device ids of a resource by container of the pod."""
        allocations = self._pods.get(uid, {})
        return {container: has[resource].ids for container, has in allocations.items() if resource in has}

    def in_use(self, resource: str) -> set[str]:
        """Return the devices that any container has, or that are reserved."""
        holders = (self.held(uid, resource) for uid in self._pods)
        return set(self._reserved.get(resource, ())).union(*(ids for held in holders for ids in held.values()))

    def reserve(self, resource: str, devices: frozenset[str]) -> None:
        """Reserve devices during the plug-in's call."""
        self._reserved.setdefault(resource, set()).update(devices)

    def release(self, resource: str, devices: frozenset[str]) -> None:
        """End the reservation after the plug-in's answer."""
        self._reserved.get(resource, set()).difference_update(devices)

    def insert(self, uid: PodUid, container: str, resource: str, allocation: DeviceAllocation) -> None:
        """Add an allocation."""
        self._pods.setdefault(uid, {}).setdefault(container, {})[resource] = allocation

    def remove(self, uid: PodUid, container: str, resource: str) -> None:
        """Undo an allocation."""
        allocations = self._pods.get(uid, {})
        allocations.get(container, {}).pop(resource, None)
        if not any(allocations.values()):
            self._pods.pop(uid, None)

    def delete(self, uid: PodUid) -> bool:
        """Delete the allocations of an ended pod; return whether it had any."""
        return self._pods.pop(uid, None) is not None

    def pods(self) -> dict[PodUid, ContainerAllocations]:
        """Return a copy of all allocations."""
        return {uid: {name: dict(has) for name, has in allocations.items()} for uid, allocations in self._pods.items()}


def read_checkpoint(path: Path, root: Path) -> Checkpoint:
    """Return the checkpoint of an earlier agent. An unreadable file counts as missing, as with kubelet, and is set
    aside in the agent's root directory. Raises OSError for a shortage of the process or machine.
    """
    try:
        return decode_json(read_file(path, _LONGEST), Checkpoint)
    except FileNotFoundError:
        return Checkpoint()
    except (OSError, msgspec.MsgspecError) as error:
        raise_shortage(error)
        _log.error("cannot read which devices pods have: %s: %s; no device counts as allocated", path, error)
        set_aside(path, root, str(error))
        return Checkpoint()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file durably. Raises OSError."""
    replace_file(path, msgspec.json.encode(checkpoint))
