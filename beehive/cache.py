"""A memory of what was worked out for short texts, bounded in bytes because the texts may come from a peer."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST = 512
"""Characters of all the texts of one call beyond which its result is worked out each time. Names of Kubernetes objects
are shorter; longer ones a peer could fill the memory with.
"""


def remembered(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Like `functools.lru_cache`, for a function of texts and other small values; calls with long texts are not
    remembered.
    """

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
    """Whether the texts among the values may be kept as a key."""
    return sum([len(value) for value in values if isinstance(value, str)]) <= LONGEST
