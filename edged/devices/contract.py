"""The contracts of device plug-ins; tests implement them with plug-ins of their own."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Protocol

import msgspec

from edged.devices.model import Device, PluginOptions
from edged.pods.config.device_options import DeviceRunContainerOptions

Answer = Callable[[bytes], Any]
"""Handles a request: takes its message in protobuf's form, returns the message of the answer. Raises EdgedError."""


class DevicePlugin(Protocol):
    """A connection to one plug-in. Its methods block, and raise PluginError."""

    def options(self) -> PluginOptions:
        """Return the optional calls of the plug-in (`GetDevicePluginOptions`)."""

    def watch(self) -> Iterator[tuple[Device, ...]]:
        """Yield all its devices, now and after each change; ends with the plug-in, or at `close` (`ListAndWatch`)."""

    def preferred(self, available: AbstractSet[str], must: AbstractSet[str], count: int) -> frozenset[str]:
        """Return the plug-in's choice among available devices, which includes those in `must`
        (`GetPreferredAllocation`).
        """

    def allocate(self, devices: AbstractSet[str]) -> DeviceRunContainerOptions:
        """Prepare devices for a container (`Allocate`)."""

    def pre_start(self, devices: AbstractSet[str]) -> None:
        """Prepare the start of the container with these devices (`PreStartContainer`)."""

    def close(self) -> None:
        """Close the connection: calls under way end. May be called more than once."""


class GrpcService(msgspec.Struct, frozen=True):
    """A service on a socket of the node."""

    path: Path
    name: str
    """gRPC's name, with its package."""
    methods: dict[str, Answer]


class DevicePluginTransport(Protocol):
    """The transport to the node's device plug-ins, which also serves edged's own services for them."""

    def serve(self, service: GrpcService) -> None:
        """Serve a service on threads of its own. Raises DeviceError when the socket cannot be made."""

    def connect(self, endpoint: Path) -> DevicePlugin:
        """Return a connection to the plug-in of this socket; it is made with the first call."""

    def close(self) -> None:
        """Stop all services."""
