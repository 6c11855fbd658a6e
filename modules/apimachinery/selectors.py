"""Label and field selectors, parsed as apimachinery's `labels.Parse` and `fields.ParseSelector` do.

Each kind has the API server's list of selectable fields. Other fields are refused, as by the API server: a selector
that is not understood must not select all objects.

The conditions on one label or field are merged, so that a selector costs no more for an object than its labels, and the
fields of its kind, are many.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.event_versions import core_selector, is_newer
from modules.apimachinery.pods.node_selector import int64
from modules.apimachinery.printing.fields import map_at, text_at
from modules.apimachinery.resources import Resource
from modules.apimachinery.validation.names import faults_of_label_key, faults_of_label_value

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
    "Job": (*_OF_ANY, "status.successful"),
    "ReplicationController": (*_OF_ANY, "status.replicas"),
}  # fmt: skip
"""The kinds with selectable fields of their own; all others have `_OF_ANY`."""
_ELSEWHERE: Final = {"source": "source.component", "status.successful": "status.succeeded"}
_NUMBERS: Final = ("status.replicas", "status.successful")
_FIELDS_BY_PART: Final = {
    kind: tuple(
        (part, tuple((_ELSEWHERE.get(field, field).rpartition(".")[2], field) for field in group))
        for part, group in groupby(fields, lambda field: field.partition(".")[0])
        if part != "metadata"
    )
    for kind, fields in _FIELDS.items()
}
"""The fields that may change, of each kind, by the part of the object that has them, with their names in it: most
changes are in one part.
"""
_SWITCHES: Final = ("spec.hostNetwork", "spec.unschedulable")
_COMPUTED: Final = frozenset({*_ELSEWHERE, *_NUMBERS, *_SWITCHES})
"""The fields whose value is not just what the object has at their path."""

MOST_REQUIREMENTS: Final = 256
"""Conditions of one selector."""

_TOKEN: Final = re.compile(r"[ \t\r\n]*([^ \t\r\n=!(),><]+|==|!=|[=!(),><]|$)")
_END: Final = ""
_SIGNS: Final = frozenset("=!(),><") | {"==", "!=", _END}
_SETS: Final = ("in", "notin")
_EQUALS: Final = ("=", "==", "!=")
_COMPARISONS: Final = (">", "<")
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_MOST_VALUES: Final = 4096
"""Values in one pair of parentheses."""
_LONGEST_NUMBER: Final = 19


class FieldTerm(NamedTuple):
    """The conditions of one kind on a field."""

    field: str
    values: frozenset[str]
    equal: bool
    """Whether the field has one of the values; otherwise none of them."""
    is_custom: bool = False
    """Whether the field is a custom kind's own."""

    def holds(self, obj: dict[str, Any]) -> bool:
        """Return whether the conditions hold for an object."""
        is_plain = self.is_custom or self.field not in _COMPUTED
        found = text_at(obj, self.field) if is_plain else _value(obj, self.field)
        return (found in self.values) is self.equal


class Requirement(NamedTuple):
    """The conditions on a label."""

    key: str
    is_wanted: bool = False
    """Whether the object must have the label."""
    is_refused: bool = False
    """Whether the object must not have it."""
    allowed: frozenset[str] | None = None
    """Values of which the label has one; None: any."""
    refused: frozenset[str] = frozenset()
    """Values that the label has not."""
    above: int | None = None
    """A number below that of the label."""
    below: int | None = None
    """A number above that of the label."""

    def holds(self, value: str) -> bool:
        """Return whether the conditions hold for a value of the label."""
        if self.is_refused or value in self.refused or (self.allowed is not None and value not in self.allowed):
            return False
        if self.above is None and self.below is None:
            return True
        number = int64(value)
        return (
            number is not None
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )


def read_requirements(text: str) -> Iterator[Requirement]:
    """Yield the conditions of a label selector.

    Raises:
        ValueError: it is no selector; the text has the place and the reason in an API server's words.
    """
    tokens = _Tokens(text)
    count = 0
    while not tokens.is_at_end:
        if not (tokens.is_word or tokens.next == "!"):
            raise ValueError(f"found '{tokens.next}', expected: !, identifier, or 'end of string'")
        count += 1
        if count > MOST_REQUIREMENTS:
            raise ValueError(f"unable to parse requirement: a selector has at most {MOST_REQUIREMENTS}")
        try:
            yield _requirement(tokens)
        except ValueError as error:
            raise ValueError(f"unable to parse requirement: {error}") from error
        _expect_comma(tokens)


class _Tokens:
    """The tokens of a selector; `next` is the next token, cut to the length that a message may show."""

    def __init__(self, text: str) -> None:
        self._found = (match[1] for match in _TOKEN.finditer(text))
        self._next = next(self._found, _END)

    @property
    def next(self) -> str:
        return self._next[:_SHOWN]

    @property
    def is_word(self) -> bool:
        return self._next not in _SIGNS

    @property
    def is_at_end(self) -> bool:
        return self._next == _END

    def pop(self) -> str:
        taken, self._next = self._next, next(self._found, _END)
        return taken


