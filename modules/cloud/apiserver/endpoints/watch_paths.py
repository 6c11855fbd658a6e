"""The deprecated paths of watches: `/api/v1/watch/pods` is `/api/v1/pods?watch=true`."""

from typing import Final

import msgspec

from beehive.http.request import Request

_WATCH: Final = "watch"
_FIELD_SELECTOR: Final = "fieldSelector"
_PREFIXES: Final = {"api": 2, "apis": 3}
"""Parts before the word."""


def without_watch_path(request: Request) -> Request:
    """Return the request in today's form: the word in the path becomes a parameter, and a name the selector."""
    before = _PREFIXES.get(request.parts[0], 0) if request.parts else 0
    parts = request.parts
    if not before or parts[before : before + 1] != (_WATCH,) or len(parts) <= before + 1 or request.method != "GET":
        return request
    query = tuple((name, text) for name, text in request.query if name != _WATCH)
    parts = parts[:before] + parts[before + 1 :]
    of_kind = before + 2 if parts[before] == "namespaces" and len(parts) > before + 2 else before
    if len(parts) == of_kind + 2:
        others = tuple((name, text) for name, text in query if name != _FIELD_SELECTOR)
        parts, query = parts[:-1], (*others, (_FIELD_SELECTOR, f"metadata.name={parts[-1]}"))
    return msgspec.structs.replace(request, parts=parts, query=(*query, (_WATCH, "true")))
