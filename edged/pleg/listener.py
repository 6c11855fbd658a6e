"""The actor that receives the runtime's events."""

import contextlib
import logging
from typing import Any

import pykka

from beehive import Actor
from beehive.backoff import Backoff
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import ConnectionClosedError, CriError, UnavailableError, UnimplementedError
from edged.pleg.hints import Hints
from edged.pleg.messages import HintAdded, StreamBroke, StreamEvent, StreamOpened, StreamRequested
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

FIRST_WAIT = 1.0
"""First upper limit of the wait before a broken stream is opened again, in seconds. It doubles each time; the wait is
drawn with full jitter.
"""
LONGEST_WAIT = 30.0
"""Largest upper limit, in seconds. After a stream that lasted longer the limit is `FIRST_WAIT` again."""


class _Listen:
    """Open the stream."""


class Listener(Actor):
    """The actor that receives the runtime's events, which blocks its thread, and notes them in `Hints`.

    It never inspects a pod, and wakes the PLEG only for a new hint. `edged` stops it by closing the runtime's client.

    Args:
        runtime: sends the events.
        hints: collects them.
        pleg: takes messages.
    """

    def __init__(self, runtime: ContainerRuntime, hints: Hints, pleg: pykka.ActorRef[Any]) -> None:
        super().__init__()
        self._runtime = runtime
        self._hints = hints
        self._pleg = pleg
        self._backoff = Backoff(FIRST_WAIT, LONGEST_WAIT)

    def on_start(self) -> None:
        """Open the stream immediately."""
        self.actor_ref.tell(_Listen())

    def on_receive(self, message: object) -> None:
        """Receive events until the stream ends."""
        if not isinstance(message, _Listen):
            return
        begin = self.clock.monotonic()
        self._send(StreamRequested())
        try:
            self._runtime.container_events(lambda: self._send(StreamOpened()), self._on_event)
        except ConnectionClosedError:
            return
        except UnimplementedError:
            _log.info("the runtime sends no events: it is relisted periodically instead")
            self._send(StreamBroke())
        except CriError as error:
            self._broke(error, begin)

    def _broke(self, error: CriError, begin: float) -> None:
        self._send(StreamBroke())
        if self.clock.monotonic() - begin > LONGEST_WAIT:
            self._backoff.reset()
        if not self._backoff.failures and not isinstance(error, UnavailableError):
            _log.warning("no events from the runtime: it is relisted periodically until they resume: %s", error)
        self.clock.after(self.wait(), self._reopen)

    def wait(self) -> float:
        """Return a random wait before the stream is opened again, in seconds; a replay overrides it with the recorded
        one.
        """
        return self._backoff.next(self.clock.random)

    def _reopen(self) -> None:
        with contextlib.suppress(pykka.ActorDeadError):
            self.actor_ref.tell(_Listen())

    def _on_event(self, event: cri.ContainerEventResponse) -> None:
        if self._hints.add_event(event, self.clock.monotonic()):
            self._send(HintAdded())

    def _send(self, event: StreamEvent) -> None:
        """Send a message to the PLEG, which may have ended a moment before when edged stops."""
        with contextlib.suppress(pykka.ActorDeadError):
            self._pleg.tell(event)