def _expect_comma(tokens: _Tokens) -> None:
    if tokens.is_at_end:
        return
    if tokens.next != ",":
        raise ValueError(f"found '{tokens.next}', expected: ',' or 'end of string'")
    tokens.pop()
    if not (tokens.is_word or tokens.next == "!"):
        raise ValueError(f"found '{tokens.next}', expected: identifier after ','")


def _requirement(tokens: _Tokens) -> Requirement:
    is_negated = tokens.next == "!"
    if is_negated:
        tokens.pop()
    if not tokens.is_word:
        raise ValueError(f"found '{tokens.next}', expected: identifier")
    key = tokens.pop()
    _check("<nil>", key, faults_of_label_key(key))
    if is_negated:
        return Requirement(key, is_refused=True)
    if tokens.is_at_end or tokens.next == ",":
        return Requirement(key, is_wanted=True)
    return _restriction(key, tokens)


def _restriction(key: str, tokens: _Tokens) -> Requirement:
    """Return the condition of an operator and its values."""
    operator = tokens.next
    if operator not in (*_SETS, *_EQUALS, *_COMPARISONS):
        raise ValueError(f"found '{operator}', expected: {_OPERATORS}")
    tokens.pop()
    values = sorted(_values(tokens)) if operator in _SETS else [_exact_value(tokens)]
    for number, value in enumerate(values):
        if operator in _COMPARISONS:
            _check_number(number, value)
        _check(f"values[{number}][{key}]", value, faults_of_label_value(value))
    if operator in _COMPARISONS:
        bound = int(values[0])
        of_numbers = Requirement(key, is_wanted=True)
        return of_numbers._replace(above=bound) if operator == ">" else of_numbers._replace(below=bound)
    if operator in ("notin", "!="):
        return Requirement(key, refused=frozenset(values))
    return Requirement(key, is_wanted=True, allowed=frozenset(values))


def _values(tokens: _Tokens) -> set[str]:
    if tokens.next != "(":
        raise ValueError(f"found '{tokens.next}' expected: '('")
    tokens.pop()
    if not (tokens.is_word or tokens.next in (",", ")")):
        raise ValueError(f"found '{tokens.next}', expected: ',', ')' or identifier")
    return set(_listed(tokens))


def _listed(tokens: _Tokens) -> Iterator[str]:
    """Yield the values up to the closing parenthesis; nothing between two commas is the empty value."""
    for _ in range(_MOST_VALUES):
        is_word = tokens.is_word
        yield tokens.pop() if is_word else ""
        if tokens.next == ")":
            tokens.pop()
            return
        if tokens.next != ",":
            wanted = "',' or ')'" if is_word else "',', or identifier"
            raise ValueError(f"found '{tokens.next}', expected: {wanted}")
        tokens.pop()
    raise ValueError(f"a set has at most {_MOST_VALUES} values")


def _exact_value(tokens: _Tokens) -> str:
    if tokens.is_at_end or tokens.next == ",":
        return ""
    if not tokens.is_word:
        raise ValueError(f"found '{tokens.next}', expected: identifier")
    return tokens.pop()


def _check(field: str, value: str, faults: Iterator[str]) -> None:
    found = "; ".join(faults)
    if found:
        raise ValueError(f'{field}: Invalid value: "{value[:_SHOWN]}": {found}')


def _check_number(number: int, value: str) -> None:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER):
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise ValueError(f'values[{number}]: Invalid value: "{value[:_SHOWN]}": {why}')


class Selector(NamedTuple):
    """A conjunction of conditions."""

    wanted: tuple[Requirement, ...] = ()
    """Of labels that an object must have; one for each label, as in `others`."""
    others: Mapping[str, Requirement] = {}
    """By label, of labels that it need not have."""
    fields: tuple[FieldTerm, ...] = ()
    """At most two of each field."""

    @property
    def selects_all(self) -> bool:
        """Whether the selector has no condition."""
        return not (self.wanted or self.others or self.fields)

    def selects(self, obj: dict[str, Any]) -> bool:
        """Return whether all conditions hold for an object."""
        for term in self.fields:
            if not term.holds(obj):
                return False
        if not (self.wanted or self.others):
            return True
        labels = map_at(obj, "metadata.labels")
        for one in self.wanted:
            value = labels.get(one.key)
            if value is None or not one.holds(value):
                return False
        for key in labels if len(labels) < len(self.others) else self.others:
            if key in self.others and (value := labels.get(key)) is not None and not self.others[key].holds(value):
                return False
        return True

    def named(self, name: str) -> "Selector":
        """Return this selector with a condition on the name."""
        return self._replace(fields=(*self.fields, FieldTerm("metadata.name", frozenset((name,)), equal=True)))


def parse_selector(resource: Resource, labels: str, fields: str) -> Selector:
    """Return the selector of a request.

    Raises:
        ApiStatusError: 400; it cannot be parsed, or has a field that is not selectable for the kind.
    """
    try:
        of_labels = parse_label_selector(labels)
        terms = tuple(_merged_terms(_terms(resource, _stored_names(resource, fields))))
    except ValueError as error:
        raise ApiStatusError(400, str(error)) from error
    return of_labels._replace(fields=terms)


