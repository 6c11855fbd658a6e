"""Errors of hooks.

EdgedError
└── HookError                  a hook failed, or could not be run
    └── HookInterruptedError   the pod or edged is ending
"""

from edged.errors import EdgedError


class HookError(EdgedError):
    """A hook has failed. The message never contains the output of the hook, which may be secret."""

    def __init__(self, container: str, hint: str) -> None:
        super().__init__("run a lifecycle hook", f"container {container}", hint, retryable=True)


class HookInterruptedError(HookError):
    """The pod or edged is ending: the hook's result does not matter any more."""
