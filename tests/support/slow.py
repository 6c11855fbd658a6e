"""Which of many like cases `make test` runs, and which `make extended` or `make slow`."""

from collections.abc import Iterable
from typing import Any, Final

import pytest

EXTENDED: Final = pytest.mark.extended


def one_in(number: int, values: Iterable[Any], mark: pytest.MarkDecorator = pytest.mark.slow) -> list[Any]:
    """Return the values as parameters of a test; all but one in `number` have a mark."""
    return [value if place % number == 0 else pytest.param(value, marks=mark) for place, value in enumerate(values)]
