"""Every error of metamanager and of those who ask it, in one tree.

MetaError
├── StoreError              the database did not do what was asked
│   ├── StoreOpenError          it cannot be opened: path, permission, not a database, made by a newer version
│   ├── StoreDamagedError       it is spoilt: opened again, it is set aside and a new one is made
│   └── StoreWriteError         a change was not made; `batch_lost` says whether the whole transaction is gone
└── CallError               a question to metamanager got no usable answer
    ├── NoAnswerError           nobody answered before the deadline
    ├── NotConnectedError       only the cloud could answer, and the node is not connected to it
    ├── MalformedAnswerError    the answer is of no form that is known
    └── RejectedError           the cloud, or the store, refused; `status` is Kubernetes' metav1.Status
        ├── NotFoundError           there is no such object (404)
        ├── AlreadyExistsError      there is one already (409, reason AlreadyExists)
        └── ConflictError           it has changed meanwhile (409, reason Conflict): read it again, then retry

All carry what was attempted, on what, a hint, and whether trying again may help (`BeehiveError`).
"""

import msgspec

from beehive import BeehiveError


class MetaError(BeehiveError):
    """Base of the tree."""


class StoreError(MetaError):
    """The database did not do what was asked."""


class StoreOpenError(StoreError):
    """The database cannot be opened."""


class StoreDamagedError(StoreError):
    """The database is spoilt. Opened again it is set aside, with what can be read of it in a new one."""


class StoreWriteError(StoreError):
    """A change was not made.

    Args:
        attempt: as in `BeehiveError`, as are `on` and `hint`.
        batch_lost: the database gave up the whole transaction (disk full, I/O error), not this change alone.
    """

    def __init__(self, attempt: str, on: str = "", hint: str = "", *, batch_lost: bool) -> None:
        self.batch_lost = batch_lost
        super().__init__(attempt, on, hint, retryable=True)


class CallError(MetaError):
    """A question to metamanager got no usable answer."""


class NoAnswerError(CallError):
    """Nobody answered before the deadline, or the question could not be delivered; trying again may help."""


class NotConnectedError(CallError):
    """Only the cloud could answer, and the node is not connected to it; trying again may help."""


class MalformedAnswerError(CallError):
    """The answer is of no form that is known."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """What the callers need of a metav1.Status."""

    code: int = 0
    """HTTP status code; 0 when the refusal carried none (KubeEdge encodes a Go error without fields as `{}`)."""
    reason: str = ""
    """A word for programs: `NotFound`, `AlreadyExists`, `Conflict`, `Forbidden`, …"""
    message: str = ""
    """A sentence for people."""


class RejectedError(CallError):
    """The cloud, or the store, refused."""

    def __init__(self, attempt: str, on: str, status: Status, *, retryable: bool = False) -> None:
        self.status = status
        super().__init__(attempt, on, status.message or status.reason or "no reason given", retryable=retryable)


class NotFoundError(RejectedError):
    """There is no such object."""


class AlreadyExistsError(RejectedError):
    """There is one of that name already."""


class ConflictError(RejectedError):
    """The object has changed meanwhile: read it again, apply the change to what it is now, retry."""


def rejected(attempt: str, on: str, status: Status) -> RejectedError:
    """The error of the tree for a refusal."""
    if status.code == 404 or status.reason == "NotFound":
        return NotFoundError(attempt, on, status)
    if status.reason == "AlreadyExists":
        return AlreadyExistsError(attempt, on, status)
    if status.code == 409 or status.reason == "Conflict":
        return ConflictError(attempt, on, status, retryable=True)
    return RejectedError(attempt, on, status, retryable=status.code in (429, 500, 503, 504))
