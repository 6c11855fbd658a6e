"""What the stub's object store refuses, as an API server words it.

ApiError                    carries a metav1.Status
├── NotFoundError           404
├── ForbiddenError          403: who asks may not
├── AlreadyExistsError      409 AlreadyExists
├── ConflictError           409 Conflict: another resourceVersion or uid than the caller believes
├── InvalidError            422: the object breaks a rule of its kind
├── InternalError           500: the server's own mistake
├── TooLargeError           413 RequestEntityTooLarge
├── BadRequestError         400: the request itself cannot be read
└── UnknownKindError        404: no such kind is kept here

A Go edge compares `reason` and `code` of these (apierrors.IsNotFound and friends), so both must be right.
"""

from collections.abc import Sequence
from typing import Any, Final

from beehive.errors import BeehiveError
from modules.edgecontroller.limits import REQUEST_BYTES, VALUES


class ApiError(BeehiveError):
    """Base of the tree: an answer of the API server that is not the object asked for.

    Args:
        attempt: what was attempted, as a phrase.
        message: Kubernetes' sentence about it.
        details: metav1.StatusDetails.
        hint: what the reader can do about it.
    """

    code = 500
    reason = "InternalError"

    def __init__(self, attempt: str, message: str, details: dict[str, Any] | None = None, hint: str = "") -> None:
        super().__init__(attempt, message, hint)
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """The metav1.Status, in Go's key order."""
        status: dict[str, Any] = {
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            status["details"] = self.details
        return {**status, "code": self.code}


def _details(name: str, resource: str, group: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": resource}
    return {key: value for key, value in details.items() if value}


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


class NotFoundError(ApiError):
    """No such object. `resource` is the word for its kind: an API server says `pods`, a lister of KubeEdge
    `pod`.
    """

    code = 404
    reason = "NotFound"

    def __init__(self, resource: str, name: str, group: str = "") -> None:
        message = f'{_qualified(resource, group)} "{name}" not found'
        super().__init__("cannot find an object", message, _details(name, resource, group))


class ForbiddenError(ApiError):
    """Who asks may not do that."""

    code = 403
    reason = "Forbidden"

    def __init__(self, resource: str, name: str, why: str, group: str = "") -> None:
        named = f' "{name}"' if name else ""
        message = f"{_qualified(resource, group)}{named} is forbidden: {why}"
        super().__init__("cannot let a node do that", message, _details(name, resource, group))


class AlreadyExistsError(ApiError):
    """An object of that name is there already."""

    code = 409
    reason = "AlreadyExists"

    def __init__(self, resource: str, name: str, group: str = "") -> None:
        message = f'{_qualified(resource, group)} "{name}" already exists'
        super().__init__("cannot create an object", message, _details(name, resource, group))


class ConflictError(ApiError):
    """The object is another one, or at another version, than the caller believes."""

    code = 409
    reason = "Conflict"

    def __init__(self, resource: str, name: str, why: str, group: str = "") -> None:
        message = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}'
        super().__init__("cannot change an object", message, _details(name, resource, group), "read it again")


class InvalidError(ApiError):
    """The object breaks a rule of its kind."""

    code = 422
    reason = "Invalid"

    def __init__(self, kind: str, name: str, field: str, why: str, group: str = "") -> None:
        message = f'{_qualified(kind, group)} "{name}" is invalid: {field}: {why}'
        details = _details(name, kind, group)
        details["causes"] = [{"reason": "FieldValueInvalid", "message": why, "field": field}]
        super().__init__("cannot accept an object", message, details)


class InternalError(ApiError):
    """The server's own mistake, worded as `apierrors.NewInternalError` does."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot answer a request", f"Internal error occurred: {why}")


class TooLargeError(ApiError):
    """The request, or what it would make of an object, is more than is looked at
    (`apierrors.NewRequestEntityTooLargeError`).
    """

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, limit: str = f"limit is {REQUEST_BYTES} bytes and {VALUES} values") -> None:
        super().__init__("cannot read a request", f"Request entity is too large: {limit}")


class BadRequestError(ApiError):
    """The request cannot be understood."""

    code = 400
    reason = "BadRequest"

    def __init__(self, message: str) -> None:
        super().__init__("cannot read a request", message)


TOO_DEEP: Final = "it is nested too deeply"
"""Says a `BadRequestError` of what can be decoded, but not looked at level by level."""


class UnknownKindError(ApiError):
    """The stub keeps no objects of that kind."""

    code = 404
    reason = "NotFound"

    def __init__(self, word: str, known: Sequence[str]) -> None:
        message = f"the server doesn't have a resource type {word[:100]!r}"
        super().__init__("cannot find the kind", message, hint="known kinds: " + ", ".join(known))
