"""The causes of a metav1.Status 422 (apimachinery's `field.Error`)."""

from collections.abc import Sequence
from typing import Any, Final

from modules.apimachinery.api_errors import ApiError, InvalidError
from modules.apimachinery.validation.causes import Cause, Causes

MOST: Final = 20
"""Causes of one refusal."""


class InvalidFieldsError(InvalidError):
    """The object breaks rules of its kind; each is a cause."""

    def __init__(self, kind: str, group: str, name: str, causes: Sequence[Cause]) -> None:
        more = [f"and {causes.more} more"] if isinstance(causes, Causes) and causes.more else []
        told = [*dict.fromkeys(map(str, causes)), *more]
        text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        about = {"name": name, "group": group, "kind": kind}
        details: dict[str, Any] = {field: value for field, value in about.items() if value}
        details["causes"] = [{"reason": one.reason, "message": one.message, "field": one.field} for one in causes]
        qualified = f"{kind}.{group}" if group else kind
        ApiError.__init__(self, "cannot accept an object", f'{qualified} "{name}" is invalid: {text}', details)
