"""The errors of the runtimes inside edgecore as one tree; each refused request is one gRPC status.

ContainerRuntimeError
├── StateDirectoryError     the runtime itself cannot start
├── ShimGoneError           a container's shim does not answer (internal)
└── RequestRefusedError     one request cannot be served
    ├── BadRequestError         INVALID_ARGUMENT: the request itself is wrong
    │   └── MountPlanError          a volume cannot be placed at its path
    ├── NoSuchObjectError       NOT_FOUND
    ├── NameReservedError       ALREADY_EXISTS
    ├── WrongStateError         FAILED_PRECONDITION: not now, or not on this machine
    ├── TooManyError            RESOURCE_EXHAUSTED
    ├── DeadlinePassedError     DEADLINE_EXCEEDED
    ├── NotProvidedError        UNIMPLEMENTED: containers that are plain processes cannot have it
    └── RunFailedError          UNKNOWN: the command did not start, as containerd reports it
"""

from typing import ClassVar

from protos.status import StatusCode


class ContainerRuntimeError(Exception):
    """Base of the tree.

    Args:
        attempt: the attempted operation, as a phrase: "start container 3f…".
        reason: why it failed.
        hint: how the reader can mend it.
    """

    def __init__(self, attempt: str, reason: str, hint: str = "") -> None:
        self.attempt = attempt
        self.reason = reason
        self.hint = hint
        super().__init__(f"cannot {attempt}: {reason}" + (f" ({hint})" if hint else ""))


class StateDirectoryError(ContainerRuntimeError):
    """The state directory or the socket cannot be used."""


class ShimGoneError(ContainerRuntimeError):
    """The shim of a container does not answer: it is ending, or was killed."""


class RequestRefusedError(ContainerRuntimeError):
    """One request cannot be served; `status` is the gRPC status of the answer."""

    status: ClassVar[StatusCode] = StatusCode.INTERNAL


class BadRequestError(RequestRefusedError):
    """The request is invalid, and a repetition would be too."""

    status = StatusCode.INVALID_ARGUMENT


class MountPlanError(BadRequestError):
    """A volume cannot appear at the requested path."""


class NoSuchObjectError(RequestRefusedError):
    """No such sandbox or container."""

    status = StatusCode.NOT_FOUND


class NameReservedError(RequestRefusedError):
    """Another sandbox or container has this name and attempt (containerd: the name is reserved)."""

    status = StatusCode.ALREADY_EXISTS


class WrongStateError(RequestRefusedError):
    """The state of the sandbox, the container or the machine does not allow it."""

    status = StatusCode.FAILED_PRECONDITION


class TooManyError(RequestRefusedError):
    """A limit of this server is reached."""

    status = StatusCode.RESOURCE_EXHAUSTED


class DeadlinePassedError(RequestRefusedError):
    """The time-out of the request has passed."""

    status = StatusCode.DEADLINE_EXCEEDED


class NotProvidedError(RequestRefusedError):
    """A feature that needs isolation, which plain processes do not have."""

    status = StatusCode.UNIMPLEMENTED


class RunFailedError(RequestRefusedError):
    """A command could not be started."""

    status = StatusCode.UNKNOWN
