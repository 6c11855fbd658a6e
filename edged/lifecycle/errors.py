"""What can go wrong with a hook.

EdgedError
└── HookError                  the hook was run, or could not be, and failed
    └── HookInterruptedError   nobody waits for it any more
"""

from edged.errors import EdgedError


class HookError(EdgedError):
    """A hook has failed. Says how, and never what the hook has written: that may be a secret."""

    def __init__(self, container: str, hint: str) -> None:
        super().__init__("run a lifecycle hook", f"container {container}", hint, retryable=True)


class HookInterruptedError(HookError):
    """The pod is to end, or edged: nobody waits for the hook any more."""
