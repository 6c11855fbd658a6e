"""Targets of the fuzzer: a function that parses untrusted bytes, with its invariants."""

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from tests.fuzz.mutate import mutate


class ViolationError(AssertionError):
    """An input was accepted that must be refused, or an invariant did not hold."""


class Target(msgspec.Struct, frozen=True):
    """A parser with its oracle."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    """Good inputs; called once."""
    check: Callable[[bytes, Random], None]
    """Parses an input and ends documented errors; any exception that it raises is a finding."""
    share: float = 1.0
    """Its number of cases relative to other targets: less than 1 for slow ones."""
    make: Callable[[Random, Sequence[bytes]], bytes] = mutate
    """Makes the input of a case from the good inputs."""

    def case(self, seed: int, number: int, seeds: Sequence[bytes]) -> tuple[bytes, Random]:
        """Return the input of a case and the randomness of its check, as a function of the arguments."""
        random = Random(f"{self.name}/{seed}/{number}")
        return self.make(random, seeds), random


def must(true: bool, what: str) -> None:
    """Raise ViolationError with the text `what` unless `true`."""
    if not true:
        raise ViolationError(what)
