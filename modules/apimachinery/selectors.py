"""Label and field selectors, parsed as apimachinery's `labels.Parse` and `fields.ParseSelector` do.

Each kind has the API server's list of selectable fields. Other fields are refused, as by the API server: a selector
that is not understood must not select all objects.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.resources import Resource
from modules.tools.printing.fields import map_at, text_at

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)")
_NUMBER = re.compile(rf"({_KEY})\s*([<>])\s*(-?[0-9]{{1,19}})")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_FIELD = re.compile(r"((?:\\.|[^\\=!])*)(==|=|!=)((?:\\.|[^\\=])*)")
_ESCAPED = re.compile(r"\\([\\,=])")

MOST_REQUIREMENTS: Final = 256
"""Conditions of one selector; each is checked for each object."""

_OF_ANY: Final = ("metadata.name", "metadata.namespace")
_OF_EVENTS: Final = (
    *(f"involvedObject.{part}" for part in
      ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")),
    "reason", "reportingComponent", "source", "type",
)  # fmt: skip
_FIELDS: Final = {
    "Pod": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "Event": _OF_EVENTS,
    "Secret": ("type",),
    "Node": ("spec.unschedulable",),
}  # fmt: skip
_SWITCHES: Final = ("spec.hostNetwork", "spec.unschedulable")
_ELSEWHERE: Final = {"source": "source.component"}


class Requirement(NamedTuple):
    """One condition on a label."""

    key: str
    holds: Callable[[str | None], bool]
    """Takes the label's value, None without the label."""


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
    return Selector(tuple(_requirements(labels)), tuple(_terms(resource, fields)))


def _requirements(text: str) -> Iterable[Requirement]:
    for count, part in enumerate(_label_parts(text) if text.strip() else ()):
        if count == MOST_REQUIREMENTS:
            raise ApiStatusError(400, f"unable to parse requirement: a selector has at most {MOST_REQUIREMENTS}")
        yield _requirement(part.strip())


def _label_parts(text: str) -> Iterable[str]:
    """Yield the parts between commas outside parentheses."""
    pending: list[str] = []
    for part in text.split(","):
        pending.append(part)
        opened, closed = (part.rfind(each) for each in "()")
        if closed > opened or (opened < 0 and len(pending) == 1):
            yield ",".join(pending)
            pending = []
    if pending:
        yield ",".join(pending)


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        key, operator, inside = found.groups()
        values = frozenset(value.strip() for value in inside.split(","))
        return Requirement(key, lambda value: (value in values) is (operator == "in"))
    if found := _EQUAL.fullmatch(part):
        key, operator, expected = found.groups()
        return Requirement(key, lambda value: (value == expected) is (operator != "!="))
    if found := _NUMBER.fullmatch(part):
        key, operator, bound = found.groups()
        return Requirement(key, lambda value: _compares(value, operator, int(bound)))
    if found := _EXISTS.fullmatch(part):
        absent, key = found.groups()
        return Requirement(key, lambda value: (value is None) is bool(absent))
    raise ApiStatusError(400, f"unable to parse requirement: {part[:200]!r} is no label selector")


def _compares(value: str | None, operator: str, bound: int) -> bool:
    try:
        number = int(value or "")
    except ValueError:
        return False
    return number > bound if operator == ">" else number < bound


def _terms(resource: Resource, text: str) -> Iterable[FieldTerm]:
    for count, part in enumerate(re.split(r"(?<!\\),", text) if text.strip() else ()):
        if count == MOST_REQUIREMENTS:
            raise ApiStatusError(400, f"invalid field selector: it has at most {MOST_REQUIREMENTS} conditions")
        found = _FIELD.fullmatch(part)
        if found is None:
            raise ApiStatusError(400, f"invalid field selector: {part[:200]!r} is none")
        field, operator, value = found.groups()
        field = field.strip()
        if field not in (*_OF_ANY, *_FIELDS.get(resource.kind, ())):
            raise ApiStatusError(400, _unsupported(resource, field[:200]))
        yield FieldTerm(field, _ESCAPED.sub(r"\1", value), operator != "!=")


def _unsupported(resource: Resource, field: str) -> str:
    """Return an API server's words: pods have a conversion of their own, other kinds the common one."""
    if resource.kind == "Pod":
        return f"field label not supported: {field}"
    known = ", ".join(f'"{each}"' for each in (*_OF_ANY, *_FIELDS.get(resource.kind, ())))
    return f'"{field}" is not a known field selector: only {known}'


def _value(obj: dict[str, Any], field: str) -> str:
    text = text_at(obj, _ELSEWHERE.get(field, field))
    if field in _SWITCHES:
        return text or "false"
    if field == "source":
        return text or text_at(obj, "reportingComponent")
    return text
