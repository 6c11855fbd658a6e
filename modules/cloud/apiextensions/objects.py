"""Custom objects between a request and the storage: pruned, with defaults, validated, in the stored version."""

from modules.apimachinery.api_errors import TooLargeError
from modules.apimachinery.kinds import JsonObject, version_of
from modules.apimachinery.resources import Resource
from modules.apimachinery.structural_schema.values import (
    Defaults,
    changed_faults,
    faults,
    pruned,
    with_defaults,
    without_wrong_nulls,
)
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.objects import validate_metadata
from modules.cloud.apiextensions.kinds import CustomKind


def prepared_object(custom: CustomKind, obj: JsonObject, live: JsonObject | None) -> JsonObject:
    """Return a custom object to store. A status that is a subresource stays as it is stored.

    Raises:
        ApiError: the metadata is wrong, or the object breaks a rule of its schema (`conforming`); the error lists all.
    """
    validate_metadata(obj, custom.kind)
    new = dict(obj)
    if custom.has_status:
        new.pop("status", None)
        if live is not None and "status" in live:
            new["status"] = live["status"]
    return conforming(custom, new, live)


def with_new_status(custom: CustomKind, live: JsonObject, new: JsonObject) -> JsonObject:
    """Return the stored object with the status of a new state, and only that; its version, when given, is checked.

    Raises:
        InvalidFieldsError: the status breaks a rule of the schema.
    """
    made = {name: value for name, value in live.items() if name != "status"}
    metadata = {name: value for name, value in live["metadata"].items() if name != "resourceVersion"}
    given = version_of(new)
    made["metadata"] = {**metadata, "resourceVersion": given} if given else metadata
    if "status" in new:
        made["status"] = new["status"]
    return conforming(custom, made)


def conforming(custom: CustomKind, obj: JsonObject, live: JsonObject | None = None) -> JsonObject:
    """Return an object pruned and with its defaults, in the stored version.

    Args:
        custom: its kind.
        obj: the object.
        live: the stored object; a rule that its unchanged parts break is not held against the new one. None: each rule
            is, as for a status (Kubernetes 1.32).

    Raises:
        InvalidFieldsError: it breaks a rule of its schema.
        TooLargeError: its defaults or the rules of its schema are too many.
    """
    new = _completed(custom, obj)
    causes = faults(new, custom.schema)
    if causes and live is not None:
        causes = changed_faults(new, custom.schema, _completed(custom, live))
    if causes:
        raise InvalidFieldsError(custom.kind.name, custom.kind.api_group, obj["metadata"]["name"], causes)
    return {**new, "apiVersion": custom.stored_version}


def _completed(custom: CustomKind, obj: JsonObject) -> JsonObject:
    made: JsonObject = without_wrong_nulls(with_defaults(pruned(obj, custom.schema), custom.schema), custom.schema)
    made["metadata"] = {name: value for name, value in obj["metadata"].items() if value is not None}
    return made


def in_version(obj: JsonObject, resource: Resource, defaults: Defaults | None = None) -> JsonObject:
    """Return a stored custom object as a client of a version reads it (conversion strategy `None`), without fields that
    another version has.

    Its definition may have more defaults than when it was stored. An object to which too many would be added is as it
    is stored: a list must not fail for one of its objects.

    Args:
        obj: the object.
        resource: of its kind and version.
        defaults: counts the additions, for several objects; None: for this one.
    """
    version = resource.group_version
    made = obj if obj.get("apiVersion") == version else pruned({**obj, "apiVersion": version}, resource.schema or {})
    if not resource.schema or not resource.has_defaults:
        return made
    try:
        found: JsonObject = with_defaults(made, resource.schema, defaults)
    except TooLargeError:
        return made
    return found
