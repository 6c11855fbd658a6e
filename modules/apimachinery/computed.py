"""Results of expensive functions that one thread computes, and another one uses.

A request about an object of tens of thousands of values takes a tenth of a second and more, and all other requests
would wait for it. So its functions are called on a thread of their own first, with `Results.recorded`. Who carries it
out then calls them by `computed`, with `Results.used`, and gets the results for arguments that are the same.

Such a request has a large body, or its object is large, or it becomes large by the defaults and rules of its kind, or
by copies in a patch. The last is seen on the way: functions count such steps with `charge_steps`, and in the context
`in_few_steps` too many of them end the request.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ManyStepsError(Exception):
    """The end of a request that takes many steps: it has to be computed beside others, and has changed nothing."""


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    value: Any = None
    error: Exception | None = None


class Results:
    """The results of the functions that are called for one request, in their order."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._next = 0
        self._is_recording = False

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Keep the results of all functions that this thread calls by `computed` in the context."""
        self._is_recording = True
        try:
            with self.used():
                yield
        finally:
            self._is_recording = False

    @contextmanager
    def used(self) -> Iterator[None]:
        """Give this thread the results that were kept, in the context."""
        before, _thread.results = _thread.results, self
        try:
            yield
        finally:
            _thread.results = before

    def of(self, function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> T:
        """Return what a function returns, or raise what it raises."""
        if self._is_recording:
            return self._record(function, arguments, options)
        for number in range(self._next, len(self._calls)):
            call = self._calls[number]
            if call.function == function and call.options == options and call.arguments == arguments:
                self._next = number + 1
                if call.error is not None:
                    raise call.error
                return call.value  # type: ignore[no-any-return]
        return function(*arguments, **options)

    def _record(self, function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> T:
        try:
            value = function(*arguments, **options)
        except Exception as error:
            self._calls.append(_Call(function, arguments, options, error=error))
            raise
        self._calls.append(_Call(function, arguments, options, value))
        return value


class _Thread(threading.local):
    results: Results | None = None
    steps_left: int | None = None


_thread = _Thread()


def computed(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns for its arguments, perhaps from the results of this thread's request.

    The function changes no argument, and nobody changes what it returns. A clock's present time and its ids are the
    same for the whole request.
    """
    results = _thread.results
    return function(*args, **kwargs) if results is None else results.of(function, args, kwargs)


def in_few_steps(most: int | None, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns for its arguments, and let it take so many steps, each of about a microsecond or
    a few, and not more; None: any number.

    Raises:
        ManyStepsError: by `charge_steps`, before the step that is too many.
    """
    before, _thread.steps_left = _thread.steps_left, most
    try:
        return function(*args, **kwargs)
    finally:
        _thread.steps_left = before


def charge_steps(steps: int) -> None:
    """Count steps that do not follow from the size of a request, before they are taken; see `in_few_steps`."""
    left = _thread.steps_left
    if left is None:
        return
    if steps > left:
        raise ManyStepsError
    _thread.steps_left = left - steps
