"""The object that a history is about, and the names that events have for it.

An object has several resource types on the bus: a pod's status is sent as `podpatch` (today) or `podstatus` (2019), a
node's as `nodepatch` or `nodestatus`.
"""

from typing import Final

import msgspec

from beehive import BeehiveError
from beehive.names import ResourceType
from beehive.resource import NULL_NAMESPACE

_KINDS: Final = {
    "po": "pod",
    "cm": "configmap",
    "no": "node",
    "ev": "event",
    "sa": "serviceaccount",
}
"""Kinds by kubectl's short names."""
_TYPES: Final = frozenset(map(str, ResourceType))
_SUFFIXES: Final = ("", "patch", "status")
_CLUSTER: Final = frozenset({NULL_NAMESPACE, "", "default", "namespace"})
"""Namespaces in KubeEdge's messages about cluster-scoped objects."""


class TargetError(BeehiveError):
    """The argument is not the name of an object."""


class Target(msgspec.Struct, frozen=True):
    """An object of the cluster; the namespace of a cluster-scoped one is empty."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def parse(cls, kind: str, name: str) -> "Target":
        """Parse `pod default/nginx` or `node lab-edge`; the kind may also be `pods` or `po`.

        Without a name the kind has it, as in kubectl's `pod/nginx`.

        Raises:
            TargetError: the name is neither NAME nor NAMESPACE/NAME.
        """
        if not name:
            kind, _, name = kind.partition("/")
        kind = _singular(kind.lower())
        namespace, slash, rest = name.partition("/")
        if not slash:
            namespace, rest = ("default", name) if kind == "pod" else ("", name)
        if not kind or not rest or "/" in rest:
            raise TargetError("cannot look for the object", f"{kind} {name}", "give for example: pod default/nginx")
        return cls(kind, namespace, rest)

    @staticmethod
    def is_kind(word: str) -> bool:
        """Return whether a word is the name of a kind of object."""
        return _singular(word.lower()) in _TYPES

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"

    def named_by(self, about: str) -> bool:
        """Return whether a resource, or the subject of a call of the runtime, is this object."""
        namespace, kind, name = parts(about)
        return name == self.name and self.of_kind(kind) and self._in_namespace(namespace)

    def named_other(self, about: str) -> bool:
        """Return whether a resource is another object of the same kind."""
        _, kind, name = parts(about)
        return bool(name) and self.of_kind(kind) and not self.named_by(about)

    def of_kind(self, kind: str) -> bool:
        """Return whether a resource type is one of this kind's."""
        return any(kind == self.kind + suffix for suffix in _SUFFIXES)

    def json_names(self) -> tuple[bytes, ...]:
        """Return the resource strings of the object, quoted as in JSON text."""
        namespaces = (self.namespace,) if self.namespace else tuple(sorted(_CLUSTER - {""}))
        return tuple(f'"{place}/{self.kind}{end}/{self.name}"'.encode() for place in namespaces for end in _SUFFIXES)

    def _in_namespace(self, namespace: str) -> bool:
        return namespace == self.namespace if self.namespace else namespace in _CLUSTER


def parts(about: str) -> tuple[str, str, str]:
    """Return the namespace, type and name of a resource, empty if it is malformed; a container follows a blank."""
    tokens = about.partition(" ")[0].split("/")
    return (tokens[0], tokens[1], tokens[2]) if len(tokens) == 3 else ("", "", "")


def _singular(kind: str) -> str:
    """Return a kind as in resource strings."""
    plain = kind.removesuffix("s")
    return _KINDS.get(plain, plain if plain in _TYPES and kind not in _TYPES else kind)
