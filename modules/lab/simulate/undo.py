"""The ends of faults."""

from collections.abc import Callable

Undo = Callable[[], None]
"""Ends a fault."""


def nothing() -> None:
    """Do nothing, at the end of a fault without duration."""


def add(thing: object, attribute: str, amount: float) -> None:
    """Add to a number of something."""
    setattr(thing, attribute, getattr(thing, attribute) + amount)


def raised(thing: object, attribute: str, amount: float) -> Undo:
    """Add to a number while a fault lasts. Faults of one kind may overlap, so each subtracts its own amount."""
    add(thing, attribute, amount)
    return lambda: add(thing, attribute, -amount)
