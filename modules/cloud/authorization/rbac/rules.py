"""The rules of roles, and the requests that they decide on (Kubernetes' `PolicyRule`, `authorizer.Attributes`)."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from modules.apimachinery.kinds import JsonObject

ALL: Final = "*"


class AccessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a user: a verb on a resource, or on a path that is no resource."""

    verb: str
    group: str = ""
    """API group; empty: the core."""
    resource: str = ""
    """Plural: `pods`; empty: the request is about `path`."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        """The resource with its subresource, as rules name it: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class PolicyRule(msgspec.Struct, frozen=True):
    """One rule of a role."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """Names of objects; empty: all."""
    paths: frozenset[str] = frozenset()

    def allows(self, request: AccessRequest) -> bool:
        """Return whether a request follows from the rule."""
        if not _has(self.verbs, request.verb):
            return False
        if not request.resource:
            return any(_is_below(request.path, path) for path in self.paths)
        return (
            _has(self.groups, request.group)
            and self._has_resource(request.combined)
            and (not self.names or request.name in self.names)
        )

    def _has_resource(self, resource: str) -> bool:
        _, slash, subresource = resource.partition("/")
        return _has(self.resources, resource) or (bool(slash) and f"{ALL}/{subresource}" in self.resources)

    def covers(self, other: "PolicyRule") -> bool:
        """Return whether each request that the other rule allows follows from this one alone."""
        if not _has_all(self.verbs, other.verbs):
            return False
        if other.paths:
            return all(any(_is_below(path, own) for own in self.paths) for path in other.paths)
        return (
            _has_all(self.groups, other.groups)
            and (ALL in self.resources or all(map(self._has_resource, other.resources)))
            and (not self.names or (bool(other.names) and other.names <= self.names))
        )

    def parts(self) -> Iterator["PolicyRule"]:
        """Yield rules with one verb, group, resource and name, or one verb and path, that together allow the same."""
        for verb in self.verbs:
            verbs = frozenset((verb,))
            for path in self.paths:
                yield PolicyRule(verbs, paths=frozenset((path,)))
            for group in self.groups:
                for resource in self.resources:
                    for name in self.names or ("",):
                        names = frozenset((name,)) if name else frozenset[str]()
                        yield PolicyRule(verbs, frozenset((group,)), frozenset((resource,)), names)

    def number_of_parts(self) -> int:
        """Return how many rules `parts` yields."""
        return len(self.verbs) * (len(self.paths) + len(self.groups) * len(self.resources) * max(1, len(self.names)))

    def in_json(self) -> JsonObject:
        """Return the rule as a role has it, and as reviews tell it."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {name: sorted(values) for name, values in fields.items() if values}


def rules_in(role: JsonObject) -> tuple[PolicyRule, ...]:
    """Return the rules of a Role or ClusterRole."""
    return tuple(
        PolicyRule(
            _words(rule.get("verbs")),
            _words(rule.get("apiGroups")),
            _words(rule.get("resources")),
            _words(rule.get("resourceNames")),
            _words(rule.get("nonResourceURLs")),
        )
        for rule in role.get("rules") or ()
    )


def uncovered(wanted: Iterable[PolicyRule], held: Iterable[PolicyRule], most: int) -> list[PolicyRule]:
    """Return the parts of some rules that no held rule covers (Kubernetes' `validation.Covers`).

    Args:
        wanted: the rules.
        held: the rules that someone has.
        most: rules with more combinations than this that no single rule covers are returned whole.
    """
    own = tuple(held)
    missing = list[PolicyRule]()
    for rule in wanted:
        if any(each.covers(rule) for each in own):
            continue
        if rule.number_of_parts() * max(1, len(own)) > most:
            missing.append(rule)
        else:
            missing += [part for part in rule.parts() if not any(each.covers(part) for each in own)]
    return missing


def _words(value: Any) -> frozenset[str]:
    return frozenset(map(str, value or ()))


def _has(words: frozenset[str], word: str) -> bool:
    return word in words or ALL in words


def _has_all(words: frozenset[str], others: frozenset[str]) -> bool:
    return ALL in words or others <= words


def _is_below(path: str, pattern: str) -> bool:
    return path == pattern or (pattern.endswith(ALL) and path.startswith(pattern[:-1]))
