"""What a test needs to be there."""

from typing import TypeVar

_Value = TypeVar("_Value")


def present(value: _Value | None) -> _Value:
    """Return a value that must not be None."""
    assert value is not None
    return value
