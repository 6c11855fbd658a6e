"""The options of a container for its devices (kubelet's DeviceRunContainerOptions)."""

from collections.abc import Mapping

from msgspec import Struct


class DeviceNode(Struct, frozen=True):
    """A device file for a container."""

    container_path: str
    host_path: str
    permissions: str


class DeviceMount(Struct, frozen=True):
    """A file or directory of the node for a container."""

    container_path: str
    host_path: str
    read_only: bool = False


class DeviceRunContainerOptions(Struct, frozen=True):
    """The options that a container needs to use its devices: a plug-in's answer to `Allocate`."""

    envs: Mapping[str, str] = {}
    mounts: tuple[DeviceMount, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = {}
    cdi_devices: tuple[str, ...] = ()
