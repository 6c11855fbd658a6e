"""The causes of a refusal 422, in the words of apimachinery's `field.Error`."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

_LONGEST: Final = 200
"""Characters of a value in a message."""
_MOST_SHOWN: Final = 25
"""Supported values in a message."""


class Cause(msgspec.Struct, frozen=True):
    """One rule that an object breaks."""

    field: str
    message: str
    """Begins with the words of its type: `Invalid value: …`, `Required value`."""
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Causes(list[Cause]):
    """The causes that were found. The first hundred are kept, the others counted: an object has fifty thousand values.

    An API server tells all.
    """

    MOST = 100

    more = 0
    """Counted, not kept."""

    def append(self, cause: Cause) -> None:
        """Keep one more cause, or count it. The path of an object as a whole is "", so a field may begin with a dot."""
        if len(self) < self.MOST:
            super().append(msgspec.structs.replace(cause, field=cause.field.removeprefix(".")))
        else:
            self.more += 1


def invalid(field: str, value: Any, why: str) -> Cause:
    """Return the cause for a wrong value."""
    return Cause(field, f"Invalid value: {shown(value)}{f': {why}' if why else ''}")


def contradictory(field: str, why: str) -> Cause:
    """Return the cause for an object whose members contradict each other, without their values."""
    return Cause(field, f"Invalid value: {why}")


def required(field: str, why: str = "") -> Cause:
    """Return the cause for a missing value."""
    return Cause(field, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def forbidden(field: str, why: str) -> Cause:
    """Return the cause for a value that must not be there."""
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def duplicate(field: str, value: Any, why: str = "") -> Cause:
    """Return the cause for a value that is there more than once."""
    return Cause(field, f"Duplicate value: {shown(value)}{f': {why}' if why else ''}", "FieldValueDuplicate")


def not_found(field: str, value: Any) -> Cause:
    """Return the cause for a reference to something that the object does not have."""
    return Cause(field, f"Not found: {shown(value)}", "FieldValueNotFound")


def unsupported(field: str, value: Any, known: Sequence[Any]) -> Cause:
    """Return the cause for a value outside an enumeration."""
    words = ", ".join(map(shown, known[:_MOST_SHOWN]))
    return Cause(field, f"Unsupported value: {shown(value)}: supported values: {words}", "FieldValueNotSupported")


def too_long(field: str, most: int) -> Cause:
    """Return the cause for a text of more than so many bytes."""
    return Cause(field, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")


def too_many(field: str, number: int, most: int) -> Cause:
    """Return the cause for a list of more than so many elements."""
    items = f"{most} item{'' if most == 1 else 's'}"
    return Cause(field, f"Too many: {number}: must have at most {items}", "FieldValueTooMany")


def shown(value: Any) -> str:
    """Return a value as Go shows texts, and lists and maps of texts, and otherwise as JSON; shortened."""
    text = _of_texts(value) or msgspec.json.encode(value[: _LONGEST + 1] if isinstance(value, str) else value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _of_texts(value: Any) -> str:
    if not value or not isinstance(value, list | dict):
        return ""
    if not all(isinstance(each, str) for each in (value.values() if isinstance(value, dict) else value)):
        return ""
    if isinstance(value, dict):
        members = ", ".join(f"{_json(key)}:{_json(each)}" for key, each in sorted(value.items()))
        return f"map[string]string{{{members}}}"
    return f"[]string{{{', '.join(map(_json, value))}}}"


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
