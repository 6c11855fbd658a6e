"""Events in two API groups: the same stored objects as `v1` and as `events.k8s.io/v1`.

They are stored as core/v1, as kube-apiserver stores them; the fields have other names in the newer group (Kubernetes'
`pkg/apis/events/v1/conversion.go`), and writes through it obey stricter rules (`ValidateEventCreate`,
`ValidateEventUpdate` of release 1.32).
"""

import re
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.resources import READ_VERBS, WRITE_VERBS, Resource
from modules.apimachinery.validation.causes import Causes, invalid, required
from modules.apimachinery.validation.metadata import immutable

_CORE: Final = "v1"
EVENTS: Final = Resource(
    kind="Event",
    plural="events",
    token="event",  # noqa: S106 - its name in resource strings
    group="events.k8s.io",
    short_names=("ev",),
    verbs=(*READ_VERBS, *WRITE_VERBS, "deletecollection"),
    stored_version=_CORE,
)
"""The resource in the newer group."""
EVENTS_VERSION: Final = EVENTS.group_version
_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields of events.k8s.io/v1 by their names in core/v1; all others have the same name."""
_CORE_NAMES: Final = {name: field for field, name in _NAMES.items()}
_FIELD: Final = re.compile("[A-Za-z]+")
"""The first part of a field's path."""
_PATHS: Final = ("path", "from")
_TYPES: Final = ("Normal", "Warning")
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_KEPT: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_TOLD: Final = {"reportingComponent": "reportingController"}
"""Fields whose errors use the name in Kubernetes' internal type."""
_LEAST_COUNT: Final = 2


def is_of_events(api_version: str, plural: str) -> bool:
    """Return whether a request's path leads to Events of `events.k8s.io/v1`."""
    return api_version == EVENTS_VERSION and plural == EVENTS.plural


def to_core(event: JsonObject) -> JsonObject:
    """Return an Event of events.k8s.io/v1 as core/v1; a patch has only some of its fields."""
    made = {_NAMES.get(name, name): value for name, value in event.items()}
    return {**made, "apiVersion": _CORE} if made.get("apiVersion") == EVENTS_VERSION else made


def operations_to_core(patch: Any) -> Any:
    """Return a JSON patch of an Event of events.k8s.io/v1 as one of core/v1."""
    if not isinstance(patch, list):
        return patch
    return [_operation_to_core(each) if isinstance(each, dict) else each for each in patch]


def _operation_to_core(operation: JsonObject) -> JsonObject:
    return {name: _path(value) if name in _PATHS else value for name, value in operation.items()}


def _path(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("/"):
        return value
    field, slash, rest = value[1:].partition("/")
    return f"/{_NAMES.get(field, field)}{slash}{rest}"


def is_newer(resource: Resource) -> bool:
    """Return whether a resource is Events of `events.k8s.io/v1`."""
    return resource.group == EVENTS.group and resource.plural == EVENTS.plural


def field_name(name: str) -> str:
    """Return the name in events.k8s.io/v1 of a field of core/v1."""
    return _CORE_NAMES.get(name, name)


def to_events(obj: JsonObject) -> JsonObject:
    """Return an Event of core/v1, or a list of Events, as events.k8s.io/v1; any other object as it is."""
    if obj.get("kind") == f"{EVENTS.kind}List":
        items = [to_events({"kind": EVENTS.kind, **each}) for each in obj["items"]]
        return {**obj, "apiVersion": EVENTS_VERSION, "items": items}
    if obj.get("kind") != EVENTS.kind:
        return obj
    made = {_CORE_NAMES.get(name, name): value for name, value in obj.items()}
    return {**made, "apiVersion": EVENTS_VERSION}


def core_selector(fields: str) -> str:
    """Return a field selector of events.k8s.io/v1 with the names of core/v1."""
    return ",".join(_core_term(term.strip()) for term in fields.split(","))


def _core_term(term: str) -> str:
    field = _FIELD.match(term)
    return term if field is None else f"{_NAMES.get(field[0], field[0])}{term[field.end() :]}"


def check_creation(event: JsonObject, found: Causes) -> None:
    """Check a new Event of events.k8s.io/v1, as core/v1 with defaults."""
    _series(event, found)
    if not event.get("eventTime"):
        found.append(required("eventTime"))
    if (kind := event.get("type")) not in _TYPES:
        found.append(invalid("type", "", f"has invalid value: {kind or ''}"))
    for field in _UNSET:
        if event.get(field):
            found.append(invalid(field, "", "needs to be unset"))


def check_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check a change of an Event by events.k8s.io/v1: only its series changes."""
    if new.get("series") != live.get("series"):
        _series(new, found)
    for field in _KEPT:
        immutable(new.get(field), live.get(field), _TOLD.get(field, field), found)


def _series(event: JsonObject, found: Causes) -> None:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < _LEAST_COUNT:
        found.append(invalid("series.count", "", f"should be at least {_LEAST_COUNT}"))
    if not series.get("lastObservedTime"):
        found.append(required("series.lastObservedTime"))
