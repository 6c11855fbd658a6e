"""Which object, or which collection, a path of the API means (Kubernetes' RequestInfo)."""

from metamanager.application import Target
from modules.metaserver.errors import no_such_path

_OF_NAMESPACES = ("status", "finalize")
"""Subresources of a namespace; another word in their place is a resource in it."""


def parse_target(parts: tuple[str, ...]) -> Target:
    """The target of a path below `/api` or `/apis`.

    Raises:
        ApiError: it is of no such form.
    """
    match parts:
        case ("api", version, *rest) if rest:
            group = ""
        case ("apis", group, version, *rest) if rest:
            pass
        case _:
            raise no_such_path()
    match rest:
        case ["namespaces", namespace, *inside] if inside and inside[0] not in _OF_NAMESPACES:
            return _target(group, version, namespace, inside)
        case _:
            return _target(group, version, "", rest)


def _target(group: str, version: str, namespace: str, rest: list[str]) -> Target:
    plural, name, *subresource = [*rest, ""] if len(rest) == 1 else rest
    return Target(group, version, plural, namespace, name, "/".join(subresource))
