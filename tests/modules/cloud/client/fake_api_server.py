"""A model of an API server's lists and watches: versions, compaction, restores, faults on the connection."""

import json
import random
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from modules.cloud.client.transport import ApiRequest
from tests.modules.cloud.client.reflections import Row, bookmark, error_event, event, page, status

NAMES = ("a", "b", "c", "d")


class Answer(NamedTuple):
    """A response that is known when it is requested."""

    status: int
    body: bytes


class FakeApiServer:
    """The objects of one kind and the events that led to them.

    Args:
        draw: decides what is written.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.version = 100
        self.objects: dict[str, tuple[str, ...]] = {}
        """By name: uid, version and content."""
        self._events: list[tuple[int, str, Row]] = []
        self._compacted = 100
        self._timeline = 0
        self._uids = 0
        self._contents = 0
        self._snapshots: dict[tuple[int, int], dict[str, tuple[str, ...]]] = {}
        """By timeline and version."""
        self.ceiling = 0
        """A version that is not reached until this is set to 0 (no bound)."""

    def write(self) -> None:
        """Create, change or delete an object, or replace it by one of its name."""
        if self.ceiling and self.version + 2 >= self.ceiling:
            return
        name = self._draw.choice(NAMES)
        known = self.objects.get(name)
        if known is None:
            self._create(name)
        elif self._draw.random() < 0.6:
            self._record("MODIFIED", name, known[0])
        else:
            self._record("DELETED", name, known[0])
            if self._draw.random() < 0.5:
                self._create(name)

    def _create(self, name: str) -> None:
        self._uids += 1
        self._record("ADDED", name, f"u{self._uids}")

    def _record(self, type_: str, name: str, uid: str) -> None:
        self.version += 1
        if type_ == "DELETED":
            del self.objects[name]
        else:
            self._contents += 1
            self.objects[name] = uid, str(self.version), f"content {self._contents}"
        self._events.append((self.version, type_, (name, *self.objects.get(name, (uid, str(self.version))))))
        self._snapshots[self._timeline, self.version] = dict(self.objects)

    def compact(self) -> None:
        """Forget the events and the states before now."""
        self._compacted = self.version
        self._events.clear()
        self._snapshots = {}

    def restore(self, seen: int) -> None:
        """Go back to a state before; versions are given again, to other contents.

        A client cannot tell a server that has passed the version which it has `seen` from one without a restore, so
        that this one does not, until `ceiling` is 0.
        """
        if not self._snapshots:
            return
        timeline, version = self._draw.choice(sorted(self._snapshots))
        self.ceiling = max(seen if seen > version else 0, self.ceiling)
        self.objects = dict(self._snapshots[timeline, version])
        self.version = version
        self._timeline += 1
        self.compact()

    def list(self, request: ApiRequest) -> Answer:
        """Answer a request for a page."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        version, start, objects = self.version, "", self.objects
        if token := query.get("continue"):
            timeline, version, start = json.loads(token)
            if timeline != self._timeline or (version < self.version and (timeline, version) not in self._snapshots):
                return Answer(410, status(410, "The provided continue parameter is too old"))
            objects = self._snapshots.get((timeline, version), self.objects)
        names = sorted(name for name in objects if name > start)
        shown = names[:2] if "limit" in query else names
        rest = json.dumps([self._timeline, version, shown[-1]]) if len(shown) < len(names) else ""
        return Answer(200, page(str(version), *((name, *objects[name]) for name in shown), following=rest))


class FakeWatch:
    """A watch of a fake API server.

    Args:
        server: whose events are sent.
        request: names the version.
    """

    def __init__(self, server: FakeApiServer, request: ApiRequest) -> None:
        self._server = server
        self._after = int(parse_qs(urlsplit(request.path).query)["resourceVersion"][0])

    @property
    def is_too_old(self) -> bool:
        """Whether events that it has not sent are compacted."""
        return self._after < self._server._compacted

    def events(self) -> bytes:
        """Return what has happened since the last call."""
        if self.is_too_old:
            return error_event(410, "too old resource version")
        found = [one for one in self._server._events if one[0] > self._after]
        if found:
            self._after = found[-1][0]
        return b"".join(event(type_, row) for _, type_, row in found)

    def bookmark(self) -> bytes:
        """Return a bookmark, or nothing where the version is one of the future."""
        if self.is_too_old or self._server.version < self._after:
            return b""
        return self.events() + bookmark(str(self._server.version))


def failure(draw: random.Random) -> tuple[int, bytes, dict[str, Any]]:
    """Return a refusal: status, body, headers."""
    code = draw.choice([403, 404, 410, 429, 429, 500, 502, 503, 504])
    headers = {"retry_after": str(draw.randint(0, 40))} if code in {429, 503} and draw.random() < 0.5 else {}
    return code, draw.choice([status(code, "no"), b"no", b""]), headers
