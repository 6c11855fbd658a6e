"""The causes of a metav1.Status 422 (apimachinery's `field.Error`)."""

from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.api_errors import ApiError, InvalidError

MOST: Final = 20
"""Causes of one refusal."""

_LONGEST: Final = 200


class Cause(NamedTuple):
    """One rule that an object breaks."""

    field: str
    message: str
    """Begins with the words of its type: `Invalid value: …`, `Required value`."""
    reason: str = "FieldValueInvalid"


def invalid(field: str, value: Any, why: str) -> Cause:
    """Return the cause for a wrong value."""
    return Cause(field, f"Invalid value: {shown(value)}: {why}")


def required(field: str, why: str = "") -> Cause:
    """Return the cause for a missing value."""
    return Cause(field, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def forbidden(field: str, why: str) -> Cause:
    """Return the cause for a value that must not be there."""
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def duplicate(field: str, value: Any) -> Cause:
    """Return the cause for a value that is there more than once."""
    return Cause(field, f"Duplicate value: {shown(value)}", "FieldValueDuplicate")


def unsupported(field: str, value: Any, known: list[Any]) -> Cause:
    """Return the cause for a value outside an enumeration."""
    words = ", ".join(map(shown, known[:MOST]))
    return Cause(field, f"Unsupported value: {shown(value)}: supported values: {words}", "FieldValueNotSupported")


def shown(value: Any) -> str:
    """Return a value as JSON, shortened."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class InvalidFieldsError(InvalidError):
    """The object breaks rules of its kind; each is a cause."""

    def __init__(self, kind: str, group: str, name: str, causes: list[Cause]) -> None:
        told = [f"{cause.field}: {cause.message}" for cause in causes]
        text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        about = {"name": name, "group": group, "kind": kind}
        details: dict[str, Any] = {field: value for field, value in about.items() if value}
        details["causes"] = [{"reason": one.reason, "message": one.message, "field": one.field} for one in causes]
        qualified = f"{kind}.{group}" if group else kind
        ApiError.__init__(self, "cannot accept an object", f'{qualified} "{name}" is invalid: {text}', details)
