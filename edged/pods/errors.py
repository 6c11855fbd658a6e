"""Errors of a container's configuration, which Kubernetes shows as CreateContainerConfigError."""

from edged.errors import EdgedError


class ConfigError(EdgedError):
    """A setting of the pod that cannot be applied; the pod waits in CreateContainerConfigError."""


class MissingSourceError(ConfigError):
    """A configmap or secret of a container that does not exist or lacks a key. A retry can succeed."""

    def __init__(self, attempt: str, on: str, hint: str = "create it, or mark the reference optional") -> None:
        super().__init__(attempt, on, hint, retryable=True)


class FieldReferenceError(ConfigError):
    """A fieldRef or resourceFieldRef to an unknown field."""


class RunAsRootError(ConfigError):
    """A container that would run as root against `runAsNonRoot`."""


class TooLargeError(ConfigError):
    """Arguments or variables beyond the limits of Linux."""
