"""Reads the objects in answers of the cloud."""

import logging
from typing import TypeVar

import msgspec

from metamanager.client import CallError
from modules.apimachinery.types import decode
from modules.apimachinery.types.codec import DecodeError

T = TypeVar("T", bound=msgspec.Struct)
_log = logging.getLogger(__name__)


def read_answer(kind: type[T], answer: bytes | CallError) -> T | None:
    """Return the object in an answer; None for an error, and, with a line in the log, for invalid content."""
    if isinstance(answer, CallError):
        return None
    try:
        return decode(kind, answer)
    except DecodeError as error:
        _log.warning("an answer from the cloud cannot be read: %s", error)
        return None
