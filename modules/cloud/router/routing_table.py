"""All Rules with their RuleEndpoints, and which of them a request or a message matches."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from modules.apimachinery.kinds import ObjectKey, key_of
from modules.cloud.indexes import discard
from modules.cloud.router.paths import CallerPath
from modules.cloud.router.records import (
    EndpointRecord,
    RuleFault,
    RuleRecord,
    RuleRoute,
    endpoint_key,
    endpoint_record,
    route_of,
    rule_record,
)
from modules.cloud.router.topics import has_wildcard, selects
from modules.cloud.rules import RULE_ENDPOINT
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged

_ANY: Final = ""
"""Key of routes whose first path segment is a wildcard."""


class RuleChange(NamedTuple):
    """The change of a Rule's route after a change of an object."""

    key: ObjectKey
    old: RuleRoute | None
    new: RuleRoute | None


class RoutingTable:
    """The Rules and RuleEndpoints, as they change in any order."""

    def __init__(self) -> None:
        self._rules: dict[ObjectKey, RuleRecord] = {}
        self._endpoints: dict[ObjectKey, EndpointRecord] = {}
        self._users: defaultdict[ObjectKey, dict[ObjectKey, None]] = defaultdict(dict)
        """The Rules that name a RuleEndpoint, which may not be there."""
        self._found: dict[ObjectKey, RuleRoute | RuleFault] = {}
        self._by_path: defaultdict[tuple[str, str], dict[ObjectKey, RuleRoute]] = defaultdict(dict)
        """By namespace and first part of the path."""
        self._by_resource: defaultdict[tuple[str, str], dict[ObjectKey, RuleRoute]] = defaultdict(dict)
        """By node and resource; the resource is empty for those with wildcards."""
        self._of_node: defaultdict[str, dict[ObjectKey, RuleRoute]] = defaultdict(dict)

    def put(self, changed: ObjectChanged) -> list[RuleChange]:
        """Take over a change of an object, and return the changes of Rules that follow."""
        key = key_of(changed.object)
        is_gone = changed.change == EventType.DELETED
        if key.kind == RULE_ENDPOINT.key_name:
            if is_gone:
                self._endpoints.pop(key, None)
            else:
                self._endpoints[key] = endpoint_record(changed.object)
            return [self._renew(rule) for rule in list(self._users.get(key, ()))]
        rule = None if is_gone else rule_record(changed.object)
        if rule == self._rules.get(key):
            return []  # only its status has changed
        self._set_rule(key, rule)
        return [self._renew(key)]

    def rule(self, key: ObjectKey) -> RuleRecord | None:
        """Return a Rule."""
        return self._rules.get(key)

    def fault(self, key: ObjectKey) -> RuleFault | None:
        """Return why a Rule makes no route, or None."""
        found = self._found.get(key)
        return found if isinstance(found, RuleFault) else None

    def for_caller(self, path: CallerPath) -> RuleRoute | None:
        """Return the route of a request: of several the one with the longest path, then the oldest."""
        matching = [
            route
            for first in (path.parts[0], _ANY)
            for route in self._by_path.get((path.namespace, first), {}).values()
            if route.pattern is not None and route.pattern.matches(path.parts)
        ]
        return min(matching, key=_precedence, default=None)

    def for_message(self, node: str, resource: str) -> list[RuleRoute]:
        """Return the routes of a node's message."""
        exact = self._by_resource.get((node, resource), {}) if resource else {}
        patterns = self._by_resource.get((node, ""), {})
        return [*exact.values(), *(route for route in patterns.values() if selects(route.resource, resource))]

    def of_node(self, node: str) -> Iterable[RuleRoute]:
        """Return the routes of all messages of a node."""
        return self._of_node.get(node, {}).values()

    def is_wanted(self, route: RuleRoute) -> bool:
        """Return whether any route is for the same messages as this one."""
        return any(each.resource == route.resource for each in self.of_node(route.node))

    def _set_rule(self, key: ObjectKey, rule: RuleRecord | None) -> None:
        old = self._rules.pop(key, None)
        if old is not None:
            for name in (old.source, old.target):
                discard(self._users, endpoint_key(old, name), key)
        if rule is not None:
            self._rules[key] = rule
            for name in (rule.source, rule.target):
                self._users[endpoint_key(rule, name)][key] = None

    def _renew(self, key: ObjectKey) -> RuleChange:
        """Find the route of a Rule again."""
        before, rule = self._found.pop(key, None), self._rules.get(key)
        old = before if isinstance(before, RuleRoute) else None
        if old is not None:
            self._forget(key, old)
        found = route_of(rule, self._endpoints) if rule is not None else None
        if found is not None:
            self._found[key] = found
        new = found if isinstance(found, RuleRoute) else None
        if new is not None:
            self._add(key, new)
        return RuleChange(key, old, new)

    def _add(self, key: ObjectKey, route: RuleRoute) -> None:
        if route.pattern is not None:
            self._by_path[_path_entry(route)][key] = route
        else:
            self._by_resource[_resource_entry(route)][key] = route
            self._of_node[route.node][key] = route

    def _forget(self, key: ObjectKey, route: RuleRoute) -> None:
        if route.pattern is not None:
            discard(self._by_path, _path_entry(route), key)
        else:
            discard(self._by_resource, _resource_entry(route), key)
            discard(self._of_node, route.node, key)


def _path_entry(route: RuleRoute) -> tuple[str, str]:
    first = route.pattern.parts[0] if route.pattern is not None else ""
    return route.rule.key.namespace, _ANY if first.startswith("{") else first


def _resource_entry(route: RuleRoute) -> tuple[str, str]:
    is_pattern = not route.is_url and has_wildcard(route.resource)
    return route.node, "" if is_pattern else route.resource


def _precedence(route: RuleRoute) -> tuple[int, int, str, ObjectKey]:
    parts, literal = route.pattern.rank if route.pattern is not None else (0, 0)
    return -parts, -literal, route.rule.created, route.rule.key
