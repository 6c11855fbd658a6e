"""The runtime's stream of events in a replay: each time it is asked for it goes as it went that time.

How long edged waits before it asks again is drawn by lot, and how far apart it lists the runtime follows from when it
asked: it asks when it did.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeVar, cast

import msgspec
import pykka
from google.protobuf.json_format import ParseDict
from grpc import StatusCode

from beehive import Actor, Runtime
from beehive.trace import CriEvent
from edged.cri import errors
from edged.cri.recording_events import ENDED, KINDS, LISTENING, OPENED, Ended
from edged.module import Edged
from edged.pleg.listener import Listener
from edged.static_pods.directory import StaticPodDirectory
from protos.cri.v1 import api_pb2 as pb

A = TypeVar("A", bound=Actor)

STREAM: Final = frozenset({LISTENING, OPENED, ENDED, *KINDS.values()})
"""Kinds of records that are of the stream; others say what edged learnt."""

_NEVER: Final = 86400.0
"""Seconds to wait for a stream that was not asked for again."""


class RecordedEvents:
    """See the module's docstring.

    Args:
        actors: gives time, and futures to wait on.
        records: of the recorded run, in their order.
    """

    def __init__(self, actors: Runtime, records: Sequence[CriEvent]) -> None:
        self._actors = actors
        self._streams: list[list[CriEvent]] = []
        for record in records:
            if record.kind == LISTENING:
                self._streams.append([])
            elif record.kind in STREAM and self._streams:
                self._streams[-1].append(record)
        self._asked = [record.time for record in records if record.kind == LISTENING]
        self._next = 0

    def play(self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]) -> NoReturn:
        """The next stream, in the recorded time; one that was not asked for when it was recorded says nothing.

        Raises:
            CriError: what ended it then. Of a run from before there were events: that there are none.
        """
        if not self._streams:
            text = "the recorded run did not ask for events"
            raise errors.UnimplementedError("GetContainerEvents", "", StatusCode.UNIMPLEMENTED, text)
        at, self._next = self._next, self._next + 1
        for record in self._streams[at] if at < len(self._streams) else ():
            self._wait(record.time - self._actors.clock.monotonic())
            if record.kind == OPENED:
                opened()
            elif record.kind == ENDED:
                raise _error(record)
            else:
                happened(ParseDict(msgspec.json.decode(record.detail), pb.ContainerEventResponse()))
        self._actors.future().get()
        raise AssertionError

    def until_asked(self) -> float:
        """Seconds until the next stream was asked for; of one that never was so many that the run is over."""
        if self._next >= len(self._asked):
            return _NEVER
        return max(0.0, self._asked[self._next] - self._actors.clock.monotonic())

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            over = self._actors.future()
            self._actors.clock.after(seconds, over.set)
            over.get()


def listening(events: RecordedEvents, directory: type[StaticPodDirectory]) -> type[Edged]:
    """edged that asks for the stream when the recorded one did, and sees its static pods in `directory`."""

    class RecordedListener(Listener):
        """The listener as it is, but for how long it waits."""

        def wait(self) -> float:
            """See `Listener.wait`."""
            return events.until_asked()

    class ListeningEdged(Edged):
        """edged as it is, but for its listener and its directory of static pods."""

        def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
            """See `Module.start_actor`."""
            if actor_class is Listener:
                actor_class, name = cast("type[A]", RecordedListener), f"{self.name}/{Listener.__name__}"
            elif actor_class is StaticPodDirectory:
                actor_class, name = cast("type[A]", directory), f"{self.name}/{StaticPodDirectory.__name__}"
            return super().start_actor(actor_class, *args, name=name, **kwargs)

    return ListeningEdged


def _error(record: CriEvent) -> errors.CriError:
    ended = msgspec.json.decode(record.detail, type=Ended)
    kind = getattr(errors, ended.error, errors.CriError)
    code = StatusCode[ended.code] if ended.code else StatusCode.UNKNOWN
    return cast("errors.CriError", kind(ended.operation, "", code, ended.details))
