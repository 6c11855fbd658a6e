"""The error responses to requests whose handler raised an exception."""

import logging
from collections import Counter

from beehive.errors import ContentError, ResourceError
from beehive.message import Message
from beehive.printable import clipped
from modules.apimachinery.api_errors import TOO_DEEP, ApiError, BadRequestError, InternalError

_log = logging.getLogger(__name__)


class Failures:
    """Converts exceptions of handlers to API errors; counts and logs them."""

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
        if isinstance(error, RecursionError):
            return BadRequestError(TOO_DEEP)
        _log.error("a request failed: %s", clipped(about), exc_info=error)
        return InternalError(type(error).__name__)
