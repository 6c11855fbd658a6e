"""The language of validation rules: small functions, and tables of the rules of each field.

A rule takes a value, the path of its field and the list of causes, and appends the errors. A table (`Fields`) has a
rule for each field of an object, in Kubernetes' order; `Union` is a table of alternative members, `Each` and `Items`
are lists. Values have the types of their kind: the conversion of the object has checked that before. Each rule is
linear in its value.

`on_nodes` marks a rule that protects a node as well; `table_for_nodes` returns a table with only those.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from modules.apimachinery.ip_addresses import read_address, read_network
from modules.apimachinery.types.quantity import QuantityError, parse_quantity
from modules.apimachinery.validation.causes import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from modules.apimachinery.validation.names import Faults, faults_of_port_name

Rule = Callable[[Any, str, Causes], None]
"""A rule: value, path of its field, and the causes to append to."""

_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class Row(msgspec.Struct, frozen=True):
    """A rule with how it treats an absent value. Without one, absent means null, "", 0, false and empty (Go's zero)."""

    rule: Rule | None
    """The rule of API servers, if there is one."""
    is_needed: bool = False
    """Whether an absent value is `Required value`."""
    why: str = ""
    """Said with `Required value`."""
    is_pointer: bool = False
    """Whether only null is absent: "" and 0 are values."""
    has_zero: bool = False
    """Whether the rule is asked about `zero` in place of an absent value."""
    zero: Any = None
    for_nodes: "Row | None" = None
    """The row that edged applies; None without its own."""


def row(rule: Rule | Row) -> Row:
    """Return a rule as a row. An object without members is there, so a table is asked about it."""
    return rule if isinstance(rule, Row) else Row(rule, is_pointer=isinstance(rule, Fields))


def anything(value: Any, path: str, found: Causes) -> None:
    """Check nothing."""


def needed(rule: Rule | Row = anything, why: str = "") -> Row:
    """Return a row for a value that must be there."""
    return msgspec.structs.replace(row(rule), is_needed=True, why=why)


def pointer(rule: Rule | Row) -> Row:
    """Return a row for a field that is a pointer in Go: 0 and "" are values of it, too."""
    return msgspec.structs.replace(row(rule), is_pointer=True)


def or_zero(rule: Rule | Row, zero: Any = 0) -> Row:
    """Return a row that checks `zero` where there is no value."""
    return msgspec.structs.replace(row(rule), has_zero=True, zero=zero)


def on_nodes(rule: Rule | Row, there: Rule | Row | None = None) -> Row:
    """Return a row that edged, too, applies to pods: the same, or another rule."""
    return msgspec.structs.replace(row(rule), for_nodes=row(there or rule))


def only_on_nodes(rule: Rule | Row) -> Row:
    """Return a row that edged applies, and no API server."""
    return Row(None, for_nodes=row(rule))


class Fields:
    """The rules of an object's fields.

    Args:
        rows: by field.
        also: rules of the object as a whole, asked afterwards.
    """

    def __init__(self, rows: Mapping[str, Rule | Row], *also: Rule | Row) -> None:
        self.rows = {name: row(each) for name, each in rows.items()}
        self.also = tuple(row(each) for each in also)
        self._plan = [
            (name, f".{name}", each.rule, each.is_needed, each.why, each.is_pointer, each.has_zero, each.zero)
            for name, each in self.rows.items()
            if each.rule is not None
        ]
        self._of_all = [each.rule for each in self.also if each.rule is not None]

    def __call__(self, value: Mapping[str, Any], path: str, found: Causes) -> None:
        """Check an object."""
        for name, end, rule, is_needed, why, is_pointer, has_zero, zero in self._plan:
            member = value.get(name)
            if member or (is_pointer and member is not None):
                rule(member, path + end, found)
            elif is_needed:
                found.append(required(path + end, why))
            elif has_zero:
                rule(zero, path + end, found)
        for of_all in self._of_all:
            of_all(value, path, found)


class Union(Fields):
    """The rules of an object that has exactly one of some members; of several, the first is checked.

    Args:
        rows: by member, in Kubernetes' order.
        several: why another member is forbidden.
        none: why one is required; "" when none is fine.
    """

    def __init__(self, rows: Mapping[str, Rule | Row], several: str, none: str = "") -> None:
        super().__init__(rows)
        self.several, self.none = several, none

    def __call__(self, value: Mapping[str, Any], path: str, found: Causes) -> None:
        """Check an object."""
        has_one = False
        for name, end, rule, *_ in self._plan:
            member = value.get(name)
            if member is None:
                continue
            if has_one:
                found.append(forbidden(path + end, self.several))
            else:
                rule(member, path + end, found)
            has_one = True
        if not has_one and self.none:
            found.append(required(path, self.none))


class Each:
    """The rule of a list's elements.

    Args:
        rule: of one element.
        also: rules of the list as a whole, asked afterwards.
        most: maximum of elements; 0 without a limit.
        is_indexed: whether an element is reported by its index; Kubernetes reports some at the object that has the
            list.
    """

    def __init__(self, rule: Rule, *also: Rule, most: int = 0, is_indexed: bool = True) -> None:
        self.rule, self.also, self.most, self.is_indexed = rule, also, most, is_indexed

    def __call__(self, value: Sequence[Any], path: str, found: Causes) -> None:
        """Check a list."""
        if self.most and len(value) > self.most:
            found.append(too_many(path, len(value), self.most))
            return
        parent = path.rpartition(".")[0]
        for index, element in enumerate(value):
            self.rule(element, f"{path}[{index}]" if self.is_indexed else parent, found)
        for each in self.also:
            each(value, path, found)


class Values:
    """The rule of a map's values, at the path of their key."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __call__(self, value: Mapping[str, Any], path: str, found: Causes) -> None:
        """Check a map."""
        for key, member in value.items():
            self.rule(member, f"{path}[{key[:253]}]", found)


def table_for_nodes(table: Fields) -> Fields:
    """Return the part of a table that protects a node.

    Of a union, each member is checked: a newer API server may know more members, so none is required or forbidden.
    """
    rows = {name: part for name, each in table.rows.items() if (part := _part_for_nodes(each)) is not None}
    return Fields(rows, *(part for each in table.also if (part := _part_for_nodes(each)) is not None))


def _part_for_nodes(whole: Row) -> Row | None:
    """Return a row's own part for nodes with the parts of the tables in it, or the part of the tables alone."""
    chosen = whole.for_nodes or whole
    part = _inner_part(chosen.rule)
    if part is not None:
        return msgspec.structs.replace(chosen, rule=part) if whole.for_nodes else row(part)
    return whole.for_nodes


def _inner_part(rule: Rule | None) -> Rule | None:
    if isinstance(rule, Each | Values):
        inner = _inner_part(rule.rule)
        return type(rule)(inner) if inner is not None else None
    if not isinstance(rule, Fields):
        return None
    table = table_for_nodes(rule)
    return table if table.rows or table.also else None


def between(least: int, most: int, why: str = "") -> Rule:
    """Return the rule of a number in a range, both ends included."""

    def rule(value: Any, path: str, found: Causes) -> None:
        if not least <= value <= most:
            found.append(invalid(path, value, why or f"must be between {least} and {most}, inclusive"))

    return rule


def at_least(least: int, why: str) -> Rule:
    """Return the rule of a number with a minimum."""

    def rule(value: Any, path: str, found: Causes) -> None:
        if value < least:
            found.append(invalid(path, value, why))

    return rule


non_negative = at_least(0, "must be greater than or equal to 0")
port_number = between(1, 65535)
file_mode = between(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")


def one_of(*known: str) -> Rule:
    """Return the rule of an enumeration."""
    members = frozenset(known)

    def rule(value: Any, path: str, found: Causes) -> None:
        if value not in members:
            found.append(unsupported(path, value, known))

    return rule


def named(faults: Faults) -> Rule:
    """Return the rule of a text with a format; each fault is a cause."""

    def rule(value: Any, path: str, found: Causes) -> None:
        for why in faults(value):
            found.append(invalid(path, value, why))

    return rule


def never(why: str) -> Rule:
    """Return the rule of a field that must not be set."""

    def rule(value: Any, path: str, found: Causes) -> None:  # noqa: ARG001 - no value is fine
        found.append(forbidden(path, why))

    return rule


def unique(name: str, why: str = "") -> Rule:
    """Return the rule of a list whose elements have different values of a member, except elements without it.

    Args:
        name: the member.
        why: the reason of `Invalid value`; "" for `Duplicate value`.
    """

    def rule(value: Any, path: str, found: Causes) -> None:
        seen = set[Any]()
        for index, element in enumerate(value):
            member = element.get(name)
            if member and member in seen:
                where = f"{path}[{index}].{name}"
                found.append(invalid(where, member, why) if why else duplicate(where, member))
            seen.add(member)

    return rule


def both(*rules: Rule) -> Rule:
    """Return the rule that all of some rules hold."""

    def rule(value: Any, path: str, found: Causes) -> None:
        for each in rules:
            each(value, path, found)

    return rule


def address(value: Any, path: str, found: Causes) -> None:
    """Check an IP address."""
    try:
        read_address(value)
    except ValueError:
        found.append(invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))


def network(value: Any, path: str, found: Causes) -> None:
    """Check an IP network."""
    try:
        read_network(value)
    except ValueError:
        found.append(invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))


