"""Why a volume cannot be given to a pod; Kubernetes shows it as FailedMount."""

from edged.errors import EdgedError


class VolumeError(EdgedError):
    """A volume as the pod wants it cannot be made; trying again does not help before somebody changes
    something.
    """


class MissingContentError(VolumeError):
    """A configmap or secret that a volume is made of does not exist, or lacks a key. It may come."""

    def __init__(self, attempt: str, on: str, hint: str = "create it, or mark the reference optional") -> None:
        super().__init__(attempt, on, hint, retryable=True)
