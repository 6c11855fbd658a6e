"""What the cloud knows of a kind of objects, kept up to date over its control socket."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from beehive.decoding import decode_json
from modules.apimachinery.kinds import JsonObject, kind_called
from modules.cli.errors import KubectlError
from modules.cli.rest import RestClient, object_path
from tests.support.patience import PATIENCE

Predicate = Callable[[JsonObject], bool]


class Mirror:
    """Follows one kind until the connection ends. A thread, because a blocking read of a socket has no other form.

    Keeps every state of every object it has seen, so that a test can say what must never have been.
    """

    def __init__(self, socket: Path, kind: str) -> None:
        self._kind = kind
        self._changed = threading.Condition()
        self._objects: dict[str, JsonObject] = {}
        self._states: dict[str, list[JsonObject]] = {}
        self._history: dict[str, list[JsonObject]] = {}
        threading.Thread(target=self._follow, args=(socket,), name=f"mirror/{kind}", daemon=True).start()

    def wait(self, name: str, predicate: Predicate, seconds: float = PATIENCE) -> JsonObject:
        """The object as soon as the predicate holds; the assertion error shows it as it was at the deadline.

        From the present state on none is missed: a short-lived one counts although this thread comes late.
        """
        with self._changed:
            states = self._states.setdefault(name, [])
            looked = len(states) - (name in self._objects)

            def first() -> JsonObject | None:
                nonlocal looked
                new, looked = states[looked:], len(states)
                return next(filter(predicate, new), None)

            found = self._changed.wait_for(first, timeout=seconds)
            assert found, f"{self._kind} {name} did not get there in {seconds:g} s: {self._objects.get(name)}"
            return found

    def wait_any(self, predicate: Predicate, what: str, seconds: float = PATIENCE) -> JsonObject:
        """Any object that matches the predicate, as soon as it exists."""
        with self._changed:
            held = self._changed.wait_for(lambda: any(map(predicate, self._objects.values())), timeout=seconds)
            assert held, f"no {what} in {seconds:g} s: {list(self._objects.values())}"
            return next(obj for obj in self._objects.values() if predicate(obj))

    def objects(self) -> list[JsonObject]:
        """All of them."""
        with self._changed:
            return list(self._objects.values())

    def wait_gone(self, name: str, seconds: float = PATIENCE) -> None:
        """Return once such an object has existed and is gone."""
        with self._changed:
            gone = self._changed.wait_for(lambda: name in self._history and name not in self._objects, timeout=seconds)
            assert gone, f"{self._kind} {name} is still there after {seconds:g} s: {self._objects.get(name)}"

    def history(self, name: str) -> list[JsonObject]:
        """All states that were seen of an object, the oldest first."""
        with self._changed:
            return list(self._history.get(name, []))

    def forget(self) -> None:
        """Keep nothing but the objects as they are now."""
        with self._changed:
            self._states = {name: [obj] for name, obj in self._objects.items()}
            self._history = {name: [obj] for name, obj in self._objects.items()}

    def _follow(self, socket: Path) -> None:
        with suppress(KubectlError):  # the cloud is gone; what it said last stays
            for line in RestClient(socket).lines(object_path(kind_called(self._kind)), (("watch", "true"),)):
                event = decode_json(line)
                self._take(event["type"], event["object"])

    def _take(self, change: str, obj: JsonObject) -> None:
        name = obj["metadata"]["name"]
        with self._changed:
            self._history.setdefault(name, []).append(obj)
            if change == "DELETED":
                self._objects.pop(name, None)
            else:
                self._objects[name] = obj
                self._states.setdefault(name, []).append(obj)
            self._changed.notify_all()
