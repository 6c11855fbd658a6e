"""`functools.lru_cache` bounded in bytes, for functions of texts that a peer may choose."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST = 512
"""Most characters in the texts of one call whose result is cached. The names of Kubernetes objects are shorter; longer
texts of a peer could fill the memory."""


def cached_for_short_texts(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function of texts and other small values with an `lru_cache` that does not cache calls with long
    texts.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(maxsize)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if are_short(*args, *kwargs.values()) if kwargs else are_short(*args):
                return cached(*args, **kwargs)  # type: ignore[arg-type]
            return function(*args, **kwargs)

        return call

    return decorate


def are_short(*values: object) -> bool:
    """Return whether the texts among the values are short enough to be kept as a key."""
    size = 0
    for value in values:
        if isinstance(value, str):
            size += len(value)
    return size <= LONGEST
