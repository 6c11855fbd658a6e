"""Errors of Docker Engine as refusals of CRI requests."""

from typing import Final

from modules.runtimes.engine.errors import (
    BadRequestError,
    NoSuchObjectError,
    RequestRefusedError,
    RunFailedError,
    WrongStateError,
)
from protos.status import StatusCode

_MOST: Final = 2000
"""Characters of Docker's message that are passed on."""


class DockerUnreachableError(RequestRefusedError):
    """Docker Engine does not answer: it is stopped, restarting or hanging. The state of containers is unknown."""

    status = StatusCode.UNAVAILABLE


class ConflictError(WrongStateError):
    """Docker's 409: the name is in use, the image is in use, or the container is not running."""


_KINDS: Final[dict[int, type[RequestRefusedError]]] = {
    400: BadRequestError,
    404: NoSuchObjectError,
    409: ConflictError,
}


def refusal(attempt: str, status: int, message: str) -> RequestRefusedError:
    """Return the error for a failed answer of Docker's; `status` is its HTTP status."""
    reason = message[:_MOST].strip() or f"Docker answers with status {status}"
    return _KINDS.get(status, RunFailedError)(attempt, reason)
