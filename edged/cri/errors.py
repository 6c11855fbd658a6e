"""The errors between edged and a container runtime, as a tree of exceptions.

    CriError
    ├── UnavailableError        the socket is missing, refuses, or the runtime went away
    │   └── ConnectionClosedError   our own side was closed
    ├── DeadlineExceededError   no answer in time, or a command in a container ran out of its time
    ├── NotFoundError           no such sandbox, container or image
    ├── AlreadyExistsError      the name is taken
    ├── InvalidRequestError     the runtime will never accept this request
    ├── RefusedError            permissions or credentials
    ├── UnimplementedError      this runtime does not know the call
    └── ExhaustedError          a limit of the runtime, or of the size of a message

Runtimes differ in their status codes (containerd answers UNKNOWN to most failures, a taken name among them), so
decisions are made by the class. A plain `CriError` is a failure of unknown cause, which a retry may mend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from beehive.patterns import pattern
from edged.errors import EdgedError
from protos.status import StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_DETAILS = 2048
_REDACTED = "<redacted>"
_CREDENTIALS_IN_URL = pattern(r"(?<=://)[^/\s@\"']+(?=@)")
_TOKEN_PARAMETER = pattern(r"(?i)((?:access_token|refresh_token|token|password|signature)=)[^&\s\"']+")
_NAME_TAKEN = pattern(r"^failed to reserve .* is reserved for ")
_AUTHORIZATION = pattern(r"(?i)\b(basic|bearer)\s+[a-z0-9._~+/=-]{8,}")
_PULL = "PullImage"
_PULL_HINTS = {
    StatusCode.UNAVAILABLE: "is the registry's name right, and does this node reach it?",
    StatusCode.DEADLINE_EXCEEDED: "the registry is slow, or this node does not reach it",
    StatusCode.NOT_FOUND: "is the image's name right, and does the registry have it?",
    StatusCode.PERMISSION_DENIED: "check the pull secrets of the pod",
    StatusCode.UNAUTHENTICATED: "check the pull secrets of the pod",
    StatusCode.INVALID_ARGUMENT: "is the image's name right, and its registry one?",
}
"""For a failed pull: the runtime reports the registry's answer."""
_NO_RUNTIME = pattern(
    r"(?i)failed to connect to all addresses|socket closed|backends failing|stream removed|endpoint closing|GOAWAY"
)
"""Texts of gRPC's own for a runtime that does not run, or has stopped; with the same status code as a lost registry."""


class CriError(EdgedError):
    """A call to the container runtime failed.

    Attributes:
        operation: CRI's name of the call.
        on: id or name of its subject.
        code: gRPC's status.
        details: the runtime's text, without credentials, at most 2048 characters.
    """

    _hint: ClassVar[str] = "the runtime's own log says more"
    _retryable: ClassVar[bool] = True

    def __init__(self, operation: str, on: str, code: StatusCode, details: str) -> None:
        hint = _pull_hint(code, details) if operation == _PULL else ""
        super().__init__(f"CRI {operation}", on, hint or self._hint, retryable=self._retryable)
        self.operation = operation
        self.code = code
        self.details = details

    def __str__(self) -> str:
        about = f" of {self.on}" if self.on else ""
        return f"{self.operation}{about} failed: {self.details or 'no details'} ({self.code.name}; {self.hint})"


class UnavailableError(CriError):
    """The runtime cannot be reached, or went away during the call."""

    _hint = "is the container runtime running, and is containerRuntimeEndpoint its socket?"


class ConnectionClosedError(UnavailableError):
    """The client was closed on our side, before or during the call."""

    _hint = "edged is stopping"
    _retryable = False


class DeadlineExceededError(CriError):
    """No answer in time. The runtime may still carry the call out: check before a retry."""

    _hint = "the machine or the runtime is slow; runtimeRequestTimeout is how long edged waits"


class NotFoundError(CriError):
    """The sandbox, container or image does not exist."""

    _hint = "it was removed, or never made"
    _retryable = False


class AlreadyExistsError(CriError):
    """Another sandbox or container has the name."""

    _hint = "remove what has the same name, or raise the attempt number"
    _retryable = False


class InvalidRequestError(CriError):
    """The runtime will not accept this request, however often it is repeated."""

    _hint = "the pod asks for what this runtime cannot do"
    _retryable = False


class RefusedError(CriError):
    """Permissions or credentials do not suffice."""

    _hint = "check the pull secrets of the pod and the permissions of the socket"
    _retryable = False


class UnimplementedError(CriError):
    """This runtime does not know the call."""

    _hint = "this container runtime does not have it"
    _retryable = False


class ExhaustedError(CriError):
    """A limit was hit: of the runtime, or of the size of a message (16 MiB)."""

    _hint = "too many objects or too much output for one answer"


_CLASSES: dict[StatusCode, type[CriError]] = {
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    StatusCode.NOT_FOUND: NotFoundError,
    StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    StatusCode.OUT_OF_RANGE: InvalidRequestError,
    StatusCode.PERMISSION_DENIED: RefusedError,
    StatusCode.UNAUTHENTICATED: RefusedError,
    StatusCode.UNIMPLEMENTED: UnimplementedError,
    StatusCode.RESOURCE_EXHAUSTED: ExhaustedError,
}


def _pull_hint(code: StatusCode, details: str) -> str:
    """Return the advice about a failed pull; "" if the class has it."""
    return "" if _NO_RUNTIME.search(details) else _PULL_HINTS.get(code, "")


def error_of(operation: str, subject: str, code: StatusCode, details: str, secrets: Iterable[str] = ()) -> CriError:
    """Return the exception for a gRPC status; none of the `secrets` appears in it."""
    kind = _CLASSES.get(code, CriError)
    if code is StatusCode.UNKNOWN and _NAME_TAKEN.search(details):
        kind = AlreadyExistsError
    return kind(operation, redact(subject, secrets), code, redact(details, secrets))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without the given secrets and without credentials in URLs and headers; shortened to 2048
    characters.
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, _REDACTED)
    text = _CREDENTIALS_IN_URL.sub(_REDACTED, text)
    text = _TOKEN_PARAMETER.sub(rf"\1{_REDACTED}", text)
    text = _AUTHORIZATION.sub(rf"\1 {_REDACTED}", text)
    return text if len(text) <= _MAX_DETAILS else f"{text[:_MAX_DETAILS]}…"
