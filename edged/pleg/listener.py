"""The actor that waits for the runtime's events. It does nothing else, for waiting is all that its thread can do.

It never looks at a pod: it notes what was heard (`Hints`) and wakes the PLEG when that is news.
"""

import contextlib
import logging
from collections.abc import Callable

import pykka

from beehive import Actor
from beehive.backoff import Backoff
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import ConnectionClosedError, CriError, UnimplementedError
from edged.pleg.hints import Hints
from edged.pleg.messages import Heard, StreamAsked, StreamBroke, StreamNews, StreamOpened
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

FIRST_WAIT = 1.0
"""Ceiling in seconds of the wait before a stream that ended is opened again; it doubles, and is drawn with full
jitter."""
LONGEST_WAIT = 30.0
"""Ceiling that is never passed. A stream that lasted for longer than this begins with `FIRST_WAIT` again."""


class _Listen:
    """Open the stream."""


class Listener(Actor):
    """See the module's docstring. `edged` ends it by closing the runtime's client.

    Args:
        runtime: whose events.
        hints: where they are noted.
        tell: takes what the PLEG has to know; must not block.
    """

    def __init__(self, runtime: ContainerRuntime, hints: Hints, tell: Callable[[StreamNews], None]) -> None:
        super().__init__()
        self._runtime = runtime
        self._hints = hints
        self._pleg = tell
        self._backoff = Backoff(FIRST_WAIT, LONGEST_WAIT)

    def on_start(self) -> None:
        """Listen at once."""
        self.actor_ref.tell(_Listen())

    def on_receive(self, message: object) -> None:
        """Listen until there is nothing to hear any more."""
        if not isinstance(message, _Listen):
            return
        begin = self.clock.monotonic()
        self._tell(StreamAsked())
        try:
            self._runtime.container_events(lambda: self._tell(StreamOpened()), self._hear)
        except ConnectionClosedError:
            return
        except UnimplementedError:
            _log.info("the runtime has no events: it is listed every period instead")
            self._tell(StreamBroke())
        except CriError as error:
            self._broke(error, begin)

    def _broke(self, error: CriError, begin: float) -> None:
        self._tell(StreamBroke())
        if self.clock.monotonic() - begin > LONGEST_WAIT:
            self._backoff.reset()
        if not self._backoff.failures:
            _log.warning("no events from the runtime, it is listed every period until there are: %s", error)
        self.clock.after(self.wait(), self._listen_again)

    def wait(self) -> float:
        """Seconds until the stream is asked for again, by lot; a replay knows how long it was."""
        return self._backoff.next(self.clock.random)

    def _listen_again(self) -> None:
        with contextlib.suppress(pykka.ActorDeadError):
            self.actor_ref.tell(_Listen())

    def _hear(self, event: cri.ContainerEventResponse) -> None:
        if self._hints.hear(event, self.clock.monotonic()):
            self._tell(Heard())

    def _tell(self, news: StreamNews) -> None:
        """The PLEG may have ended a moment before, when edged stops."""
        with contextlib.suppress(pykka.ActorDeadError):
            self._pleg(news)
