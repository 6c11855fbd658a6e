"""What can go wrong with a plug-in of the node.

PluginError             what a plug-in says of itself cannot be used, or it will not be registered
└── PluginCallError     a call over its socket failed
"""

from edged.errors import EdgedError


class PluginError(EdgedError):
    """A plug-in cannot be used."""


class PluginCallError(PluginError):
    """A call over a plug-in's socket failed.

    Args:
        method: the call.
        on: what it was about.
        code: gRPC's name of the failure: `UNAVAILABLE`, `DEADLINE_EXCEEDED`.
        details: what the plug-in said, without secrets.
    """

    def __init__(self, method: str, on: str, code: str, details: str) -> None:
        super().__init__(f"{method} failed", on, f"{details or 'it said nothing'}; {code}", retryable=True)
        self.code = code
        self.details = details
