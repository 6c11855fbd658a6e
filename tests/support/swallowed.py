"""The demand that no error of the product's own is a line of the log only, while its thread goes on."""

import logging
import sys
import traceback
from types import TracebackType
from typing import Final

from tests.docs import REPOSITORY

_UNFORESEEN: Final = (AssertionError, AttributeError, LookupError, NameError, RecursionError, TypeError)
"""Errors that no input and no machine may cause. Others are raised on purpose by tests, and by the product."""
_TESTS: Final = str(REPOSITORY / "tests")
_PRODUCT: Final = f"{REPOSITORY}/"
_DOUBLES: Final = "unittest/mock.py"
_OF_MODULES: Final = "beehive.supervisor"
"""The logger of modules that have failed, which tests demand themselves."""


class SwallowedErrors(logging.Handler):
    """The logged errors that the product's code has raised, and that nobody has raised in its place."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error of a record, if it has one."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, _UNFORESEEN) and record.name != _OF_MODULES and is_own(error.__traceback__):
            self._found.append(f"{record.getMessage()}: {type(error).__name__}: {error}, {where(error)}")

    def take(self) -> list[str]:
        """Return what was found since the last call."""
        found, self._found = self._found, []
        return found


def is_own(raised: TracebackType | None) -> bool:
    """Return whether the last of our functions in a traceback is the product's, and no double has raised for it."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(raised)]
    own = [file for file in files if file.startswith(_PRODUCT) and not file.startswith(sys.prefix)]
    return bool(own) and not own[-1].startswith(_TESTS) and not files[-1].endswith(_DOUBLES)


def where(error: BaseException) -> str:
    """Return the last places of an error's way."""
    return " < ".join(
        f"{each.filename}:{each.lineno}" for each in reversed(traceback.extract_tb(error.__traceback__)[-3:])
    )
