"""The demand that no error of the product's own is a line of the log only."""

import logging
from collections.abc import Callable
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.codec import decode
from modules.apimachinery.kinds import key_of
from tests.support.swallowed import SwallowedErrors

_log = logging.getLogger(__name__)


def _raise() -> None:
    raise KeyError("on purpose")


@pytest.mark.modules_fail
@pytest.mark.parametrize(
    ("call", "count"),
    [
        (lambda: key_of(cast("Any", None)), 1),
        (lambda: key_of({}), 1),
        (_raise, 0),
        (Mock(side_effect=TypeError), 0),
        (lambda: decode(b"{"), 0),
    ],
)
def test_only_errors_that_the_product_has_not_foreseen_are_found(call: Callable[[], Any], count: int) -> None:
    swallowed = SwallowedErrors()
    logging.getLogger().addHandler(swallowed)
    try:
        call()
    except Exception:  # noqa: BLE001 - as a thread that goes on
        _log.exception("the thread goes on")
    found = swallowed.take()
    assert (len(found), swallowed.take()) == (count, [])
    assert all("the thread goes on: " in each and "kinds.py" in each for each in found)
