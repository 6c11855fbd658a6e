"""Who has which devices; kept in a file, so that the next agent knows it too (kubelet's podDevices and its checkpoint).

The file is written as a whole before the container is made that has the devices. What an agent that was killed between
a plug-in's answer and the file has been given is given again.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from beehive.files.damaged import set_aside
from beehive.files.durable import replace_file
from beehive.files.reading import read_file
from edged.devices.model import Device, Grant
from edged.pods.model import PodUid

_log = logging.getLogger(__name__)

_LONGEST = 64 * 1024 * 1024
"""Bytes of the file that are read."""

ContainerGrants = dict[str, dict[str, Grant]]
"""By container and resource."""


class Checkpoint(msgspec.Struct, frozen=True):
    """What the file holds."""

    devices: Mapping[str, Sequence[Device]] = {}
    """What plug-ins had, by resource."""
    pods: Mapping[PodUid, ContainerGrants] = {}


class Ledger:
    """See the module's docstring. Not thread-safe: its owner is."""

    def __init__(self, pods: Mapping[PodUid, ContainerGrants] | None = None) -> None:
        self._pods: dict[PodUid, ContainerGrants] = dict(pods or {})
        self._reserved: dict[str, set[str]] = {}

    def get(self, uid: PodUid, container: str, resource: str) -> Grant | None:
        """What the container has."""
        return self._pods.get(uid, {}).get(container, {}).get(resource)

    def of(self, uid: PodUid, container: str) -> dict[str, Grant]:
        """Everything that the container has, by resource."""
        return dict(self._pods.get(uid, {}).get(container, {}))

    def held(self, uid: PodUid, resource: str) -> dict[str, frozenset[str]]:
        """What each container of a pod has of a resource."""
        grants = self._pods.get(uid, {})
        return {container: has[resource].ids for container, has in grants.items() if resource in has}

    def taken(self, resource: str) -> set[str]:
        """Devices that some container has, or is about to have."""
        holders = (self.held(uid, resource) for uid in self._pods)
        return set(self._reserved.get(resource, ())).union(*(ids for held in holders for ids in held.values()))

    def reserve(self, resource: str, devices: frozenset[str]) -> None:
        """Nobody else gets them, while the plug-in is asked."""
        self._reserved.setdefault(resource, set()).update(devices)

    def release(self, resource: str, devices: frozenset[str]) -> None:
        """The plug-in has answered."""
        self._reserved.get(resource, set()).difference_update(devices)

    def give(self, uid: PodUid, container: str, resource: str, grant: Grant) -> None:
        """The container has them from now on."""
        self._pods.setdefault(uid, {}).setdefault(container, {})[resource] = grant

    def take_back(self, uid: PodUid, container: str, resource: str) -> None:
        """The container does not get them after all."""
        grants = self._pods.get(uid, {})
        grants.get(container, {}).pop(resource, None)
        if not any(grants.values()):
            self._pods.pop(uid, None)

    def forget(self, uid: PodUid) -> bool:
        """The pod has ended; whether it had any."""
        return self._pods.pop(uid, None) is not None

    def pods(self) -> dict[PodUid, ContainerGrants]:
        """Who has what: a copy."""
        return {uid: {name: dict(has) for name, has in grants.items()} for uid, grants in self._pods.items()}


def read_checkpoint(path: Path, root: Path) -> Checkpoint:
    """What the former agent knew. A file that cannot be read counts as none, as with a kubelet, and is set aside in the
    agent's root directory.
    """
    try:
        return msgspec.json.decode(read_file(path, _LONGEST), type=Checkpoint)
    except FileNotFoundError:
        return Checkpoint()
    except (OSError, msgspec.MsgspecError) as error:
        _log.error("cannot read which devices pods have: %s: %s; it counts as lost", path, error)
        set_aside(path, root, str(error))
        return Checkpoint()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file, on the disk too. Raises OSError."""
    replace_file(path, msgspec.json.encode(checkpoint))
