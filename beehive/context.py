"""`ModuleContext`: the services that a module gives to its parts."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pykka

from beehive.actor import Actor
from beehive.clock import Clock, Timer

if TYPE_CHECKING:
    from beehive.runtime import Runtime

A = TypeVar("A", bound=Actor)


class ModuleContext(Protocol):
    """The services that a module gives to its parts: its clock, its timers, its thread and its actors.

    `Module` implements it. A part that takes a `ModuleContext` is tested without a module and without a hive, on a
    `beehive.testing.FakeContext`.

        class Deadlines:
            def __init__(self, context: ModuleContext) -> None:
                self._timer = context.after(30.0, self._expired)
    """

    @property
    def clock(self) -> Clock:
        """Time and randomness."""

    @property
    def runtime(self) -> "Runtime":
        """Starts actors that may outlive the module, makes futures, and calls functions that block (`Runtime.call`)."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call `function` once on the module's thread, `seconds` from now."""

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Call `function` on the module's thread every `seconds`, each period longer by up to `jitter` of itself."""

    def call_soon(self, function: Callable[[], None], name: str = "", since: float | None = None) -> None:
        """Call `function` on the module's thread. May be called from any thread. See `Module.call_soon`."""

    def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
        """Start an actor that stops with the module, and whose failure is the module's."""
