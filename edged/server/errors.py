"""Errors of the local server.

EdgedError
├── ServerError     an address or socket cannot be listened on; the process does not start
└── RequestError    the response to one request, with a status of 400 or more
"""

from edged.errors import EdgedError


class ServerError(EdgedError):
    """The local HTTP server cannot listen on its address."""


class RequestError(EdgedError):
    """A request that cannot be served; the text is the body of the response.

    Args:
        status: HTTP status.
        attempt: see `EdgedError`.
        on: see `EdgedError`.
        hint: see `EdgedError`.
    """

    def __init__(self, status: int, attempt: str, on: str = "", hint: str = "") -> None:
        super().__init__(attempt, on, hint)
        self.status = status
