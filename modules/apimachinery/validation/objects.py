"""Validation of whole objects: their shape (400), and the rules of their kind (422), with all errors in one answer."""

from typing import Any, Final

from modules.apimachinery.api_errors import BadRequestError, InvalidError
from modules.apimachinery.conversion import validate_schema
from modules.apimachinery.kinds import JsonObject, Kind, kind_named
from modules.apimachinery.validation.causes import Cause, Causes
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.kinds import RULES, Creation, KindRules, Update
from modules.apimachinery.validation.metadata import check_metadata
from modules.apimachinery.validation.statuses import STATUS_RULES, StatusRule

_SHOWN: Final = 253
"""Characters of a name in a refusal."""
_NO_RULES: Final = KindRules()
_LENIENT: Final = ("CustomResourceDefinition", "Event", "Lease", "PodDisruptionBudget", "RuntimeClass")
"""Kinds whose finalizers need no domain, as those of custom ones."""


def check_shape(obj: Any, kind: Kind | None = None) -> JsonObject:
    """Return the object, after checking that it has kind, name and its kind's schema.

    Args:
        obj: the object.
        kind: its kind, when it is a custom one.

    Raises:
        BadRequestError: it is not an object with kind and metadata, or does not have its kind's schema.
        UnknownKindError: the API server stores no such objects.
        InvalidError: its apiVersion is wrong.
    """
    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
        raise BadRequestError("an object with apiVersion, kind and metadata is wanted")
    kind = kind or kind_named(obj["kind"])
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise BadRequestError(f"{kind.name}: metadata.name is missing")
    if obj.get("apiVersion", kind.api_version) != kind.api_version:
        why = f"{kind.api_version} is wanted"
        raise InvalidError(kind.name, meta["name"], "apiVersion", why, kind.api_group)
    validate_schema(obj)
    return obj


def validate_metadata(obj: Any, kind: Kind | None = None) -> JsonObject:
    """Return the object, after checking its shape and the rules of its metadata.

    Raises:
        ApiError: as `check_shape`.
        InvalidFieldsError: the metadata breaks rules.
    """
    checked = check_shape(obj, kind)
    kind = kind or kind_named(checked["kind"])
    found = Causes()
    _check_metadata(checked, kind, found)
    _refuse(checked, kind, found)
    return checked


def validate_object(obj: JsonObject, creation: Creation | None = None, *, is_new: bool = True) -> None:
    """Check an object of the API server's own kinds, with its defaults, by all rules.

    Args:
        obj: the object.
        creation: the rules of its creation; by default the rules of its kind.
        is_new: whether it is created; a manifest may describe an object that is stored already.

    Raises:
        InvalidFieldsError: it breaks rules; the error lists each of them.
    """
    kind, found = kind_named(obj["kind"]), Causes()
    _check(obj, kind, found)
    rules = creation or _rules(kind).create
    if is_new and rules is not None:
        rules(obj, found)
    _refuse(obj, kind, found)


def validate_update(obj: JsonObject, live: JsonObject, update: Update | None = None) -> None:
    """Check a change of an object of the API server's own kinds, with its defaults, by all rules.

    Rules that the stored object breaks already, with the same message, do not count: an object of an earlier version
    can still lose its finalizers.

    Args:
        obj: the object after.
        live: the object before.
        update: the rules of the change; by default the rules of its kind.

    Raises:
        InvalidFieldsError: it breaks rules; the error lists each of them.
    """
    kind, found = kind_named(obj["kind"]), Causes()
    _check(obj, kind, found)
    if found:
        before = Causes()
        _check(live, kind, before)
        found = _without(found, set(before))
    changes = update or _rules(kind).update
    if changes is not None:
        changes(obj, live, found)
    _refuse(obj, kind, found)


def validate_status(obj: JsonObject, live: JsonObject, rule: StatusRule | None = None) -> None:
    """Check a change of an object's status, and of its metadata, which may change with it.

    Args:
        obj: the object after.
        live: the object before; faults that its metadata have already do not count.
        rule: of the change; by default the rule of its kind.

    Raises:
        InvalidFieldsError: it breaks rules; the error lists each of them.
    """
    kind, found = kind_named(obj["kind"]), Causes()
    if obj["metadata"] != live["metadata"]:
        before = Causes()
        _check_metadata(obj, kind, found)
        _check_metadata(live, kind, before)
        found = _without(found, set(before))
    check = rule or STATUS_RULES.get(kind.name)
    if check is not None:
        check(obj, live, found)
    if found:
        _refuse(obj, kind, found)


def _check(obj: JsonObject, kind: Kind, found: Causes) -> None:
    _check_metadata(obj, kind, found)
    _rules(kind).rule(obj, "", found)


def _check_metadata(obj: JsonObject, kind: Kind, found: Causes) -> None:
    is_lenient = kind.is_custom or kind.name in _LENIENT
    check_metadata(obj["metadata"], _rules(kind).name, found, is_namespaced=kind.namespaced, is_lenient=is_lenient)


def _rules(kind: Kind) -> KindRules:
    return _NO_RULES if kind.is_custom else RULES.get(kind.name, _NO_RULES)


def _without(found: Causes, known: set[Cause]) -> Causes:
    left = Causes()
    for cause in found:
        if cause not in known:
            left.append(cause)
    return left


def _refuse(obj: JsonObject, kind: Kind, found: Causes) -> None:
    if found:
        raise InvalidFieldsError(kind.name, kind.api_group, obj["metadata"]["name"][:_SHOWN], found)
