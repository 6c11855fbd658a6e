"""What the local server refuses or cannot do.

EdgedError
├── ServerError     an address or socket cannot be had; the process does not start
└── RequestError    one request is answered with a status that is no success
"""

from edged.errors import EdgedError


class ServerError(EdgedError):
    """The local HTTP server cannot have its address."""


class RequestError(EdgedError):
    """A request cannot be served; the text is the answer's body.

    Args:
        status: of HTTP.
        attempt: see `EdgedError`.
        on: likewise.
        hint: likewise.
    """

    def __init__(self, status: int, attempt: str, on: str = "", hint: str = "") -> None:
        super().__init__(attempt, on, hint)
        self.status = status
