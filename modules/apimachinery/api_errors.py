"""The API server's errors, in Kubernetes' words.

ApiError                    carries a metav1.Status
├── NotFoundError           404
├── ForbiddenError          403: not authorized
├── AlreadyExistsError      409 AlreadyExists
├── ConflictError           409 Conflict: another resourceVersion or uid than the caller believes
├── InvalidError            422: the object breaks a rule of its kind
├── RefusedError            any: the metav1.Status of an API server's response
├── InternalError           500: a failure of the server
├── TooLargeError           413 RequestEntityTooLarge
├── UnprocessableError      422 Invalid: a patch does not fit the object
├── BadRequestError         400: the request cannot be read
├── UnsupportedMediaTypeError 415: the body has another format
├── MethodNotAllowedError   405: the resource has no such verb
└── UnknownKindError        404: no such kind is stored

A Go edge compares `reason` and `code` (apierrors.IsNotFound and others), so both must be Kubernetes'.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from beehive.errors import BeehiveError, ContentError, ResourceError
from beehive.message import Message
from beehive.printable import clipped
from modules.apimachinery.limits import REQUEST_BYTES, VALUES

_REASONS: Final = {
    "Required value": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
}


class ApiError(BeehiveError):
    """Base of the tree: an error response of the API server.

    Args:
        attempt: the failed action, as a phrase.
        message: Kubernetes' message.
        details: metav1.StatusDetails.
        hint: advice for the reader.
    """

    code = 500
    reason = "InternalError"

    def __init__(self, attempt: str, message: str, details: dict[str, Any] | None = None, hint: str = "") -> None:
        super().__init__(attempt, message, hint)
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """Return the metav1.Status, in Go's key order."""
        status: dict[str, Any] = {"metadata": {}, "status": "Failure", "message": self.message}
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        return {**status, "code": self.code}


def _details(name: str, resource: str, group: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": resource}
    return {key: value for key, value in details.items() if value}


def _reason_of(why: str) -> str:
    """Return the reason of a cause, which the first words of its message name (apimachinery's `field.Error`)."""
    return next((reason for words, reason in _REASONS.items() if why.startswith(words)), "FieldValueInvalid")


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


class NotFoundError(ApiError):
    """The object does not exist. `resource` names its kind: `pods` in an API server's error, `pod` in an error of
    KubeEdge's lister.
    """

    code = 404
    reason = "NotFound"

    def __init__(self, resource: str, name: str, group: str = "") -> None:
        message = f'{_qualified(resource, group)} "{name}" not found'
        super().__init__("cannot find an object", message, _details(name, resource, group))


class ForbiddenError(ApiError):
    """The client is not authorized for the request."""

    code = 403
    reason = "Forbidden"

    def __init__(
        self, resource: str, name: str, why: str, group: str = "", causes: Sequence[dict[str, str]] = ()
    ) -> None:
        named = f' "{name}"' if name else ""
        message = f"{_qualified(resource, group)}{named} is forbidden: {why}"
        details = _details(name, resource, group)
        if causes:
            details["causes"] = [*causes]
        super().__init__("cannot let a node do that", message, details)


class AlreadyExistsError(ApiError):
    """An object of that name exists.

    Args:
        resource: the plural of its kind.
        name: its name.
        group: the API group of its kind.
        is_generated: whether the new object has a `generateName`; then its creation may be tried again.
        is_being_deleted: whether the object that exists is going.
    """

    code = 409
    reason = "AlreadyExists"

    def __init__(
        self, resource: str, name: str, group: str = "", *, is_generated: bool = False, is_being_deleted: bool = False
    ) -> None:
        message = f'{_qualified(resource, group)} "{name}" already exists'
        details = _details(name, resource, group)
        if is_generated:
            message += ", the server was not able to generate a unique name for the object"
            details["retryAfterSeconds"] = 1
        if is_being_deleted:
            message = f"object is being deleted: {message}"
        super().__init__("cannot create an object", message, details)


class ConflictError(ApiError):
    """The stored object has another uid or resourceVersion than the request."""

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
        details["causes"] = [{"reason": _reason_of(why), "message": why, "field": field}]
        super().__init__("cannot accept an object", message, details)


class RefusedError(ApiError):
    """An API server's refusal of a request.

    Args:
        status: its metav1.Status.
    """

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__("cannot do what a request asks for", str(status.get("message") or "refused"))
        code = status.get("code")
        self.code = code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR
        self.reason = str(status.get("reason") or "")
        self._status = status

    def status(self) -> dict[str, Any]:
        """Return the metav1.Status of the response."""
        return self._status

    @property
    def is_not_found(self) -> bool:
        """Whether there is no such object."""
        return self.code == HTTPStatus.NOT_FOUND


class InternalError(ApiError):
    """A failure of the server, in the words of `apierrors.NewInternalError`."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot answer a request", f"Internal error occurred: {why}")


class TooLargeError(ApiError):
    """The request, or the object that it would store, is too large (`apierrors.NewRequestEntityTooLargeError`)."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, limit: str = f"limit is {REQUEST_BYTES} bytes and {VALUES} values") -> None:
        super().__init__("cannot read a request", f"Request entity too large: {limit}")


class BadRequestError(ApiError):
    """The request cannot be read."""

    code = 400
    reason = "BadRequest"

    def __init__(self, message: str) -> None:
        super().__init__("cannot read a request", message)


class UnprocessableError(ApiError):
    """A patch does not fit the object. An API server keeps the reason to itself; here it is a cause in the details."""

    code = 422
    reason = "Invalid"

    def __init__(self, why: str) -> None:
        details = {"causes": [{"reason": "FieldValueInvalid", "message": f"Invalid value: {why}", "field": "patch"}]}
        super().__init__(
            "cannot apply a patch", "the server rejected our request due to an error in our request", details, why
        )


class UnsupportedMediaTypeError(ApiError):
    """The request's body has a format that is not served."""

    code = 415
    reason = "UnsupportedMediaType"

    def __init__(self, message: str) -> None:
        super().__init__("cannot read a request", message)


class MethodNotAllowedError(ApiError):
    """The resource has no such verb."""

    code = 405
    reason = "MethodNotAllowed"

    def __init__(self, message: str) -> None:
        super().__init__("cannot do that", message)


class TooManyRequestsError(ApiError):
    """More than one client may have."""

    code = 429
    reason = "TooManyRequests"

    def __init__(self, message: str) -> None:
        super().__init__("cannot take another request", message)


class UnknownKindError(ApiError):
    """The API server stores no objects of that kind."""

    code = 404
    reason = "NotFound"

    def __init__(self, word: str, known: Sequence[str]) -> None:
        message = f"the server doesn't have a resource type {word[:100]!r}"
        super().__init__("cannot find the kind", message, hint="known kinds: " + ", ".join(known))


_log = logging.getLogger(__name__)


class Failures:
    """The failures of handlers: their exceptions, converted to API errors, counted and logged."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Exceptions by type."""

    def refusal_of(self, message: Message, error: Exception) -> ApiError:
        """Return the API error for the sender of the message."""
        self.counts[type(error).__name__] += 1
        if isinstance(error, ApiError):
            return error
        about = f"{message.route.operation} {message.route.resource}"
        if isinstance(error, ContentError | ResourceError):
            _log.warning("a request cannot be read: %s: %s", clipped(about), error)
            return BadRequestError(clipped(str(error)))
        _log.error("a request failed: %s", clipped(about), exc_info=error)
        return InternalError(type(error).__name__)
