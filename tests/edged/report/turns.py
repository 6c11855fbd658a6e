"""metamanager's client as the reporters see it, answered by hand: what is under way stays so until the test says."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec

from beehive.clock import Timer
from beehive.simulation import Simulation, VirtualClock
from metamanager.client import MetaTurnClient, NotFoundError, RejectedError, Status


class Question(NamedTuple):
    """A question that has not been answered."""

    operation: str
    kind: str
    name: str
    value: Any
    then: Callable[[Any], None]


class Turns:
    """Asks nobody and remembers; also the module whose timers the reporters use."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.clock: VirtualClock = self.simulation.scheduler.clock
        self.open: list[Question] = []

    @property
    def client(self) -> MetaTurnClient:
        """Itself, as what it stands for."""
        return cast("MetaTurnClient", self)

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """As `Module.after`."""
        return self.clock.after(seconds, function)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.simulation.run_for(seconds)

    def asked(self) -> list[str]:
        """What is under way: operation and kind."""
        return [f"{question.operation} {question.kind}" for question in self.open]

    def answer(self, answer: Any) -> Question:
        """Answer what was asked first; an object becomes the JSON text that the client gives."""
        question = self.open.pop(0)
        question.then(msgspec.json.encode(answer) if isinstance(answer, dict) else answer)
        return question

    def get(self, kind: str, namespace: str, name: str, *, then: Callable[[Any], None]) -> None:
        self.open.append(Question("get", kind, name, None, then))

    def delete(self, kind: str, namespace: str, name: str, value: bytes, *, then: Callable[[Any], None]) -> None:
        self.open.append(Question("delete", kind, name, msgspec.json.decode(value), then))

    def patch(self, kind: str, namespace: str, name: str, value: str, *, then: Callable[[Any], None]) -> None:
        self.open.append(Question("patch", kind, name, msgspec.json.decode(value), then))

    def create(self, kind: str, namespace: str, name: str, value: bytes, *, then: Callable[[Any], None]) -> None:
        self.open.append(Question("create", kind, name, msgspec.json.decode(value), then))

    def update(self, kind: str, namespace: str, name: str, value: bytes, *, then: Callable[[Any], None]) -> None:
        self.open.append(Question("update", kind, name, msgspec.json.decode(value), then))


def rejected(code: int, kind: type[RejectedError] = RejectedError) -> RejectedError:
    """A refusal of the cloud."""
    return kind("ask", "it", Status(code=code), retryable=code >= 500)


NOT_FOUND = rejected(404, NotFoundError)
