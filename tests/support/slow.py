"""Which of many like cases `make test` runs, and which `make slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(number: int, values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test; all but one in `number` are slow."""
    return [
        value if place % number == 0 else pytest.param(value, marks=pytest.mark.slow)
        for place, value in enumerate(values)
    ]
