"""The HTTP requests of a reflector."""

from typing import Final
from urllib.parse import urlencode

from modules.cloud.client.call_requests import collection_path
from modules.cloud.client.reflector.selection import PAGE_OBJECTS, ListRequest, Selection, WatchRequest
from modules.cloud.client.transport import ApiRequest

LIST_SECONDS: Final = 60.0
"""Time for a page."""
HEAD_SECONDS: Final = 30.0
"""Time until a watch is accepted; API servers accept one without waiting for a change."""


def collection_request(request: ListRequest | WatchRequest) -> ApiRequest:
    """Return the HTTP request for a page or a watch.

    A list has no resourceVersion, so that it is the newest state, and `limit` counts (it does not with version 0).

    Raises:
        CallError: a name cannot be part of a path.
    """
    if isinstance(request, WatchRequest):
        query = [
            ("watch", "true"),
            ("resourceVersion", request.version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(request.seconds)),
        ]
        return _request(request.selection, query, HEAD_SECONDS, stream=True)
    query = [("limit", str(PAGE_OBJECTS))] if request.paged else []
    if request.token:
        query.append(("continue", request.token))
    return _request(request.selection, query, LIST_SECONDS, stream=False)


def _request(selection: Selection, query: list[tuple[str, str]], seconds: float, *, stream: bool) -> ApiRequest:
    selectors = [("fieldSelector", selection.field_selector), ("labelSelector", selection.label_selector)]
    fields = urlencode([*query, *(each for each in selectors if each[1])])
    path = collection_path(selection.kind.api_version, selection.kind.plural, selection.namespace)
    return ApiRequest(
        method="GET",
        path=f"{path}?{fields}" if fields else path,
        headers=(("Accept", "application/json"),),
        timeout=seconds,
        stream=stream,
    )
