"""The errors of the bus, in one tree, so that a caller catches as many of them as it needs.

BeehiveError
├── FrameError              bytes that are not a message
├── ContentError            a message's content is not of the type that the reader asked for
├── ResourceError           a resource string outside the grammar
├── NotStartedError         an actor used without a runtime, a hive used before its start
├── StartError              a module could not be started
├── StopError               a module was still running when the stop deadline passed
├── InboxFullError          no room in an inbox within the deadline
└── RequestError            a request that got no usable answer
    ├── RequestTimeoutError     nobody answered before the deadline
    ├── RequestLostError        the module that had it has failed or stopped
    └── UndeliverableError      the request itself could not be delivered

Each carries the attempt, its object, a hint for the reader, and whether a retry may succeed.
"""

from typing import Final

_LONGEST: Final = 1024
"""Characters of an object's name in an error: messages appear in logs and responses, and a peer may choose any name."""


class BeehiveError(Exception):
    """Base of the tree.

    Args:
        attempt: a phrase such as "cannot decode a frame".
        on: the object of the attempt: a message id, a resource, a module's name. Never a secret.
        hint: advice to the reader.
        retryable: whether the same attempt may succeed later.
    """

    def __init__(self, attempt: str, on: str = "", hint: str = "", *, retryable: bool = False) -> None:
        self.attempt = attempt
        self.on = on = on if len(on) <= _LONGEST else f"{on[:_LONGEST]}… ({len(on)} characters)"
        self.hint = hint
        self.retryable = retryable
        text = f"{attempt}: {on}" if on else attempt
        super().__init__(f"{text} ({hint})" if hint else text)


class FrameError(BeehiveError):
    """Bytes from outside that are not a message; `reason` is a short, countable word."""

    def __init__(self, reason: str, detail: str, hint: str = "") -> None:
        self.reason = reason
        super().__init__("cannot decode the frame as a message", detail, hint)


class ContentError(BeehiveError):
    """The content of a message is not of the type the reader asked for."""


class ResourceError(BeehiveError):
    """A resource string outside the grammar of its side."""


class NotStartedError(BeehiveError):
    """An actor made without a runtime, or a hive used before it was started."""


class StartError(BeehiveError):
    """A module could not be started; the cause is chained."""


class StopError(BeehiveError):
    """A module was still running when the stop deadline passed."""


class InboxFullError(BeehiveError):
    """No room in an inbox within the deadline."""


class RequestError(BeehiveError):
    """A request that got no usable answer."""


class RequestTimeoutError(RequestError):
    """No answer came before the deadline."""

    def __init__(self, on: str, seconds: float) -> None:
        hint = "see the dead letters and the queue depth of the destination"
        super().__init__(f"no answer within {seconds:g} s", on, hint, retryable=True)


class RequestLostError(RequestError):
    """The module that handled a request has failed or stopped before its answer."""

    def __init__(self, attempt: str, on: str) -> None:
        super().__init__(attempt, on, "whether it was carried out is not known", retryable=True)


class UndeliverableError(RequestError):
    """A request whose destination does not exist or had no room."""


class TraceError(BeehiveError):
    """A trace cannot be read or written; the text names the file, the place in it, and a remedy."""
