"""`functools.lru_cache` bounded in bytes, for functions of texts that a peer may choose."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST = 512
"""Characters that the texts of one call may have together for its result to be cached. The names of Kubernetes objects
are shorter; a peer could fill the memory with longer texts.
"""


def cached_for_short_texts(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function of texts and other small values with an `lru_cache` that passes calls with long texts by."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(maxsize)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if are_short(*args, *kwargs.values()):
                return cached(*args, **kwargs)  # type: ignore[arg-type]
            return function(*args, **kwargs)

        return call

    return decorate


def are_short(*values: object) -> bool:
    """Return whether the texts among the values are short enough to be kept as a key."""
    return sum([len(value) for value in values if isinstance(value, str)]) <= LONGEST
