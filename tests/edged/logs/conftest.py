"""Readers of logs that give their turns back."""

from collections.abc import Iterator

import pytest

from edged.logs import reader


@pytest.fixture(autouse=True)
def turns() -> Iterator[None]:
    """The turn of all readers is free at the end, or every later one would wait for ever."""
    yield
    assert not reader._TURNS._turns.locked()
