"""The errors of pod networks and namespaces, as CRI answers them.

RequestRefusedError
├── PodNamespaceError       UNKNOWN: the namespaces of a sandbox cannot be made
└── PodNetworkError         UNKNOWN: a CNI plug-in failed
    ├── NetworkConfigurationError   FAILED_PRECONDITION: there is no usable configuration
    └── TryAgainLaterError          UNAVAILABLE: a plug-in says so (CNI code 11)
"""

from typing import ClassVar

from modules.runtimes.engine.errors import RequestRefusedError
from protos.status import StatusCode


class PodNamespaceError(RequestRefusedError):
    """The kernel refuses the namespaces of a sandbox, or a part of them."""

    status: ClassVar[StatusCode] = StatusCode.UNKNOWN


class PodNetworkError(RequestRefusedError):
    """A pod cannot be attached to its network, or detached from it."""

    status: ClassVar[StatusCode] = StatusCode.UNKNOWN


class NetworkConfigurationError(PodNetworkError):
    """No CNI configuration, or an unusable one."""

    status = StatusCode.FAILED_PRECONDITION


class TryAgainLaterError(PodNetworkError):
    """A CNI plug-in is not ready yet."""

    status = StatusCode.UNAVAILABLE
