"""The errors of metamanager and its clients.

MetaError
├── StoreError              the database failed
│   ├── StoreOpenError          it cannot be opened: path, permission, not a database, made by a newer version
│   ├── StoreDamagedError       it is damaged: the next open sets it aside and makes a new one
│   └── StoreWriteError         a change failed; `batch_lost` is set if the whole transaction is lost
└── CallError               a request to metamanager got no usable answer
    ├── NoAnswerError           no answer before the deadline
    ├── NotConnectedError       only the cloud can answer, and the node is not connected
    ├── MalformedAnswerError    the answer has an unknown form
    └── RejectedError           the cloud, or the store, refused; `status` is Kubernetes' metav1.Status
        ├── NotFoundError           the object does not exist (404)
        ├── AlreadyExistsError      it exists already (409, reason AlreadyExists)
        └── ConflictError           it has changed meanwhile (409, reason Conflict): read it again, then retry

All carry the attempt, its object, a hint, and whether a retry may help (`BeehiveError`).
"""

import msgspec

from beehive import BeehiveError

_UID = "uid"


class MetaError(BeehiveError):
    """Base class."""


class StoreError(MetaError):
    """The database failed."""


class StoreOpenError(StoreError):
    """The database cannot be opened."""


class StoreDamagedError(StoreError):
    """The database is damaged. The next open sets it aside and copies its readable rows into a new one."""


class StoreWriteError(StoreError):
    """A change failed.

    Args:
        attempt: as in `BeehiveError`, like `on` and `hint`.
        batch_lost: whether the whole transaction is lost (disk full, I/O error), not only this change.
    """

    def __init__(self, attempt: str, on: str = "", hint: str = "", *, batch_lost: bool) -> None:
        self.batch_lost = batch_lost
        super().__init__(attempt, on, hint, retryable=True)


class CallError(MetaError):
    """A request to metamanager got no usable answer."""


class NoAnswerError(CallError):
    """No answer before the deadline, or the request could not be delivered; a retry may help."""


class NotConnectedError(CallError):
    """Only the cloud can answer, and the node is not connected; a retry may help."""


class MalformedAnswerError(CallError):
    """The answer has an unknown form."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a metav1.Status that clients use."""

    code: int = 0
    """HTTP status code; 0 for a refusal without one (KubeEdge encodes a Go error without fields as `{}`)."""
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
    """The object does not exist."""


class AlreadyExistsError(RejectedError):
    """An object of that name exists already."""


class ConflictError(RejectedError):
    """The object has changed meanwhile: read it again, apply the change to its new state, retry."""


def rejected(attempt: str, on: str, status: Status) -> RejectedError:
    """Return the error for a refusal."""
    if status.code == 404 or status.reason == "NotFound":
        return NotFoundError(attempt, on, status)
    if status.reason == "AlreadyExists":
        return AlreadyExistsError(attempt, on, status)
    if status.code == 409 or status.reason == "Conflict":
        return ConflictError(attempt, on, status, retryable=True)
    return RejectedError(attempt, on, status, retryable=status.code in (429, 500, 503, 504))


def is_gone(error: CallError) -> bool:
    """Return whether the answer to a query for a pod by name and uid is final: no pod of that uid exists.

    There is none of the name (404), or the name has another uid: a conflict (409), or a change of the uid by a patch,
    which kube-apiserver refuses as invalid (422). A conflict of resourceVersions does not name the uid.
    """
    if isinstance(error, NotFoundError):
        return True
    return isinstance(error, RejectedError) and error.status.code in (409, 422) and _UID in error.status.message.lower()
