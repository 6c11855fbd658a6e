"""Tests of modules in virtual time: `Harness` runs one module, `FakeContext` a part of one."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import msgspec
import pykka

from beehive.actor import Actor
from beehive.clock import Timer
from beehive.delivery import DeliveryMode, Tap
from beehive.errors import ContentError
from beehive.hive import Hive
from beehive.message import Message
from beehive.module import Module
from beehive.runtime import Future
from beehive.simulation import Simulation

A = TypeVar("A", bound=Actor)
Answerer = Callable[[Message], Message | None]


class SentMessage(NamedTuple):
    """A message that left the module under test."""

    destination: str
    """Name of a module or group."""
    message: Message
    mode: DeliveryMode


class SentContents:
    """The contents of messages as they were sent.

    A content is an object that the sender, the receiver and the recorder share, each on its own thread: nobody may
    change it once it is sent.

    Args:
        most: of the newest messages that are kept; an older one is looked at for the last time when it is left out.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._sent: deque[tuple[Message, bytes]] = deque()

    def record(self, message: Message) -> None:
        """Note the content of a message that is being sent; one without a JSON form is not looked at."""
        if isinstance(message.content, msgspec.Raw | str | bytes | None):
            return
        with suppress(ContentError):
            self._sent.append((message, bytes(message.content_raw())))
        if len(self._sent) > self._most:
            _demand_unchanged(*self._sent.popleft())

    def check(self) -> None:
        """Demand that all contents are as they were."""
        while self._sent:
            _demand_unchanged(*self._sent.popleft())


def _demand_unchanged(message: Message, content: bytes) -> None:
    route, now = message.route, bytes(message.content_raw())
    if now != content:
        raise AssertionError(f"{route.operation} {route.resource} of {route.source} was changed after it was sent")


class FakeContext:
    """A `ModuleContext` without a module: all functions are called by a simulation, in virtual time.

        context = FakeContext()
        deadlines = Deadlines(context)
        context.simulation.run_for(30.0)

    Args:
        seed: of the simulation.
    """

    def __init__(self, seed: int = 0) -> None:
        self.simulation = Simulation(seed)
        self.runtime = self.simulation
        self.clock = self.simulation.clock

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Set a timer, as `Module.after` does."""
        return self.clock.after(seconds, function)

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Set a periodic timer, as `Module.every` does."""
        return self.clock.every(seconds, function, jitter=jitter)

    def call_soon(self, function: Callable[[], None], name: str = "", since: float | None = None) -> None:  # noqa: ARG002
        """Call `function` in the simulation, as `Module.call_soon` does."""
        self.clock.after(0.0, function)

    def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
        """Start an actor, as `Module.start_actor` does; only the actor itself stops it."""
        return self.simulation.start(actor_class, *args, name=name, **kwargs).ref