def parse_label_selector(labels: str) -> Selector:
    """Return a selector by labels alone. Raises ValueError as `read_requirements`."""
    by_label = _merged(read_requirements(labels))
    wanted = tuple(one for one in by_label.values() if one.is_wanted)
    return Selector(wanted, {key: one for key, one in by_label.items() if not one.is_wanted})


def _stored_names(resource: Resource, fields: str) -> str:
    return core_selector(fields) if is_newer(resource) else fields


def are_selected_alike(
    kind: str, one: dict[str, Any], other: dict[str, Any], selectable_fields: Collection[str] = ()
) -> bool:
    """Return whether each selector selects both or none of two states of an object.

    Args:
        kind: as in keys of objects.
        one: a state.
        other: another state.
        selectable_fields: of a custom kind.
    """
    metadata, others = one.get("metadata"), other.get("metadata")
    has_same = type(metadata) is dict and type(others) is dict and metadata.get("labels") is others.get("labels")
    if not has_same and map_at(one, "metadata.labels") != map_at(other, "metadata.labels"):
        return False
    for part, fields in _FIELDS_BY_PART.get(kind, ()):
        before, after = one.get(part), other.get(part)
        if before is after:
            continue
        for name, field in fields:
            if isinstance(before, dict) and isinstance(after, dict) and before.get(name) == after.get(name):
                continue
            if _value(one, field) != _value(other, field):
                return False
    return not selectable_fields or all(text_at(one, field) == text_at(other, field) for field in selectable_fields)


def _merged(conditions: Iterable[Requirement]) -> dict[str, Requirement]:
    """Return the conditions on each label as one."""
    found: dict[str, list[Requirement]] = {}
    for one in conditions:
        found.setdefault(one.key, []).append(one)
    return {key: each[0] if len(each) == 1 else _all_of(each) for key, each in found.items()}


def _all_of(conditions: Sequence[Requirement]) -> Requirement:
    allowed = [one.allowed for one in conditions if one.allowed is not None]
    return Requirement(
        conditions[0].key,
        any(one.is_wanted for one in conditions),
        any(one.is_refused for one in conditions),
        frozenset.intersection(*allowed) if allowed else None,
        frozenset().union(*(one.refused for one in conditions)),
        max((one.above for one in conditions if one.above is not None), default=None),
        min((one.below for one in conditions if one.below is not None), default=None),
    )


def _merged_terms(terms: Iterable[FieldTerm]) -> Iterator[FieldTerm]:
    """Yield the terms of one kind on each field as one."""
    found: dict[tuple[str, bool, bool], list[frozenset[str]]] = {}
    for term in terms:
        found.setdefault((term.field, term.equal, term.is_custom), []).append(term.values)
    for (field, equal, is_custom), values in found.items():
        held = frozenset.intersection(*values) if equal else frozenset().union(*values)
        yield FieldTerm(field, held, equal, is_custom)


def _terms(resource: Resource, text: str) -> Iterable[FieldTerm]:
    parts = (found[1] for found in _SPLIT.finditer(text) if found[1])
    for count, part in enumerate(parts):
        if count == MOST_REQUIREMENTS:
            raise ValueError(f"invalid field selector: it has at most {MOST_REQUIREMENTS} conditions")
        operator = _OPERATOR.search(part)
        if operator is None:
            raise ValueError(f"invalid selector: '{text[:_SHOWN]}'; can't understand '{part[:_SHOWN]}'")
        field, value = part[: operator.start()], part[operator.end() :]
        if field not in _selectable(resource):
            raise ValueError(_unsupported(resource, field[:_SHOWN]))
        values = frozenset((_RAW.sub(_unescaped, value),))
        yield FieldTerm(field, values, operator[0] != "!=", field in resource.selectable_fields)


def _selectable(resource: Resource) -> tuple[str, ...]:
    if not resource.is_custom:
        return _FIELDS.get(resource.kind, _OF_ANY)
    return (*(_OF_ANY if resource.namespaced else _OF_ANY[:1]), *resource.selectable_fields)


def _unescaped(found: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    if found[0] in (",", "="):
        raise ValueError(f"invalid field selector: unescaped character in value: {ord(found[0])}")
    if found[1] not in _ESCAPABLE:
        raise ValueError(f"invalid field selector: invalid escape sequence: {found[0]}")
    return found[1]


def _unsupported(resource: Resource, field: str) -> str:
    """Return an API server's words: kinds with fields of their own have a conversion of their own."""
    if resource.kind == "Job" and not resource.is_custom:
        return f'field label "{field}" not supported for Job'
    if _selectable(resource) is not _OF_ANY:
        return f"field label not supported: {field}"
    known = ", ".join(f'"{each}"' for each in _OF_ANY)
    return f'"{field}" is not a known field selector: only {known}'


def _value(obj: dict[str, Any], field: str) -> str:
    text = text_at(obj, _ELSEWHERE.get(field, field))
    if field in _SWITCHES:
        return text or "false"
    if field in _NUMBERS:
        return text or "0"
    if field == "source":
        return text or text_at(obj, "reportingComponent")
    return text
