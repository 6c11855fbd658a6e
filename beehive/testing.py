"""One module alone on a hive, in virtual time, with everything it sends captured. Public: authors of modules test with
it.

with Harness() as bee:
    bee.add(MetaManager, store)
    bee.start()
    bee.send("metamanager", bee.message("default/pod/nginx", "insert", pod))
    assert bee.sent_to("edged")[0].route.operation == "insert"
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

from beehive.delivery import Tap, Way
from beehive.hive import Hive
from beehive.message import Message
from beehive.module import Module
from beehive.runtime import Future
from beehive.simulation import Simulation

Answerer = Callable[[Message], Message | None]


class Sent(NamedTuple):
    """A message that left the module under test."""

    destination: str
    """Module or group."""
    message: Message
    way: Way


class Harness:
    """A hive in simulation that captures what goes to modules it does not have.

    Args:
        seed: of the simulation.
        taps: as in `Hive`.
    """

    def __init__(self, seed: int = 0, taps: tuple[Tap, ...] = ()) -> None:
        self.simulation = Simulation(seed)
        self.clock = self.simulation.clock
        self.hive = Hive(self.simulation, taps=taps, outside=self._capture)
        self.sent: list[Sent] = []
        self._answerers: dict[str, Answerer] = {}

    def __enter__(self) -> "Harness":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.hive.stop()

    def add(self, module: type[Module], *args: Any, **kwargs: Any) -> None:
        """Add the module under test (or several)."""
        self.hive.add(module, *args, **kwargs)

    def start(self) -> None:
        """Start it and let it come to rest."""
        self.hive.start()
        self.settle()

    def settle(self) -> None:
        """Run until nothing can go on without time passing."""
        self.simulation.run_until_idle()

    def run_for(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass."""
        self.simulation.run_for(seconds)

    def message(self, resource: str, operation: str, content: Any = None, **fields: Any) -> Message:
        """A message as if from outside; `fields` as in `Message.new` (`source` is `test` unless given)."""
        fields.setdefault("source", "test")
        return Message.new(self.clock, resource=resource, operation=operation, content=content, **fields)

    def send(self, destination: str, message: Message) -> None:
        """Send to the module and let it come to rest."""
        self.hive.send(destination, message)
        self.settle()

    def ask(self, destination: str, message: Message, seconds: float = 60.0) -> Message:
        """Send a request and run until it is answered."""
        answer: Message = self.future(destination, message, seconds).get()
        return answer

    def future(self, destination: str, message: Message, seconds: float = 60.0) -> Future[Message]:
        """Send a request and go on at once."""
        return self.hive.request(destination, message, seconds)

    def answer(self, destination: str, answerer: Answerer) -> None:
        """Answer requests to an absent module: `answerer` makes the answer, or None for silence."""
        self._answerers[destination] = answerer

    def sent_to(self, destination: str) -> list[Message]:
        """What was sent to an absent module or group, oldest first."""
        return [sent.message for sent in self.sent if sent.destination == destination]

    def forget(self) -> None:
        """Forget what was captured so far."""
        self.sent.clear()

    def _capture(self, destination: str, message: Message, way: Way) -> bool:
        self.sent.append(Sent(destination, message, way))
        answerer = self._answerers.get(destination)
        answer = answerer(message) if answerer is not None else None
        if answer is not None:
            self.clock.after(0, lambda: self._respond(answer))
        return True

    def _respond(self, answer: Message) -> None:
        self.hive.respond(answer)
