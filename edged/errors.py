"""The errors of edged, one tree: by part of the kubelet. `edged.cri.errors` has the errors of a container runtime."""

import errno
import os

from modules.apimachinery.attempts import AttemptError


class EdgedError(AttemptError):
    """Base of all errors that edged raises on purpose."""


def found_no_room(error: BaseException) -> bool:
    """Return whether a full disk has caused an error. A container runtime states that in its message only."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__
    return os.strerror(errno.ENOSPC).lower() in str(error).lower()


class DeviceError(EdgedError):
    """Base of the errors of a pod's devices."""


class RegistrationError(DeviceError):
    """A device plug-in is refused; it gets the reason."""


class DevicesPendingError(DeviceError):
    """A plug-in is disconnected, a device is unhealthy, or an ending pod still has it: the pod is retried."""

    def __init__(self, attempt: str, on: str, hint: str) -> None:
        super().__init__(attempt, on, hint, retryable=True)


class AllocationRefusedError(DeviceError):
    """The plug-in refuses the devices, or the pod's allocation differs from its request: the pod is refused for
    good.
    """


class HookError(EdgedError):
    """A hook has failed. The message never contains the output of the hook, which may be secret."""

    def __init__(self, container: str, hint: str) -> None:
        super().__init__("run a lifecycle hook", f"container {container}", hint, retryable=True)


class HookInterruptedError(HookError):
    """The pod or edged is ending: the hook's result no longer matters."""


class PluginError(EdgedError):
    """A plug-in cannot be used."""


class PluginCallError(PluginError):
    """A call over a plug-in's socket failed.

    Args:
        method: the call.
        on: its subject.
        code: gRPC's name of the failure: `UNAVAILABLE`, `DEADLINE_EXCEEDED`.
        details: the plug-in's text, without secrets.
    """

    def __init__(self, method: str, on: str, code: str, details: str) -> None:
        super().__init__(f"{method} failed", on, f"{details or 'it said nothing'}; {code}", retryable=True)
        self.code = code
        self.details = details


class ConfigError(EdgedError):
    """A setting of a container that cannot be applied; Kubernetes shows it as CreateContainerConfigError."""


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


class TargetError(EdgedError):
    """The probe has no target, so the container's health is unknown."""

    def __init__(self, on: str, hint: str) -> None:
        super().__init__("make out what to ask of a container", on, hint)


class NetworkError(EdgedError):
    """No valid answer in time. Counts against the container."""

    def __init__(self, attempt: str, on: str, hint: str = "") -> None:
        super().__init__(attempt, on, hint, retryable=True)


class PlainAnswerError(NetworkError):
    """The server answers without TLS."""


class ShortageError(NetworkError):
    """The agent itself is short of descriptors or memory: nothing is known about the container."""


class BusError(EdgedError):
    """The system's message bus or logind failed or refused a call."""


class ManifestError(EdgedError):
    """A file that is not a valid static pod. Other files are not affected, and a pod that the file defined before keeps
    running.
    """


class VolumeError(EdgedError):
    """A volume cannot be made as the pod specifies it (FailedMount); unless retryable, a retry cannot help."""


class MissingContentError(VolumeError):
    """A configmap or secret of a volume does not exist, or lacks a key. It may still come."""

    def __init__(self, attempt: str, on: str, hint: str = "create it, or mark the reference optional") -> None:
        super().__init__(attempt, on, hint, retryable=True)
