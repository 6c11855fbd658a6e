"""What can go wrong with the devices that a pod wants.

DeviceError
├── RegistrationError        a device plug-in is not taken
├── DevicesPendingError      the devices are not there now; the pod waits
└── AllocationRefusedError   they cannot be had; the pod is refused
"""

from edged.errors import EdgedError


class DeviceError(EdgedError):
    """Something about devices."""


class RegistrationError(DeviceError):
    """A device plug-in is not taken; it is told why."""


class DevicesPendingError(DeviceError):
    """A plug-in is away, a device is broken, or another pod that ends still has it: the pod is tried again."""

    def __init__(self, attempt: str, on: str, hint: str) -> None:
        super().__init__(attempt, on, hint, retryable=True)


class AllocationRefusedError(DeviceError):
    """The plug-in does not give the devices, or what the pod has is not what it asks for: it is refused for good."""
