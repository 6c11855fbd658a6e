"""The recorded exchanges with a real kube-apiserver 1.32, and their play against the embedded API server.

The exchanges are one story, in order. Names that a server chooses (uids, resourceVersions, tokens of pages) differ, so
ours replace the recorded ones in each request, as they become known from the responses.
"""

import difflib
import json
import re
import select
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream
from tests.interop.traces import RECORDINGS

FILE = RECORDINGS / "kubernetes-api" / "forms.jsonl"
_CHOSEN = ("uid", "resourceVersion", "continue")
_FUTURE = "99999999"
"""A version that the recorded server had not reached; ours begin with the time."""
_LOOK = 0.05
"""Seconds between two looks whether a story is over."""
_TEXT = "_text"
"""The member of a recorded response that is no JSON."""
_KEPT = ("labels", "deletionGracePeriodSeconds")
_CURRENT = re.compile(r"(?<=current: )\d+")
"""The newest version, in a message: a cloudcore writes objects of its own meanwhile, such as its Lease."""


class RecordedExchange(NamedTuple):
    """A recorded request and its response."""

    number: int
    label: str
    user: str
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int
    response: Any
    events: list[Any] | None
    """Of a watch that was not refused."""


def recorded_exchanges() -> list[RecordedExchange]:
    """Return the exchanges in order."""
    found = []
    for number, line in enumerate(FILE.read_text().splitlines()):
        one = json.loads(line)
        found.append(
            RecordedExchange(
                number,
                one["label"],
                one.get("as_") or "system:masters",
                one["method"],
                one["path"],
                one.get("request_headers") or {},
                one.get("request"),
                one["status"],
                one.get("response"),
                one.get("events"),
            )
        )
    return found


class Story:
    """Plays exchanges in order.

    Args:
        serve: serves a request with a bearer token that is the user's name.
    """

    def __init__(self, serve: Callable[[Request], Reply]) -> None:
        self._serve = serve
        self._ours: dict[str, str] = {_FUTURE: str(10**15)}
        """Our uid, version or token for each recorded one."""
        self._versions: dict[tuple[str, str], tuple[str, str]] = {}
        """By kind and name, the last recorded version and ours."""
        self._specs: dict[str, Any] = {}
        """By name, the spec of each pod as it was last read: it has our defaults, and a PUT changes none of it."""

    def watch(self, exchange: RecordedExchange) -> "PlayedWatch":
        """Begin a watch as recorded."""
        reply = self._serve(self._request(exchange))
        return PlayedWatch(exchange, reply)

    def play(self, exchange: RecordedExchange) -> list[str]:
        """Return the differences between the recorded response and ours."""
        reply = self._serve(self._request(exchange))
        assert isinstance(reply, Response)
        got = json.loads(reply.body) if reply.body[:1] == b"{" else reply.body.decode()
        return list(self._differences(exchange, reply.status, got))

    def _request(self, exchange: RecordedExchange) -> Request:
        path, _, query = exchange.path.partition("?")
        body = None if exchange.body is None else json.dumps(exchange.body)
        headers = {**exchange.headers, "Authorization": f"Bearer {exchange.user}"}
        fields = tuple((name, self._translated(value)) for name, value in parse_qsl(query, keep_blank_values=True))
        return Request(
            method=exchange.method,
            target=exchange.path,
            parts=tuple(unquote(part) for part in path.strip("/").split("/")),
            query=fields,
            headers=tuple((name.lower(), value) for name, value in headers.items()),
            body=self._body(body).encode(),
        )

    def _translated(self, text: str) -> str:
        return self._ours.get(text, text)

    def _body(self, text: str | None) -> str:
        if text is None:
            return ""
        try:
            body = self._with_ours(json.loads(text))
        except ValueError:
            return text
        if isinstance(body, dict) and "uid" in (body.get("metadata") or {}) and body.get("kind") == "Pod":
            body["spec"] = self._specs[body["metadata"]["name"]]
        return json.dumps(body)

    def _with_ours(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: self._translated(member)
                if name in _CHOSEN and isinstance(member, str)
                else self._with_ours(member)
                for name, member in value.items()
            }
        return [self._with_ours(each) for each in value] if isinstance(value, list) else value

    def _differences(self, exchange: RecordedExchange, status: int, got: Any) -> Iterator[str]:
        wanted = exchange.response
        if isinstance(wanted, dict) and _TEXT in wanted:
            wanted = wanted[_TEXT]
        if status != exchange.status:
            yield f"status {status}, recorded {exchange.status}: {str(got)[:300]}"
            return
        if not isinstance(wanted, dict) or not isinstance(got, dict):
            if isinstance(wanted, dict) or isinstance(got, dict) or (isinstance(wanted, str) and wanted != got):
                yield f"a body {str(got)[:200]!r}, recorded {str(wanted)[:200]!r}"
            return
        if got.get("kind") != wanted.get("kind"):
            yield f"kind {got.get('kind')}, recorded {wanted.get('kind')}"
            return
        if wanted.get("kind") == "Status" and wanted["status"] == "Failure":
            yield from self._differences_of_refusals(wanted, got)
        elif "items" in wanted:
            yield from self._differences_of_lists(wanted, got)
        elif "metadata" in wanted:
            yield from self._differences_of_objects(wanted, got)

    def _differences_of_refusals(self, wanted: Any, got: Any) -> Iterator[str]:
        self._learn(wanted.get("metadata") or {}, got.get("metadata") or {})
        for field in ("reason", "code"):
            if wanted.get(field) != got.get(field):
                yield f"{field} {got.get(field)!r}, recorded {wanted.get(field)!r}"
        message = re.sub(r"[-\w]+", lambda word: self._translated(word[0]), str(wanted.get("message")))
        ours = str(got.get("message"))
        learned, current = _CURRENT.search(message), _CURRENT.search(ours)
        if learned and current and int(current[0]) >= int(learned[0]):
            ours = ours.replace(current[0], learned[0])
        if message != ours:
            yield f"message {ours!r}, recorded {message!r}"

    def _differences_of_lists(self, wanted: Any, got: Any) -> Iterator[str]:
        self._learn(wanted["metadata"], got["metadata"])
        names = [[item["metadata"]["name"] for item in one["items"]] for one in (wanted, got)]
        if names[0] != names[1]:
            yield f"items {names[1]}, recorded {names[0]}"
        for field in ("continue", "remainingItemCount"):
            if (field in wanted["metadata"]) != (field in got["metadata"]):
                yield f"{field} in metadata: {got['metadata']}, recorded {wanted['metadata']}"
        for recorded, ours in zip(wanted["items"], got["items"], strict=False):
            self._learn(recorded["metadata"], ours["metadata"])

    def _differences_of_objects(self, wanted: Any, got: Any) -> Iterator[str]:
        new, ours = wanted["metadata"], got["metadata"]
        if wanted["kind"] == "Status":
            if got.get("details", {}).get("name") != wanted.get("details", {}).get("name"):
                yield f"details {got.get('details')}, recorded {wanted.get('details')}"
            return
        key = (wanted["kind"], str(new.get("name")))
        before = self._versions.get(key)
        if "resourceVersion" in new and "resourceVersion" in ours:
            now = (new["resourceVersion"], ours["resourceVersion"])
            if before is not None and (before[0] == now[0]) != (before[1] == now[1]):
                yield f"resourceVersion {now[1]} after {before[1]}, recorded {now[0]} after {before[0]}"
            self._versions[key] = now
        self._learn(new, ours)
        if got["kind"] == "Pod":
            self._specs[str(new["name"])] = got.get("spec")
        for field in _KEPT:
            if (new.get(field) or None) != (ours.get(field) or None):
                yield f"metadata.{field} {ours.get(field)!r}, recorded {new.get(field)!r}"
        if ("deletionTimestamp" in new) != ("deletionTimestamp" in ours):
            yield f"deletionTimestamp in {ours}, recorded {new}"
        yield from _differences_of_statuses(wanted.get("status"), got.get("status"))
        for field in ("data", "type", "reason", "count"):
            if wanted.get(field) != got.get(field):
                yield f"{field} {got.get(field)!r}, recorded {wanted.get(field)!r}"

    def _learn(self, wanted: Any, got: Any) -> None:
        for field in _CHOSEN:
            if wanted.get(field) and got.get(field):
                self._ours[str(wanted[field])] = str(got[field])


