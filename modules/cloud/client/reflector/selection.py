"""The requests of a reflector."""

import random
from typing import Final
from urllib.parse import urlencode

import msgspec

from modules.cloud.client.transport import ApiRequest

PAGE_OBJECTS: Final = 500
"""Objects that a page of a list has at most (client-go's default)."""
LIST_SECONDS: Final = 60.0
"""Time for a page."""
HEAD_SECONDS: Final = 30.0
"""Time until a watch is accepted; API servers accept one at once."""
_SHORTEST_WATCH: Final = 300
_LONGEST_WATCH: Final = 600
_JSON: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that are listed and watched."""

    path: str
    """Path of the collection, from the server's root: `/api/v1/pods`."""
    field_selector: str = ""
    label_selector: str = ""
    metadata_only: bool = False
    """Whether objects come without spec, status and data (PartialObjectMetadata)."""

    def list_request(self, token: str = "", *, paged: bool = True) -> ApiRequest:
        """Return the request for a page: the first, or the one of a continue token; or for the whole list.

        Without resourceVersion, so that the list is the newest state, and `limit` counts (it does not with version 0).
        """
        query = [("limit", str(PAGE_OBJECTS))] if paged else []
        if token:
            query.append(("continue", token))
        return self._request(query, "List", timeout=LIST_SECONDS)

    def watch_request(self, version: str, source: random.Random) -> ApiRequest:
        """Return the request for the changes after a version. The server ends it after 5 to 10 minutes (client-go)."""
        query = [
            ("watch", "true"),
            ("resourceVersion", version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(source.randint(_SHORTEST_WATCH, _LONGEST_WATCH))),
        ]
        return self._request(query, "", timeout=HEAD_SECONDS, stream=True)

    def _request(
        self, query: list[tuple[str, str]], suffix: str, *, timeout: float, stream: bool = False
    ) -> ApiRequest:
        selectors = [("fieldSelector", self.field_selector), ("labelSelector", self.label_selector)]
        fields = urlencode([*query, *(each for each in selectors if each[1])])
        accept = _METADATA.format(suffix) if self.metadata_only else _JSON
        return ApiRequest(
            method="GET",
            path=f"{self.path}?{fields}" if fields else self.path,
            headers=(("Accept", accept),),
            timeout=timeout,
            stream=stream,
        )
