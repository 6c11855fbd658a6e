"""A test bed for the bus: the same test on threads in real time, and in simulation on virtual time."""

import threading
from collections.abc import Callable
from typing import Any

import pykka

from beehive import Hive, Message, Module, Runtime, Threads
from beehive.simulation import Simulation

_POLL = 0.002


class Bed:
    """A runtime, the hives that a test makes on it, and a way to wait that suits it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.clock = runtime.clock
        self.real = isinstance(runtime, Threads)
        self._hives: list[Hive] = []
        self._threads = set(threading.enumerate())
        self._actors = set(pykka.ActorRegistry.get_all())

    def hive(self, **options: Any) -> Hive:
        """A hive that is stopped after the test."""
        hive = Hive(self.runtime, **options)
        self._hives.append(hive)
        return hive

    def started(self, module: type[Module], *args: Any) -> Hive:
        """A hive with a module that has started."""
        hive = self.hive()
        hive.add(module, *args)
        hive.start()
        return hive

    def message(self, resource: str = "default/pod/a", operation: str = "insert", content: Any = None) -> Message:
        """A new message as if from outside."""
        return Message.new(self.clock, source="test", resource=resource, operation=operation, content=content)

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until `condition()`; a failed assertion when it is not so within `seconds` of the runtime's time."""
        if isinstance(self.runtime, Simulation):
            assert self.runtime.scheduler.wait_until(condition, seconds), "not so in virtual time"
            return
        never, deadline = threading.Event(), self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < deadline, "not so in time"
            never.wait(_POLL)

    def on_the_clock(self, function: Callable[[], Any]) -> Any:
        """What `function` returns, run as a timer is: no other fires meanwhile, though the machine stand still."""
        returned: list[Any] = []
        self.clock.after(0, lambda: returned.append(function()))
        self.until(lambda: bool(returned))
        return returned[0]

    def close(self) -> None:
        """Stop the hives and the runtime."""
        for hive in self._hives:
            hive.stop()
        if isinstance(self.runtime, Simulation):
            self.runtime.run_until_idle()
        self.runtime.close()

    def leftovers(self) -> list[str]:
        """What still runs of what was started since the bed was made."""
        left = []
        if isinstance(self.runtime, Simulation):
            left += [repr(one) for one in self.runtime.scheduler.alive()]
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(60.0)
            left += [thread.name] if thread.is_alive() else []
        return left + [str(ref) for ref in pykka.ActorRegistry.get_all() if ref not in self._actors]


class Log:
    """What modules of a test noted, in order; may be written by any thread."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def __call__(self, entry: Any) -> None:
        self.entries.append(entry)

    def __len__(self) -> int:
        return len(self.entries)
