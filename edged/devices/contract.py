"""What edged asks of the world when it comes to devices: the seam that tests put their own plug-ins behind."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from edged.devices.model import Device, Needs, PluginOptions

Answer = Callable[[bytes], Any]
"""Answers a request: its message, in protobuf's form, gives the message of the answer. Raises EdgedError."""


class DevicePlugin(Protocol):
    """A connection to one plug-in. Its methods block, and raise PluginError."""

    def options(self) -> PluginOptions:
        """What it wants to be asked (`GetDevicePluginOptions`)."""

    def watch(self) -> Iterator[tuple[Device, ...]]:
        """All of its devices, now and whenever something about them has changed; ends with the plug-in, or at `close`
        (`ListAndWatch`).
        """

    def preferred(self, available: AbstractSet[str], must: AbstractSet[str], count: int) -> frozenset[str]:
        """Which devices it would give, of those that are available, with all that it must
        (`GetPreferredAllocation`).
        """

    def allocate(self, devices: AbstractSet[str]) -> Needs:
        """Make devices ready for a container (`Allocate`)."""

    def pre_start(self, devices: AbstractSet[str]) -> None:
        """The container that has them is about to start (`PreStartContainer`)."""

    def close(self) -> None:
        """Let go of it: calls that are under way end. May be called more than once."""


class Service(NamedTuple):
    """What is served on a socket of the node."""

    path: Path
    name: str
    """gRPC's, with its package."""
    methods: dict[str, Answer]


class DeviceWorld(Protocol):
    """Plug-ins of the node, and those who ask the node about devices."""

    def serve(self, service: Service) -> None:
        """Answer on a socket from now on, on threads of its own. Raises DeviceError when it cannot be made."""

    def connect(self, endpoint: Path) -> DevicePlugin:
        """A connection to the plug-in that serves on this socket; it is made with the first call."""

    def close(self) -> None:
        """Serve no more, on no socket."""
