"""The base of everything that runs: a pykka actor whose thread, inbox, futures and time come from a runtime.

Pykka's own hooks (`_create_actor_inbox`, `_create_future`, `_start_actor_loop`) are bound to a runtime when the
actor is started, so one class runs as a thread in production and as a greenlet in simulation.
"""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import pykka

from beehive.errors import NotStartedError

if TYPE_CHECKING:
    from beehive.clock import Clock
    from beehive.runtime import Future, Runtime

_HINT = "start actors with Runtime.start or Module.start_actor"


class Actor(pykka.Actor):
    """An actor without a place on the bus: a worker, a watcher, a part of a module.

    When one of its messages raises, it stops and tells whoever started it (`failed`), who decides what goes on.
    """

    runtime: ClassVar["Runtime"]
    """Bound when it is started."""

    ended: ClassVar["Future[None]"]
    """Bound when it is started: settled when its loop is through."""

    failed: ClassVar[Callable[[BaseException], None]] = staticmethod(lambda _error: None)
    """Bound when it is started: told of the exception that stopped the actor."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__()

    @property
    def clock(self) -> "Clock":
        """Time and randomness."""
        return self.runtime.clock

    @staticmethod
    def _create_actor_inbox() -> Any:
        raise NotStartedError("cannot create an actor", hint=_HINT)

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        raise NotStartedError("cannot create an actor", hint=_HINT)

    def _start_actor_loop(self) -> None:
        raise NotStartedError("cannot start an actor", hint=_HINT)

    def _actor_loop(self) -> None:
        try:
            super()._actor_loop()
        finally:
            self.ended.set()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,  # noqa: ARG002 - pykka's signature
        exception_value: BaseException | None,
        traceback: TracebackType | None,  # noqa: ARG002
    ) -> None:
        """Tell whoever started this actor."""
        if exception_value is not None:
            type(self).failed(exception_value)