class HarnessHive(Hive):
    """A hive that notes the failures of its modules."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._failures: list[str] = []
        self._expected: tuple[str, ...] = ()

    def module_failed(self, name: str, error: BaseException) -> None:
        """Note the failure, besides what a hive does."""
        self._failures.append(f"{name}: {type(error).__name__}: {error}")
        super().module_failed(name, error)

    def expect_failures(self, text: str) -> None:
        """Expect failures whose description has a text."""
        self._expected = (*self._expected, text)

    def check_failures(self) -> None:
        """Demand that no module has failed, but as expected.

        Raises:
            AssertionError: has the names and the errors.
        """
        wrong = [each for each in self._failures if not any(text in each for text in self._expected)]
        if wrong:
            raise AssertionError(f"modules have failed; see Harness.expect_failures: {'; '.join(wrong)}")


class Harness:
    """A hive in simulation, for one module, that captures all messages to modules and groups that it does not have. At
    the end it demands that nobody has changed their contents, and that no module has failed: the bus starts a failed
    module again, so a test may pass in spite of it. A test that makes modules fail calls `expect_failures`.

        with Harness() as bee:
            bee.start(MetaManager, store)
            bee.send("metamanager", bee.message("default/pod/nginx", "insert", pod))
            assert bee.sent_to("edged")[0].route.operation == "insert"

    Args:
        seed: of the simulation.
        taps: as in `Hive`.
    """

    def __init__(self, seed: int = 0, taps: tuple[Tap, ...] = ()) -> None:
        self.simulation = Simulation(seed)
        self.clock = self.simulation.clock
        self.hive = HarnessHive(self.simulation, taps=taps, outside=self._capture)
        self.sent: list[SentMessage] = []
        self._contents = SentContents()
        self._answerers: dict[str, Answerer] = {}
        self.checks_at_rest: list[Callable[[], object]] = []
        """Called whenever nothing is left to do before the next timer."""

    def __enter__(self) -> "Harness":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.hive.stop()
        self.settle()  # requests that waited for the modules end
        if error is None:
            self._contents.check()
            self.hive.check_failures()

    def expect_failures(self, text: str = "") -> None:
        """Accept at the end that modules have failed: in any way, or only with a text in `NAME: TYPE: ERROR`."""
        self.hive.expect_failures(text)

    def add(self, module: type[Module], *args: Any, **kwargs: Any) -> None:
        """Add the module under test (or several)."""
        self.hive.add(module, *args, **kwargs)

    def start(self, module: type[Module] | None = None, *args: Any, **kwargs: Any) -> None:
        """Add a module, if one is given, start the hive, and settle."""
        if module is not None:
            self.add(module, *args, **kwargs)
        self.hive.start()
        self.settle()

    def settle(self) -> None:
        """Run until nothing is left to do before the next timer."""
        self.simulation.run_until_idle()
        self._check_rest()

    def run_for(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass."""
        self.simulation.run_for(seconds)
        self._check_rest()

    def _check_rest(self) -> None:
        for check in self.checks_at_rest:
            check()

    def message(self, resource: str, operation: str, content: Any = None, **fields: Any) -> Message:
        """Make a message; `fields` as in `Message.new` (`source` is `test` unless given)."""
        fields.setdefault("source", "test")
        return Message.new(self.clock, resource=resource, operation=operation, content=content, **fields)

    def send(self, destination: str, message: Message, wait: float = 0.0) -> None:
        """Send to the module and settle; let `wait` seconds of virtual time pass."""
        self.hive.send(destination, message)
        self.settle()
        if wait:
            self.run_for(wait)

    def respond(self, answer: Message, wait: float = 0.0) -> None:
        """Give a module the answer to its request and settle; let `wait` seconds of virtual time pass."""
        self.hive.respond(answer)
        self.settle()
        if wait:
            self.run_for(wait)

    def ask(self, destination: str, message: Message, seconds: float = 60.0) -> Message:
        """Send a request, run until it is answered, and return the answer."""
        answer: Message = self.future(destination, message, seconds).get()
        return answer

    def future(self, destination: str, message: Message, seconds: float = 60.0) -> Future[Message]:
        """Send a request and return the future of the answer immediately."""
        return self.hive.request(destination, message, seconds)

    def answer(self, destination: str, answerer: Answerer) -> None:
        """Answer requests to an absent module by `answerer`, which returns the answer, or None for no answer."""
        self._answerers[destination] = answerer

    def sent_to(self, destination: str) -> list[Message]:
        """Return the messages to an absent module or group, oldest first."""
        return [sent.message for sent in self.sent if sent.destination == destination]

    def forget(self) -> None:
        """Forget the captured messages."""
        self.sent.clear()

    def _capture(self, destination: str, message: Message, mode: DeliveryMode) -> bool:
        self.sent.append(SentMessage(destination, message, mode))
        self._contents.record(message)
        answerer = self._answerers.get(destination)
        answer = answerer(message) if answerer is not None else None
        if answer is not None:
            self.clock.after(0, lambda: self._respond(answer))
        return True

    def _respond(self, answer: Message) -> None:
        self.hive.respond(answer)
