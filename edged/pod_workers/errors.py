"""Errors of a pod; why a container could not be started, as `kubectl get pods` shows it in its STATUS column.

StartError
├── ImageUnavailableError       the image is not on the node and could not be pulled
├── ImagePendingError       the image is being pulled; nothing is wrong
└── ContainerStartError   the runtime could not create or start the container
"""

from typing import Final

from edged.errors import EdgedError
from metamanager.client import CallError
from modules.apimachinery.attempts import UnreadableError
from modules.apimachinery.types import ContainerStateWaiting

POD_FAILURES: Final = (EdgedError, UnreadableError, CallError, OSError)
"""Errors of one pod that are no bugs of edged."""


class StartError(EdgedError):
    """A container could not be started.

    Args:
        container: its name.
        reason: Kubernetes' word for it (`ErrImagePull`, `CreateContainerError`, …).
        message: a sentence; of the runtime, without credentials.
        retry_at: when another attempt is of use, in monotonic seconds, if that is known.
    """

    def __init__(self, container: str, reason: str, message: str, retry_at: float | None = None) -> None:
        self.container = container
        self.retry_at = retry_at
        self.reason = reason
        self.message = message
        super().__init__(reason, container, message, retryable=True)

    @property
    def waiting(self) -> ContainerStateWaiting:
        """The state of the container as it is reported."""
        return ContainerStateWaiting(reason=self.reason, message=self.message)


class ImageUnavailableError(StartError):
    """The image is not on the node and could not be pulled."""


class ImagePendingError(StartError):
    """The image is being pulled. The end of the pull queues the pod again."""


class ContainerStartError(StartError):
    """The runtime could not create or start the container."""
