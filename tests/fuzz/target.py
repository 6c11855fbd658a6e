"""What is fuzzed: a function that takes bytes of a stranger, and what must hold of it."""

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from tests.fuzz.mutate import mutate


class ViolationError(AssertionError):
    """Something was accepted that must be refused, or a law did not hold."""


class Target(msgspec.Struct, frozen=True):
    """A parser with its oracle."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    """Good inputs; called once."""
    check: Callable[[bytes, Random], None]
    """Feeds it. Documented refusals end here; whatever it raises is a finding."""
    share: float = 1.0
    """How many cases it gets of an even part: less for what is slow."""
    make: Callable[[Random, Sequence[bytes]], bytes] = mutate
    """Makes the input of a case from the good ones."""

    def case(self, seed: int, number: int, seeds: Sequence[bytes]) -> tuple[bytes, Random]:
        """The input of a case, and the randomness of its check. A function of its arguments."""
        random = Random(f"{self.name}/{seed}/{number}")
        return self.make(random, seeds), random


def must(true: bool, what: str) -> None:
    """Raise ViolationError unless something is true."""
    if not true:
        raise ViolationError(what)