def port_or_name(value: Any, path: str, found: Causes) -> None:
    """Check a port's number or name."""
    if isinstance(value, int):
        port_number(value, path, found)
        return
    for why in faults_of_port_name(str(value)):
        found.append(invalid(path, value, why))


def quantity(value: Any, path: str, found: Causes) -> None:
    """Check an amount that is not negative."""
    try:
        if parse_quantity(value).numerator < 0:
            found.append(invalid(path, str(value), "must be greater than or equal to 0"))
    except QuantityError:
        found.append(invalid(path, str(value), _QUANTITY))


def relative_path(value: Any, path: str, found: Causes) -> None:
    """Check a path that stays below its directory (validateLocalDescendingPath)."""
    if value.startswith("/"):
        found.append(invalid(path, value, "must be a relative path"))
    no_backsteps(value, path, found)


def no_backsteps(value: Any, path: str, found: Causes) -> None:
    """Check that no part of a path is `..`."""
    if ".." in value and ".." in value.split("/"):
        found.append(invalid(path, value, "must not contain '..'"))


def unreserved_path(value: Any, path: str, found: Causes) -> None:
    """Check a relative path whose first part does not begin with `..` (ValidateLocalNonReservedPath)."""
    relative_path(value, path, found)
    if value.startswith("..") and not value.startswith("../"):
        found.append(invalid(path, value, "must not start with '..'"))
