"""Why a container cannot be configured: what Kubernetes shows as CreateContainerConfigError."""

from edged.errors import EdgedError


class ConfigError(EdgedError):
    """The pod's definition cannot be turned into a container as things are; the pod says
    CreateContainerConfigError.
    """


class MissingSourceError(ConfigError):
    """A configmap or secret that a container needs does not exist, or lacks a key. Trying again can help."""

    def __init__(self, attempt: str, on: str, hint: str = "create it, or mark the reference optional") -> None:
        super().__init__(attempt, on, hint, retryable=True)


class FieldReferenceError(ConfigError):
    """A fieldRef or resourceFieldRef names something that does not exist."""


class RunAsRootError(ConfigError):
    """A container that must not run as root would."""


class TooLargeError(ConfigError):
    """What the container is to be started with is more than the kernel takes."""
