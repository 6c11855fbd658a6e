"""metamanager's client as the reporters see it, answered by hand: what is under way stays so until the test says."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec

from beehive.testing import FakeContext
from metamanager.client import AsyncMetaClient, NotFoundError, RejectedError, Status


class OpenRequest(NamedTuple):
    """A request that has not been answered."""

    operation: str
    kind: str
    name: str
    value: Any
    then: Callable[[Any], None]


class MetaRequests(FakeContext):
    """Asks nobody and remembers; also the module whose timers the reporters use."""

    def __init__(self) -> None:
        super().__init__(1)
        self.open: list[OpenRequest] = []

    @property
    def client(self) -> AsyncMetaClient:
        """Itself, as what it stands for."""
        return cast("AsyncMetaClient", self)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.simulation.run_for(seconds)

    def asked(self) -> list[str]:
        """What is under way: operation and kind."""
        return [f"{request.operation} {request.kind}" for request in self.open]

    def answer(self, answer: Any) -> OpenRequest:
        """Answer what was asked first; an object becomes the JSON text that the client gives."""
        request = self.open.pop(0)
        request.then(msgspec.json.encode(answer) if isinstance(answer, dict) else answer)
        return request

    def get(self, kind: str, namespace: str, name: str, *, then: Callable[[Any], None]) -> None:
        self.open.append(OpenRequest("get", kind, name, None, then))

    def delete(self, kind: str, namespace: str, name: str, value: bytes, *, then: Callable[[Any], None]) -> None:
        self.open.append(OpenRequest("delete", kind, name, msgspec.json.decode(value), then))

    def patch(self, kind: str, namespace: str, name: str, value: str, *, then: Callable[[Any], None]) -> None:
        self.open.append(OpenRequest("patch", kind, name, msgspec.json.decode(value), then))

    def create(self, kind: str, namespace: str, name: str, value: bytes, *, then: Callable[[Any], None]) -> None:
        self.open.append(OpenRequest("create", kind, name, msgspec.json.decode(value), then))

    def update(self, kind: str, namespace: str, name: str, value: bytes, *, then: Callable[[Any], None]) -> None:
        self.open.append(OpenRequest("update", kind, name, msgspec.json.decode(value), then))


def rejected(code: int, kind: type[RejectedError] = RejectedError) -> RejectedError:
    """A refusal of the cloud."""
    return kind("ask", "it", Status(code=code), retryable=code >= 500)


NOT_FOUND = rejected(404, NotFoundError)
