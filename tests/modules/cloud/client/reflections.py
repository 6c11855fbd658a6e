"""A reflector under test behind the decoder of HTTP responses, and an index built from its changes."""

import json
import random
from collections.abc import Iterable
from typing import Any

from modules.apimachinery.kinds import kind_named
from modules.cloud.client.http.collection_response import CollectionResponse
from modules.cloud.client.http.kube_api import collection_request
from modules.cloud.client.reflector.effects import (
    Added,
    Change,
    Deleted,
    EpochChanged,
    Modified,
    ReflectorEffect,
    StartRequest,
    WakeReflectorAt,
)
from modules.cloud.client.reflector.observations import Observation
from modules.cloud.client.reflector.reflector import Reflector
from modules.cloud.client.reflector.selection import Selection, WatchRequest
from modules.cloud.client.transport import ResponseHead

Row = tuple[str, ...]
"""Name, uid, version, and perhaps content of an object."""


def body_of(row: Row, **more: Any) -> dict[str, Any]:
    """An object in the namespace `default`."""
    name, uid, version, *content = row
    metadata = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version}
    return {"metadata": metadata, **({"é": content[0]} if content else {}), **more}


def page(version: str, *rows: Row, following: str = "") -> bytes:
    """A page of a list of pods."""
    metadata = {"resourceVersion": version} | ({"continue": following} if following else {})
    items = [body_of(row) for row in rows]
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}).encode()


def event(type_: str, row: Row, **more: Any) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": type_, "object": body_of(row, **more)}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    """A line of a watch that names a version only."""
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}).encode() + b"\n"


def status(code: int, message: str = "") -> bytes:
    """A Status."""
    return json.dumps({"kind": "Status", "status": "Failure", "message": message, "code": code}).encode()


def error_event(code: int, message: str = "") -> bytes:
    """A line of a watch that ends it."""
    return b'{"type":"ERROR","object":' + status(code, message) + b"}\n"


class Index:
    """The objects as the changes tell of them; asserts that each change fits to those before."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, ...]] = {}
        """By name: uid, version and content."""
        self.log: list[str] = []
        self._of_epoch_before: set[str] = set()
        """Names of objects that were not told of since the versions went back."""

    def take(self, effects: Iterable[object]) -> None:
        """Apply the changes among some effects."""
        for effect in effects:
            if isinstance(effect, Change):
                self._apply(effect)
                self._of_epoch_before.discard(effect.object.name)
            elif isinstance(effect, EpochChanged):
                self._of_epoch_before = set(self.objects)

    def _apply(self, change: Change) -> None:
        one = change.object
        known = self.objects.get(one.name)
        if isinstance(change, Added):
            assert known is None, change
        elif isinstance(change, Modified):
            assert known is not None, change
            assert known[0] == one.uid, change
            assert known[1] != one.resource_version or one.name in self._of_epoch_before, change
        else:
            assert known is not None, change
            assert known[0] == one.uid, change
        if isinstance(change, Deleted):
            del self.objects[one.name]
        else:
            content = json.loads(one.body).get("é")
            self.objects[one.name] = one.uid, one.resource_version, *([] if content is None else [content])
        self.log.append(f"{type(change).__name__} {one.name} {one.uid} {one.resource_version}")


class Reflection:
    """A reflector whose effects are kept: the request under way, the time to wake, the index."""

    def __init__(self, selection: Selection | None = None, seed: int = 0) -> None:
        self.now = 1000.0
        self.reflector = Reflector(selection or Selection(kind=kind_named("Pod")), random.Random(seed))  # noqa: S311
        self.index = Index()
        self.number = 0
        self.path = ""
        """Of the last request."""
        self.wake_at = 0.0
        self.effects: list[ReflectorEffect] = []
        """Of the last input."""
        self.take(self.reflector.start(self.now))

    def take(self, effects: list[ReflectorEffect]) -> None:
        """Keep the effects of an input."""
        self.effects = effects
        self.index.take(effects)
        for effect in effects:
            if isinstance(effect, StartRequest):
                self.number, self.path = effect.number, collection_request(effect.request).path
                self._response = CollectionResponse(is_watch=isinstance(effect.request, WatchRequest))
            elif isinstance(effect, WakeReflectorAt):
                self.wake_at = effect.time

    def head(self, status_: int = 200, **headers: str) -> None:
        """Hand in the beginning of a response."""
        fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        self._response.on_head(ResponseHead(status_, fields))

    def data(self, *pieces: bytes) -> None:
        """Hand in pieces of the response's body."""
        response = self._response
        self._observe(observation for piece in pieces for observation in response.on_data(piece))

    def end(self) -> None:
        """Hand in the response's end."""
        self._observe(self._response.on_end())

    def error(self, why: str = "the connection was closed") -> None:
        """Hand in an error of the transport."""
        self._observe(self._response.on_error(OSError(why)))

    def _observe(self, observations: Iterable[Observation]) -> None:
        number, found = self.number, list[ReflectorEffect]()
        for observation in observations:
            found += self.reflector.on_observation(number, observation, self.now)
        self.take(found)

    def wake(self, after: float | None = None) -> None:
        """Let time pass, until the time to wake or for some seconds, and say so."""
        self.now = self.wake_at if after is None else self.now + after
        self.take(self.reflector.on_wake(self.now))

    def answer(self, body: bytes, status_: int = 200, **headers: str) -> None:
        """Hand in a whole response."""
        self.head(status_, **headers)
        self.data(body)
        read = self.effects
        self.end()
        self.effects = [*read, *self.effects]

    def synced(self, version: str, *rows: Row) -> "Reflection":
        """List some objects; the watch has begun."""
        self.answer(page(version, *rows))
        self.head()
        return self

    def of(self, kind: type[Any]) -> list[Any]:
        """The effects of a kind of the last input."""
        return [effect for effect in self.effects if isinstance(effect, kind)]
