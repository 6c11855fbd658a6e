"""All Rules with their RuleEndpoints, and which of them a request or a message matches."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

from modules.apimachinery.kinds import ObjectKey, key_of
from modules.cloud.indexes import discard
from modules.cloud.router.paths import CallerPath, PathPattern
from modules.cloud.router.records import (
    EndpointRecord,
    RouteClaim,
    RuleFault,
    RuleRecord,
    RuleRoute,
    claim_of_url,
    endpoint_key,
    endpoint_record,
    reserved_of,
    route_of,
    rule_record,
)
from modules.cloud.router.topics import has_wildcard, selects
from modules.cloud.rules import RULE_ENDPOINT
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged

_Place = TypeVar("_Place", RouteClaim, tuple[str, str])
_ANY: Final = ""
"""Key of routes whose first path segment is a wildcard."""
MOST_URLS: Final = 500
"""URLs of one node's applications for Rules of one namespace: servicebus has room for twice as many."""
_NO_ROOM: Final = RuleFault(
    "TooManyURLs",
    f"spec.sourceResource.target_url: {MOST_URLS} older Rules of the namespace have one for this node: delete some",
)
_URL_TAKEN: Final = RuleFault(
    "URLTaken",
    "spec.sourceResource.target_url: an older Rule, perhaps of another namespace, has it for this node: name another",
)
_PATH_TAKEN: Final = RuleFault(
    "PathTaken",
    "spec.sourceResource.path: an older Rule of the namespace has the same paths, and gets all calls: name another",
)


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
        self._reserved: dict[ObjectKey, RuleRoute] = {}
        """What Rules without a route keep from younger ones."""
        self._by_path: defaultdict[tuple[str, str], dict[ObjectKey, RuleRoute]] = defaultdict(dict)
        """By namespace and first part of the path."""
        self._by_resource: defaultdict[tuple[str, str], dict[ObjectKey, RuleRoute]] = defaultdict(dict)
        """By node and resource; the resource is empty for those with wildcards."""
        self._of_node: defaultdict[str, dict[ObjectKey, RuleRoute]] = defaultdict(dict)
        self._claims: defaultdict[RouteClaim, list[RuleRoute]] = defaultdict(list)
        """The oldest Rule comes first, and it alone has what they claim, also while it makes no route of it."""
        self._urls: defaultdict[tuple[str, str], list[RuleRoute]] = defaultdict(list)
        """By node and namespace the routes of URLs, the oldest first; those beyond the most are not made."""

    def put(self, changed: ObjectChanged) -> list[RuleChange]:
        """Take over a change of an object, and return the changes of Rules that follow."""
        key = key_of(changed.object)
        is_gone = changed.change == EventType.DELETED
        if key.kind == RULE_ENDPOINT.key_name:
            if is_gone:
                self._endpoints.pop(key, None)
            else:
                self._endpoints[key] = endpoint_record(changed.object)
            return [change for rule in list(self._users.get(key, ())) for change in self._renew(rule)]
        rule = None if is_gone else rule_record(changed.object)
        if rule == self._rules.get(key):
            return []  # only its status has changed
        self._set_rule(key, rule)
        return self._renew(key)

    def rule(self, key: ObjectKey) -> RuleRecord | None:
        """Return a Rule."""
        return self._rules.get(key)

    def fault(self, key: ObjectKey) -> RuleFault | None:
        """Return why a Rule makes no route, or gets nothing by it; None if it is Ready."""
        found = self._found.get(key)
        if isinstance(found, RuleRoute) and found.is_url and key not in self._of_node.get(found.node, ()):
            return _NO_ROOM
        if isinstance(found, RuleRoute) and found.claim is not None and self._holder(found.claim) is not found:
            return _URL_TAKEN if found.is_url else _PATH_TAKEN
        return found if isinstance(found, RuleFault) else None

    def for_caller(self, path: CallerPath) -> RuleRoute | None:
        """Return the route of a request: of several the one with the longest path, then the oldest."""
        matching = {
            _precedence(route, route.pattern): route
            for first in (path.parts[0], _ANY)
            for route in self._by_path.get((path.namespace, first), {}).values()
            if route.pattern is not None and route.pattern.matches(path.parts)
        }
        return matching[min(matching)] if matching else None

    def for_message(self, node: str, resource: str) -> list[RuleRoute]:
        """Return the routes of a node's message. A URL has no namespace: of several Rules that name it for the node,
        the oldest has it.
        """
        if (of_url := self._holder(claim_of_url(node, resource))) is not None:
            return [] if of_url.is_reserved else [of_url]
        exact = self._by_resource.get((node, resource), {}) if resource else {}
        patterns = self._by_resource.get((node, ""), {})
        return [*exact.values(), *(route for route in patterns.values() if selects(route.resource, resource))]

    def of_node(self, node: str) -> Iterable[RuleRoute]:
        """Return the routes of all messages of a node."""
        return self._of_node.get(node, {}).values()

    def is_wanted(self, route: RuleRoute) -> bool:
        """Return whether any route is for the same messages as this one."""
        return any(each.resource == route.resource for each in self.of_node(route.node))

    def _holder(self, claim: RouteClaim) -> RuleRoute | None:
        """Return the route that has something; None if no Rule claims it."""
        routes = self._claims.get(claim)
        return routes[0] if routes else None

    def _set_rule(self, key: ObjectKey, rule: RuleRecord | None) -> None:
        old = self._rules.pop(key, None)
        if old is not None:
            for name in (old.source, old.target):
                discard(self._users, endpoint_key(old, name), key)
        if rule is not None:
            self._rules[key] = rule
            for name in (rule.source, rule.target):
                self._users[endpoint_key(rule, name)][key] = None

    def _renew(self, key: ObjectKey) -> list[RuleChange]:
        """Find the route of a Rule again; with others', if they get or lose what they claim, or their room."""
        before, rule = self._found.pop(key, None), self._rules.get(key)
        old = before if isinstance(before, RuleRoute) else self._reserved.pop(key, None)
        found = route_of(rule, self._endpoints) if rule is not None else None
        new = found if isinstance(found, RuleRoute) else reserved_of(rule) if rule is not None else None
        rooms = {_room(each) for each in (old, new) if each is not None and each.is_url}
        had = self._made(old, rooms)
        if old is not None and old.is_url:
            _remove(self._urls, _room(old), old)
        if found is not None:
            self._found[key] = found
        if new is not None and new.is_reserved:
            self._reserved[key] = new
        if new is not None and new.is_url:
            insort(self._urls[_room(new)], new, key=_age)
        has = self._made(new, rooms)
        gone = [each for each in had.values() if has.get(each.rule.key) is not each]
        come = [each for each in has.values() if had.get(each.rule.key) is not each]
        held = {each.claim: self._holder(each.claim) for each in (*gone, *come) if each.claim is not None}
        for each in gone:
            self._forget(each)
        for each in come:
            self._add(each)
        keys = (key, *(each.rule.key for each in (*gone, *come)))
        changes = {each: RuleChange(each, _of_messages(had.get(each)), _of_messages(has.get(each))) for each in keys}
        for claim, holder in held.items():
            pair = (holder, self._holder(claim))
            for other in pair if pair[0] is not pair[1] else ():
                if other is not None and not other.is_reserved:
                    changes.setdefault(other.rule.key, RuleChange(other.rule.key, other, other))
        return list(changes.values())

    def _made(self, route: RuleRoute | None, rooms: Iterable[tuple[str, str]]) -> dict[ObjectKey, RuleRoute]:
        """Return the routes that are made: this one, or of URLs the oldest that have room."""
        found = {route.rule.key: route} if route is not None and not route.is_url else {}
        return found | {each.rule.key: each for room in rooms for each in self._urls.get(room, [])[:MOST_URLS]}

    def _add(self, route: RuleRoute) -> None:
        key = route.rule.key
        if route.claim is not None:
            insort(self._claims[route.claim], route, key=_age)
        if route.pattern is not None:
            self._by_path[_path_entry(route)][key] = route
        elif not route.is_reserved:
            self._by_resource[_resource_entry(route)][key] = route
            self._of_node[route.node][key] = route

    def _forget(self, route: RuleRoute) -> None:
        key = route.rule.key
        if route.claim is not None:
            _remove(self._claims, route.claim, route)
        if route.pattern is not None:
            discard(self._by_path, _path_entry(route), key)
        elif not route.is_reserved:
            discard(self._by_resource, _resource_entry(route), key)
            discard(self._of_node, route.node, key)


def _remove(index: dict[_Place, list[RuleRoute]], place: _Place, route: RuleRoute) -> None:
    """Remove a route from its place, where the oldest is first, and a place without routes."""
    routes = index[place]
    del routes[bisect_left(routes, _age(route), key=_age)]
    if not routes:
        del index[place]


def _of_messages(route: RuleRoute | None) -> RuleRoute | None:
    return None if route is None or route.is_reserved else route


def _room(route: RuleRoute) -> tuple[str, str]:
    return route.node, route.rule.key.namespace


def _path_entry(route: RuleRoute) -> tuple[str, str]:
    first = route.pattern.parts[0] if route.pattern is not None else ""
    return route.rule.key.namespace, _ANY if first.startswith("{") else first


def _resource_entry(route: RuleRoute) -> tuple[str, str]:
    is_pattern = not route.is_url and has_wildcard(route.resource)
    return route.node, "" if is_pattern else route.resource


def _precedence(route: RuleRoute, pattern: PathPattern) -> tuple[int, int, str, ObjectKey]:
    parts, literal = pattern.rank
    return -parts, -literal, *_age(route)


def _age(route: RuleRoute) -> tuple[str, ObjectKey]:
    return route.rule.created, route.rule.key
