"""Paths at the HTTP servers of mappers, which name a Device (KubeEdge's mapper-framework, `pkg/httpserver`). Pure."""

from typing import Final
from urllib.parse import unquote

METHODS: Final = ("api", "v1", "devicemethod")
"""The beginning of a call of a method; namespace and name of the Device follow."""
_OF_DEVICES: Final = (METHODS, ("api", "v1", "device"), ("api", "v1", "database"), ("api", "v1", "meta", "model"))


def parts_of_path(target: str) -> list[str]:
    """Return the parts of a request's path. A quoted slash counts as one, as for mappers of KubeEdge's framework, and
    an empty part or a dot as none.
    """
    found: list[str] = []
    for part in unquote(target.partition("?")[0]).split("/"):
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return found


def namespace_of_path(target: str) -> str:
    """Return the namespace of the Device, or DeviceModel, that a path names; empty for any other path."""
    parts = parts_of_path(target)
    places = (len(each) for each in _OF_DEVICES if tuple(parts[: len(each)]) == each)
    return next((parts[place] for place in places if len(parts) > place), "")
