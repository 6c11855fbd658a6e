"""Why a container could not be started: what `kubectl get pods` shows in its STATUS column.

StartError
├── ImageTroubleError       the image is not there and could not be had
├── ImagePendingError       the image is being pulled; nothing is wrong
└── ContainerTroubleError   the runtime would not create or start the container
"""

from edged.api import ContainerStateWaiting
from edged.errors import EdgedError


class StartError(EdgedError):
    """A container could not be started.

    Args:
        container: its name.
        reason: Kubernetes' word for it (`ErrImagePull`, `CreateContainerError`, …).
        message: a sentence; of the runtime, without credentials.
        retry_after: seconds before which another attempt is of no use, when that is known.
    """

    def __init__(self, container: str, reason: str, message: str, retry_after: float | None = None) -> None:
        self.container = container
        self.retry_after = retry_after
        self.reason = reason
        self.message = message
        super().__init__(reason, container, message, retryable=True)

    @property
    def waiting(self) -> ContainerStateWaiting:
        """The state of the container as it is reported."""
        return ContainerStateWaiting(reason=self.reason, message=self.message)


class ImageTroubleError(StartError):
    """The image is not there and could not be had."""


class ImagePendingError(StartError):
    """The image is being pulled: the end of the pull asks for the pod's next turn."""


class ContainerTroubleError(StartError):
    """The runtime would not create or start the container."""
