"""Errors of a pod's volumes; Kubernetes shows them as FailedMount."""

from edged.errors import EdgedError


class VolumeError(EdgedError):
    """A volume cannot be made as the pod specifies it; unless retryable, a retry cannot help."""


class MissingContentError(VolumeError):
    """A configmap or secret of a volume does not exist, or lacks a key. It may still come."""

    def __init__(self, attempt: str, on: str, hint: str = "create it, or mark the reference optional") -> None:
        super().__init__(attempt, on, hint, retryable=True)
