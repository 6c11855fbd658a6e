"""What mutants put in the place of contexts and of `ExitStack`: their clean-up runs only without an error."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Final

_LEFT: Final[list[object]] = []
"""Contexts that an error has left open; collected, they would close all the same."""


class LeftOpen(AbstractContextManager[Any]):
    """A context that an error leaves open.

    Args:
        context: the context.
    """

    def __init__(self, context: AbstractContextManager[Any]) -> None:
        self._context = context

    def __enter__(self) -> Any:
        return self._context.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if kind is None:
            return self._context.__exit__(None, None, None)
        _LEFT.append(self._context)
        return False


class LeftOpenStack:
    """An `ExitStack` that runs what it is given here only without an error.

    Args:
        stack: the stack; any other object is asked itself.
    """

    def __init__(self, stack: Any) -> None:
        self._stack = stack

    def enter_context(self, context: AbstractContextManager[Any]) -> Any:
        """Enter a context that an error leaves open."""
        return self._stack.enter_context(LeftOpen(context) if isinstance(self._stack, ExitStack) else context)

    def callback(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function at the end, but not after an error."""
        if not isinstance(self._stack, ExitStack):
            return self._stack.callback(function, *args, **kwargs)

        def unless_failed(kind: type[BaseException] | None, *_: object) -> None:
            if kind is None:
                function(*args, **kwargs)
            else:
                _LEFT.append((function, args, kwargs))

        return self._stack.push(unless_failed)
