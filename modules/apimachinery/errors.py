"""Refusals of the API, as a metav1.Status with an API server's reasons and messages, which clients evaluate."""

from typing import Any, Final

import msgspec

from beehive.http.errors import HttpStatusError
from beehive.http.responses import Response
from modules.apimachinery.resources import Resource

_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    406: "NotAcceptable", 409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class ApiStatusError(Exception):
    """A request that is answered with a metav1.Status.

    Args:
        code: HTTP status, which determines the reason.
        message: for the user.
        details: metav1.StatusDetails.
    """

    def __init__(self, code: int, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """Return the metav1.Status."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": _REASONS.get(self.code, "BadRequest" if self.code < 500 else "InternalError"),
        }
        if self.details:
            body["details"] = self.details
        return {**body, "code": self.code}

    def response(self) -> Response:
        """Return the Status as a response."""
        return Response(self.code, "application/json", msgspec.json.encode(self.status()) + b"\n")


class CloudRefusalError(ApiStatusError):
    """The cloud's own Status, passed on unchanged."""

    def __init__(self, status: dict[str, Any]) -> None:
        code = status.get("code")
        super().__init__(code if isinstance(code, int) and 400 <= code < 600 else 500, str(status.get("message", "")))
        self._status = status

    def status(self) -> dict[str, Any]:
        """Return the cloud's Status."""
        return {"kind": "Status", "apiVersion": "v1", **self._status, "code": self.code}


def unread(error: HttpStatusError) -> Response:
    """Return the Status of a request that an HTTP server has refused before the API saw it."""
    return ApiStatusError(error.status, str(error)).response()


def not_found(resource: Resource, name: str) -> ApiStatusError:
    """Return the error for an object that this node does not have."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return ApiStatusError(
        404, f'{resource.qualified} "{name}" not found', {key: value for key, value in details.items() if value}
    )


def too_large_version(version: int, present: int) -> ApiStatusError:
    """Return the error for a state of the objects that is still to come."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiStatusError(504, f"Timeout: Too large resource version: {version}, current: {present}", details)


def no_such_path() -> ApiStatusError:
    """Return the error for an unknown path."""
    return ApiStatusError(404, "the server could not find the requested resource")
