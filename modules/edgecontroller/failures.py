"""Why a request is refused when what answers it has failed: an error of one request answers that request."""

import logging
from collections import Counter

from beehive.errors import ContentError, ResourceError
from beehive.message import Message
from beehive.text import clipped
from modules.edgecontroller.errors import TOO_DEEP, ApiError, BadRequestError, InternalError

_log = logging.getLogger(__name__)


class Failures:
    """Turns what was raised while a message was handled into what is answered; counts and logs it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By the exception's type."""

    def refusal_of(self, message: Message, error: Exception) -> ApiError:
        """What the sender of the message is told."""
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
