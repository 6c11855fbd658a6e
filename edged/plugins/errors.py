"""The errors of the node's plug-ins.

PluginError             a plug-in's data are unusable, or its registration is refused
└── PluginCallError     a call over its socket failed
"""

from edged.errors import EdgedError


class PluginError(EdgedError):
    """A plug-in cannot be used."""


class PluginCallError(PluginError):
    """A call over a plug-in's socket failed.

    Args:
        method: the call.
        on: its subject.
        code: gRPC's name of the failure: `UNAVAILABLE`, `DEADLINE_EXCEEDED`.
        details: the plug-in's text, without secrets.
    """

    def __init__(self, method: str, on: str, code: str, details: str) -> None:
        super().__init__(f"{method} failed", on, f"{details or 'it said nothing'}; {code}", retryable=True)
        self.code = code
        self.details = details
