"""What the API refuses, in an API server's words (metav1.Status), by which clients tell what to do."""

from typing import Any, Final

import msgspec

from edged.server.answers import Answer
from modules.metaserver.resources import Resource

_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    406: "NotAcceptable", 409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType", 422: "Invalid", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class ApiError(Exception):
    """A request that is answered with a metav1.Status.

    Args:
        code: of HTTP; it gives the reason.
        message: for the person who asked.
        details: metav1.StatusDetails.
    """

    def __init__(self, code: int, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """The metav1.Status."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": _REASONS.get(self.code, "InternalError"),
        }
        if self.details:
            body["details"] = self.details
        return {**body, "code": self.code}

    def answer(self) -> Answer:
        """The Status as an answer."""
        return Answer(self.code, "application/json", msgspec.json.encode(self.status()))


class CloudRefusalError(ApiError):
    """The cloud's own Status, passed on as it came."""

    def __init__(self, status: dict[str, Any]) -> None:
        code = status.get("code")
        super().__init__(code if isinstance(code, int) and 400 <= code < 600 else 500, str(status.get("message", "")))
        self._status = status

    def status(self) -> dict[str, Any]:
        """What the cloud said."""
        return {"kind": "Status", "apiVersion": "v1", **self._status, "code": self.code}


def not_found(resource: Resource, name: str) -> ApiError:
    """There is no such object on this node."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return ApiError(
        404, f'{resource.qualified} "{name}" not found', {key: value for key, value in details.items() if value}
    )


def no_such_path() -> ApiError:
    """An API server's answer to a path that it does not serve."""
    return ApiError(404, "the server could not find the requested resource")