class PlayedWatch:
    """A watch that goes on beside the story until `differences` is called; its first events are there immediately.

    Args:
        exchange: as recorded.
        reply: ours.
    """

    def __init__(self, exchange: RecordedExchange, reply: Reply) -> None:
        self._exchange = exchange
        self._reply = reply
        self._lines: list[bytes] = []
        self._has_begun, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self._has_begun.wait()

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """Return whether the story is over, and all its events are sent (`Peer`). The first call ends the beginning."""
        self._has_begun.set()
        with select.epoll() as poll:
            if wake is not None:
                poll.register(wake, select.EPOLLIN)
            while seconds > 0:
                is_over = self._is_over.is_set()
                if poll.poll(0.0 if is_over else min(seconds, _LOOK)):
                    return False
                if is_over:
                    return True
                seconds -= _LOOK
        return False

    def _read(self) -> None:
        try:
            if isinstance(self._reply, Stream):
                self._lines = b"".join(self._reply.pieces(self)).splitlines()
        finally:
            self._has_begun.set()

    def differences(self) -> list[str]:
        """End the watch, and return the differences between the recorded events and ours, without bookmarks."""
        self._is_over.set()
        self._thread.join()
        if isinstance(self._reply, Response):
            return [f"status {self._reply.status}, recorded a watch: {self._reply.body.decode()[:300]}"]
        assert isinstance(self._reply, Stream)
        self._reply.done()
        recorded = [one["event"] for one in self._exchange.events or () if "event" in one]
        ours = [json.loads(line) for line in self._lines]
        return list(difflib.unified_diff(_shown_events(recorded), _shown_events(ours), "recorded", "ours", lineterm=""))


def _shown_events(events: list[Any]) -> list[str]:
    return [_shown_event(event) for event in events if event["type"] != "BOOKMARK"]


def _shown_event(event: Any) -> str:
    """Return an event as a line without what a server chooses."""
    obj = event["object"]
    if event["type"] == "ERROR":
        return f"ERROR {obj.get('reason', '')}"
    metadata = obj["metadata"]
    labels = ",".join(f"{name}={value}" for name, value in sorted((metadata.get("labels") or {}).items()))
    is_ending = " ends" if "deletionTimestamp" in metadata else ""
    return f"{event['type']} {obj['kind']} {metadata['name']} {labels}{is_ending}"


def _differences_of_statuses(wanted: Any, got: Any) -> Iterator[str]:
    if not isinstance(wanted, dict) or not isinstance(got, dict):
        return
    if wanted.get("phase") != got.get("phase"):
        yield f"status.phase {got.get('phase')!r}, recorded {wanted.get('phase')!r}"
    conditions = [{one["type"]: one["status"] for one in part.get("conditions") or ()} for part in (wanted, got)]
    if conditions[0] != conditions[1]:
        yield f"status.conditions {conditions[1]}, recorded {conditions[0]}"


def shown(differences: dict[str, list[str]]) -> str:
    """Return the differences as text, for a failed test."""
    return msgspec.json.format(msgspec.json.encode(differences), indent=1).decode()
