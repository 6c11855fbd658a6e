"""Everything the embedded runtime refuses or fails at, as one tree; each class is one gRPC status.

EmbeddedRuntimeError
├── StateDirectoryError     the runtime itself cannot start
├── ShepherdGoneError       a container's shepherd does not answer (seen inside only)
└── RequestRefusedError     one request cannot be served
    ├── InvalidRequestError     INVALID_ARGUMENT: the request itself is wrong
    │   └── MountPlanError          a volume cannot be placed where it is asked
    ├── NotFoundError           NOT_FOUND
    ├── AlreadyExistsError      ALREADY_EXISTS
    ├── WrongStateError         FAILED_PRECONDITION: not now, or not on this machine
    ├── TooManyError            RESOURCE_EXHAUSTED
    ├── DeadlinePassedError     DEADLINE_EXCEEDED
    ├── NotProvidedError        UNIMPLEMENTED: containers that are plain processes cannot have it
    └── RunFailedError          UNKNOWN: the command did not start, as containerd says it
"""

from typing import ClassVar

from grpc import StatusCode


class EmbeddedRuntimeError(Exception):
    """Base of the tree.

    Args:
        attempt: what was attempted, as a phrase: "start container 3f…".
        reason: why it failed.
        hint: what the reader can do about it.
    """

    def __init__(self, attempt: str, reason: str, hint: str = "") -> None:
        self.attempt = attempt
        self.reason = reason
        self.hint = hint
        super().__init__(f"cannot {attempt}: {reason}" + (f" ({hint})" if hint else ""))


class StateDirectoryError(EmbeddedRuntimeError):
    """The state directory or the socket cannot be used."""


class ShepherdGoneError(EmbeddedRuntimeError):
    """The shepherd of a container does not answer: it is ending, or was killed."""


class RequestRefusedError(EmbeddedRuntimeError):
    """One request cannot be served; `status` is what the client gets."""

    status: ClassVar[StatusCode] = StatusCode.INTERNAL


class InvalidRequestError(RequestRefusedError):
    """The request is wrong and will be wrong when repeated."""

    status = StatusCode.INVALID_ARGUMENT


class MountPlanError(InvalidRequestError):
    """A volume cannot appear at the path that was asked."""


class NotFoundError(RequestRefusedError):
    """No such sandbox or container."""

    status = StatusCode.NOT_FOUND


class AlreadyExistsError(RequestRefusedError):
    """Name and attempt are taken."""

    status = StatusCode.ALREADY_EXISTS


class WrongStateError(RequestRefusedError):
    """Sandbox, container or machine are not in a state that allows it."""

    status = StatusCode.FAILED_PRECONDITION


class TooManyError(RequestRefusedError):
    """A bound of this server was reached."""

    status = StatusCode.RESOURCE_EXHAUSTED


class DeadlinePassedError(RequestRefusedError):
    """The time given with the request was over."""

    status = StatusCode.DEADLINE_EXCEEDED


class NotProvidedError(RequestRefusedError):
    """Something that processes without isolation cannot offer."""

    status = StatusCode.UNIMPLEMENTED


class RunFailedError(RequestRefusedError):
    """A command could not be started."""

    status = StatusCode.UNKNOWN
