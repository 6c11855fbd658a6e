"""The refusals of a mapper's calls."""

from enum import Enum


class RefusalStatus(Enum):
    """Kinds of refusals; each is a gRPC status code of that name."""

    INVALID_ARGUMENT = "the request cannot be taken, now or later"
    NOT_FOUND = "there is no such device on this node"
    RESOURCE_EXHAUSTED = "too much at a time; the same call may succeed later"
    UNAVAILABLE = "the node cannot do it now; the same call may succeed later"


class MapperCallRefused(Exception):  # noqa: N818 - an answer to its sender, not a failure here
    """A refused call of a mapper.

    Args:
        refusal: its kind.
        reason: the mistake, and the allowed values.
    """

    def __init__(self, refusal: RefusalStatus, reason: str) -> None:
        super().__init__(reason)
        self.refusal = refusal
        self.reason = reason
