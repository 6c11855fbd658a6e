"""Parsing of API paths into targets (Kubernetes' RequestInfo)."""

from modules.apimachinery.application import Target
from modules.apimachinery.errors import no_such_path

_OF_NAMESPACES = ("status", "finalize")
"""Subresources of a namespace; any other word after its name is a resource in it."""


def parse_target(parts: tuple[str, ...]) -> Target:
    """Return the target of a path below `/api` or `/apis`.

    Raises:
        ApiStatusError: 404; the path has another form.
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
