"""Errors of the commands that query the node."""

from edged.errors import EdgedError


class NodeError(EdgedError):
    """The node does not answer, or refuses, or the command makes no sense.

    Args:
        attempt: as for `EdgedError`.
        on: as for `EdgedError`.
        hint: as for `EdgedError`.
        status: HTTP status; 0 without an answer.
        usage: whether the command line is wrong.
    """

    def __init__(self, attempt: str, on: str = "", hint: str = "", *, status: int = 0, usage: bool = False) -> None:
        super().__init__(attempt, on, hint)
        self.status = status
        self.usage = usage
