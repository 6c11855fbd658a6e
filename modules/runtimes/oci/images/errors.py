"""Errors of the image service: each is the gRPC status of one refused request."""

from modules.runtimes.engine.errors import (
    BadRequestError,
    DeadlinePassedError,
    NoSuchObjectError,
    RequestRefusedError,
    RunFailedError,
    TooManyError,
    WrongStateError,
)
from modules.runtimes.oci.images.worker import errors as kinds
from protos.status import StatusCode

__all__ = [
    "BadRequestError",
    "DeadlinePassedError",
    "NoSuchObjectError",
    "PermissionDeniedError",
    "RegistryUnavailableError",
    "RequestRefusedError",
    "RunFailedError",
    "TooManyError",
    "WrongStateError",
    "refusal",
]


class PermissionDeniedError(RequestRefusedError):
    """The registry wants other credentials."""

    status = StatusCode.PERMISSION_DENIED


class RegistryUnavailableError(RequestRefusedError):
    """The registry does not answer; another attempt may succeed."""

    status = StatusCode.UNAVAILABLE


_BY_KIND: dict[str, type[RequestRefusedError]] = {
    kinds.INVALID: BadRequestError,
    kinds.NOT_FOUND: NoSuchObjectError,
    kinds.DENIED: PermissionDeniedError,
    kinds.UNAVAILABLE: RegistryUnavailableError,
    kinds.LIMIT: TooManyError,
    kinds.MACHINE: RunFailedError,
}


def refusal(attempt: str, kind: str, reason: str, hint: str) -> RequestRefusedError:
    """Return the error of a request from a worker's report."""
    return _BY_KIND.get(kind, RunFailedError)(attempt, reason, hint)
