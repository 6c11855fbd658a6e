"""A client of the Kubernetes API that watches objects as client-go does: over HTTP, and trusting what it is told."""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from beehive.decoding import decode_json
from modules.apimachinery.kinds import JsonObject, Kind, uid_of, version_of
from modules.cloud.client.transport import ApiRequest, Exchange, ResponseHead
from modules.lab.simulate.world import Process, WallClock, World

_AGAIN: Final = (0.2, 2.0)
"""Seconds until the next request, after the end of one."""
_WATCHES: Final = (5.0, 150.0)
"""Seconds of a watch. client-go's are minutes; many ends find more."""
_SILENCE: Final = 90.0
"""Seconds without a byte after which a connection counts as broken: bookmarks come each minute."""

Start = Callable[[ApiRequest, "WatchClient", Process], Exchange | None]
"""Sends a request; None: nobody listens."""


class WatchClient:
    """A reflector as client-go has it (`ResponseListener`): a list, and then watches, each from the resourceVersion of
    the last event or bookmark. Only 410 makes it list again, so whatever a watch leaves out stays wrong.

    Args:
        world: the world of the run.
        kind: of the objects.
        start: sends its requests.
    """

    def __init__(self, world: World, kind: Kind, start: Start) -> None:
        self.kind = kind
        self._world = world
        self._start = start
        self._process = Process(world, f"watcher of {kind.plural}", WallClock())
        self._random = random.Random(f"{world.seed} watcher of {kind.plural}")  # noqa: S311 - reproducible on purpose
        self._objects: dict[tuple[str, str], tuple[str, str]] = {}
        """Uid and version by namespace and name."""
        self._version = ""
        """The last one that it was told; "" makes it list."""
        self._exchange: Exchange | None = None
        self._status = 0
        self._body = b""
        self._is_watch = False

    def begin(self) -> None:
        """Begin to list."""
        self._later()

    def list_again(self) -> None:
        """Forget all, and list: an administrator restarts the client."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.cancel()
            self._later()
        self._version = ""

    def disagreements(self, objects: Iterable[JsonObject]) -> Iterator[str]:
        """Yield what it has in place of a list's objects."""
        listed = {_name_of(each): (uid_of(each), version_of(each)) for each in objects}
        for name in sorted(listed.keys() | self._objects.keys()):
            has, should = self._objects.get(name), listed.get(name)
            if has != should:
                what = f"{self.kind.name} {'/'.join(name)}"
                at = f"it is at version {self._version or 'none'}"
                yield f"a client that trusts its watch has {has} as {what}, and a list has {should}; {at}"

    def on_head(self, head: ResponseHead) -> None:
        """Take the beginning of a response."""
        self._status = head.status

    def on_data(self, data: bytes) -> None:
        """Take a piece of a list, or of events."""
        self._body += data
        if self._is_watch and self._status == HTTPStatus.OK:
            *lines, self._body = self._body.split(b"\n")
            for line in lines:
                self._handle_event(decode_json(line, dict))

    def on_end(self) -> None:
        """Take the end of a response."""
        if not self._is_watch and self._status == HTTPStatus.OK:
            listed = decode_json(self._body, dict)
            self._version = listed["metadata"]["resourceVersion"]
            self._objects = {_name_of(each): (uid_of(each), version_of(each)) for each in listed["items"] or ()}
        elif self._status == HTTPStatus.GONE:
            self._version = ""
        self._later()

    def on_error(self, _error: Exception) -> None:
        """Take the end of a connection."""
        self._later()

    def _handle_event(self, event: dict[str, Any]) -> None:
        what, obj = event["type"], event["object"]
        if what == "ERROR":
            if obj.get("code") == HTTPStatus.GONE:
                self._version = ""
            return
        before, self._version = self._version, version_of(obj)
        if before and int(self._version) < int(before):
            text = f"a watch of {self.kind.plural} goes from version {before} to {self._version}, by {what}"
            self._world.violated("watches go forward", text)
        if what == "DELETED":
            self._objects.pop(_name_of(obj), None)
        elif what != "BOOKMARK":
            self._objects[_name_of(obj)] = uid_of(obj), version_of(obj)

    def _later(self) -> None:
        self._exchange = None
        self._process.clock.after(self._random.uniform(*_AGAIN), partial(self._process.run, self._ask))

    def _ask(self) -> None:
        self._status, self._body, self._is_watch = 0, b"", bool(self._version)
        path = f"/{'apis' if '/' in self.kind.api_version else 'api'}/{self.kind.api_version}/{self.kind.plural}"
        if self._is_watch:
            seconds = int(self._random.uniform(*_WATCHES))
            path += f"?watch=1&allowWatchBookmarks=1&resourceVersion={self._version}&timeoutSeconds={seconds}"
        request = ApiRequest(method="GET", path=path, stream=self._is_watch, silence=_SILENCE * self._is_watch)
        self._exchange = self._start(request, self, self._process)
        if self._exchange is None:
            self._later()


def _name_of(obj: JsonObject) -> tuple[str, str]:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
