"""Selectors: which of a kind's objects a client wants, by labels and by fields.

Labels as apimachinery's `labels.Parse` reads them, fields as `fields.ParseSelector` does. A field can only be selected
by where the API server has it, kind by kind; another is refused as there, for a selector that is not understood must
not come to mean everything.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from modules.metaserver.errors import ApiError
from modules.metaserver.resources import Resource
from modules.printing.fields import map_at, text_at

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)")
_NUMBER = re.compile(rf"({_KEY})\s*([<>])\s*(-?[0-9]{{1,19}})")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_FIELD = re.compile(r"((?:\\.|[^\\=!])*)(==|=|!=)((?:\\.|[^\\=])*)")
_ESCAPED = re.compile(r"\\([\\,=])")

MOST_REQUIREMENTS: Final = 256
"""Conditions of one selector: each is asked of each object."""

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
    """Given the label's value; None when there is none."""


class FieldTerm(NamedTuple):
    """One condition on a field."""

    field: str
    value: str
    equal: bool


class Selector(NamedTuple):
    """Conditions that all must hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def selects_all(self) -> bool:
        """Whether there is no condition."""
        return not self.labels and not self.fields

    def selects(self, obj: dict[str, Any]) -> bool:
        """Whether they hold for an object."""
        labels = map_at(obj, "metadata.labels")
        return all(one.holds(labels.get(one.key)) for one in self.labels) and all(
            (_value(obj, one.field) == one.value) is one.equal for one in self.fields
        )

    def named(self, name: str) -> "Selector":
        """The same, and of that name."""
        return Selector(self.labels, (*self.fields, FieldTerm("metadata.name", name, equal=True)))


def parse_selector(resource: Resource, labels: str, fields: str) -> Selector:
    """The selector of a request.

    Raises:
        ApiError: 400; it cannot be read, or selects by a field that the kind cannot be selected by.
    """
    return Selector(tuple(_requirements(labels)), tuple(_terms(resource, fields)))


def _requirements(text: str) -> Iterable[Requirement]:
    for count, part in enumerate(_label_parts(text) if text.strip() else ()):
        if count == MOST_REQUIREMENTS:
            raise ApiError(400, f"unable to parse requirement: a selector has at most {MOST_REQUIREMENTS}")
        yield _requirement(part.strip())


def _label_parts(text: str) -> Iterable[str]:
    """The parts between commas that do not stand in parentheses."""
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
        key, operator, wanted = found.groups()
        return Requirement(key, lambda value: (value == wanted) is (operator != "!="))
    if found := _NUMBER.fullmatch(part):
        key, operator, bound = found.groups()
        return Requirement(key, lambda value: _compares(value, operator, int(bound)))
    if found := _EXISTS.fullmatch(part):
        absent, key = found.groups()
        return Requirement(key, lambda value: (value is None) is bool(absent))
    raise ApiError(400, f"unable to parse requirement: {part[:200]!r} is no label selector")


def _compares(value: str | None, operator: str, bound: int) -> bool:
    try:
        number = int(value or "")
    except ValueError:
        return False
    return number > bound if operator == ">" else number < bound


def _terms(resource: Resource, text: str) -> Iterable[FieldTerm]:
    for count, part in enumerate(re.split(r"(?<!\\),", text) if text.strip() else ()):
        if count == MOST_REQUIREMENTS:
            raise ApiError(400, f"invalid field selector: it has at most {MOST_REQUIREMENTS} conditions")
        found = _FIELD.fullmatch(part)
        if found is None:
            raise ApiError(400, f"invalid field selector: {part[:200]!r} is none")
        field, operator, value = found.groups()
        field = field.strip()
        if field not in (*_OF_ANY, *_FIELDS.get(resource.kind, ())):
            raise ApiError(400, f"field label not supported for {resource.qualified}: {field[:200]}")
        yield FieldTerm(field, _ESCAPED.sub(r"\1", value), operator != "!=")


def _value(obj: dict[str, Any], field: str) -> str:
    text = text_at(obj, _ELSEWHERE.get(field, field))
    if field in _SWITCHES:
        return text or "false"
    if field == "source":
        return text or text_at(obj, "reportingComponent")
    return text
