"""Label and field selectors, parsed as apimachinery's `labels.Parse` and `fields.ParseSelector` do.

Each kind has the API server's list of selectable fields. Other fields are refused, as by the API server: a selector
that is not understood must not select all objects.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple

from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.event_versions import core_selector, is_newer
from modules.apimachinery.label_selectors import MOST_REQUIREMENTS, Requirement, read_requirements
from modules.apimachinery.resources import Resource
from modules.tools.printing.fields import map_at, text_at

_OPERATOR: Final = re.compile("!=|==|=")
_SPLIT: Final = re.compile(r"((?:\\.|[^\\,])*\\?)(?:,|$)", re.DOTALL)
_RAW: Final = re.compile(r"\\(.?)|[,=]", re.DOTALL)
_ESCAPABLE: Final = ("\\", ",", "=")
_SHOWN: Final = 200
"""Characters of a selector in a refusal."""

_OF_ANY: Final = ("metadata.name", "metadata.namespace")
_OF_EVENTS: Final = (
    *(f"involvedObject.{part}" for part in
      ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")),
    "reason", "reportingComponent", "source", "type",
)  # fmt: skip
_FIELDS: Final = {
    "Pod": (
        *_OF_ANY, "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    ),
    "Event": (*_OF_ANY, *_OF_EVENTS),
    "Secret": (*_OF_ANY, "type"),
    "Service": (*_OF_ANY, "spec.clusterIP", "spec.type"),
    "Node": ("metadata.name", "spec.unschedulable"),
    "Namespace": ("metadata.name", "status.phase"),
    "CertificateSigningRequest": ("metadata.name", "spec.signerName"),
}  # fmt: skip
"""The kinds with selectable fields of their own; all others have those of `_OF_ANY`."""
_FIELDS_BY_PART: Final = {
    kind: tuple(
        (part, tuple(group))
        for part, group in groupby(fields, lambda field: field.partition(".")[0])
        if part != "metadata"
    )
    for kind, fields in _FIELDS.items()
}
"""The fields that may change, of each kind, by the part of the object that has them: most changes are in one part."""
_SWITCHES: Final = ("spec.hostNetwork", "spec.unschedulable")
_ELSEWHERE: Final = {"source": "source.component"}


class FieldTerm(NamedTuple):
    """One condition on a field."""

    field: str
    value: str
    equal: bool


class Selector(NamedTuple):
    """A conjunction of conditions."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def selects_all(self) -> bool:
        """Whether the selector has no condition."""
        return not self.labels and not self.fields

    def selects(self, obj: dict[str, Any]) -> bool:
        """Return whether all conditions hold for an object."""
        labels = map_at(obj, "metadata.labels")
        return all(one.holds(labels.get(one.key)) for one in self.labels) and all(
            (_value(obj, one.field) == one.value) is one.equal for one in self.fields
        )

    def named(self, name: str) -> "Selector":
        """Return this selector with a condition on the name."""
        return Selector(self.labels, (*self.fields, FieldTerm("metadata.name", name, equal=True)))


def parse_selector(resource: Resource, labels: str, fields: str) -> Selector:
    """Return the selector of a request.

    Raises:
        ApiStatusError: 400; it cannot be parsed, or has a field that is not selectable for the kind.
    """
    try:
        return Selector(tuple(read_requirements(labels)), tuple(_terms(resource, _stored_names(resource, fields))))
    except ValueError as error:
        raise ApiStatusError(400, str(error)) from error


def _stored_names(resource: Resource, fields: str) -> str:
    return core_selector(fields) if is_newer(resource) else fields


def are_selected_alike(kind: str, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether each selector selects both or none of two states of an object.

    Args:
        kind: as in keys of objects.
        one: a state.
        other: another state.
    """
    if map_at(one, "metadata.labels") != map_at(other, "metadata.labels"):
        return False
    return all(
        one.get(part) == other.get(part) or all(_value(one, field) == _value(other, field) for field in fields)
        for part, fields in _FIELDS_BY_PART.get(kind, ())
    )


def _terms(resource: Resource, text: str) -> Iterable[FieldTerm]:
    parts = (found[1] for found in _SPLIT.finditer(text) if found[1].strip())
    for count, part in enumerate(parts):
        if count == MOST_REQUIREMENTS:
            raise ValueError(f"invalid field selector: it has at most {MOST_REQUIREMENTS} conditions")
        operator = _OPERATOR.search(part)
        if operator is None:
            raise ValueError(f"invalid selector: '{text[:_SHOWN]}'; can't understand '{part[:_SHOWN]}'")
        field, value = part[: operator.start()].strip(), part[operator.end() :]
        if field not in _selectable(resource):
            raise ValueError(_unsupported(resource, field[:_SHOWN]))
        yield FieldTerm(field, _RAW.sub(_unescaped, value), operator[0] != "!=")


def _selectable(resource: Resource) -> tuple[str, ...]:
    return _OF_ANY if resource.is_custom else _FIELDS.get(resource.kind, _OF_ANY)


def _unescaped(found: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    if found[0] in (",", "="):
        raise ValueError(f"invalid field selector: unescaped character in value: {ord(found[0])}")
    if found[1] not in _ESCAPABLE:
        raise ValueError(f"invalid field selector: invalid escape sequence: {found[0]}")
    return found[1]


def _unsupported(resource: Resource, field: str) -> str:
    """Return an API server's words: kinds with fields of their own have a conversion of their own."""
    if _selectable(resource) is not _OF_ANY:
        return f"field label not supported: {field}"
    known = ", ".join(f'"{each}"' for each in _OF_ANY)
    return f'"{field}" is not a known field selector: only {known}'


def _value(obj: dict[str, Any], field: str) -> str:
    text = text_at(obj, _ELSEWHERE.get(field, field))
    if field in _SWITCHES:
        return text or "false"
    if field == "source":
        return text or text_at(obj, "reportingComponent")
    return text
