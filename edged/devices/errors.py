"""The errors of a pod's devices.

DeviceError
├── RegistrationError        a device plug-in is refused
├── DevicesPendingError      the devices are not available now; the pod waits
└── AllocationRefusedError   they can never be given; the pod is refused
"""

from edged.errors import EdgedError


class DeviceError(EdgedError):
    """Base of the tree."""


class RegistrationError(DeviceError):
    """A device plug-in is refused; it gets the reason."""


class DevicesPendingError(DeviceError):
    """A plug-in is away, a device is unhealthy, or an ending pod still has it: the pod is retried."""

    def __init__(self, attempt: str, on: str, hint: str) -> None:
        super().__init__(attempt, on, hint, retryable=True)


class AllocationRefusedError(DeviceError):
    """The plug-in refuses the devices, or the pod's allocation differs from its request: the pod is refused for
    good.
    """
