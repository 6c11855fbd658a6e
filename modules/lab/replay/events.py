"""The runtime's stream of events in a replay: the n-th stream is played like the n-th recorded one.

edged draws at random how long it waits before it opens the stream again, and lists the runtime depending on that. So a
replay opens the stream at the recorded times.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar, cast

import pykka
from google.protobuf.json_format import ParseDict

from beehive import Actor, Runtime
from beehive.decoding import decode_json
from beehive.trace import CriEvent
from edged.cri import errors
from edged.cri.recording_events import ENDED, KINDS, LISTENING, OPENED, StreamEnd
from edged.module import Edged
from edged.pleg.listener import Listener
from protos.cri.v1 import api_pb2 as pb
from protos.status import StatusCode

A = TypeVar("A", bound=Actor)

STREAM: Final = frozenset({LISTENING, OPENED, ENDED, *KINDS.values()})
"""Kinds of records of the stream itself; the other kinds are events that edged received."""

_NEVER: Final = 86400.0
"""Seconds to wait for a stream that was not opened again."""


class RecordedEvents:
    """The recorded event streams of a container runtime, played back.

    Args:
        actors: source of time and futures.
        records: records of the recorded run, in their order.
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
        """Play the next stream in the recorded time. A stream more than were recorded stays silent.

        Raises:
            CriError: the recorded end of the stream; UnimplementedError for a run from before edged used events.
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
                happened(ParseDict(decode_json(record.detail), pb.ContainerEventResponse()))
        self._actors.future().get()
        raise AssertionError

    def until_asked(self) -> float:
        """Return the seconds until the next stream was opened; more than the run lasts if none was."""
        if self._next >= len(self._asked):
            return _NEVER
        return max(0.0, self._asked[self._next] - self._actors.clock.monotonic())

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            over = self._actors.future()
            self._actors.clock.after(seconds, over.set)
            over.get()


def listening(edged: type[Edged], events: RecordedEvents, parts: Mapping[type[Actor], type[Actor]]) -> type[Edged]:
    """Return edged that opens the stream at the recorded times.

    Args:
        edged: the class.
        events: the recorded streams.
        parts: other actors of a replay, by the actors whose place they take.
    """

    class RecordedListener(Listener):
        """The listener as it is, but for how long it waits."""

        def wait(self) -> float:
            """See `Listener.wait`."""
            return events.until_asked()

    replaced: dict[type[Actor], type[Actor]] = {Listener: RecordedListener, **parts}

    class ListeningEdged(edged):  # type: ignore[misc, valid-type]
        """edged as it is, but for some of its actors."""

        def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
            """See `Module.start_actor`."""
            other = cast("type[A]", replaced.get(actor_class, actor_class))
            label = name or f"{self.name}/{actor_class.__name__}"
            started: pykka.ActorRef[A] = super().start_actor(other, *args, name=label, **kwargs)
            return started

    return ListeningEdged


def _error(record: CriEvent) -> errors.CriError:
    ended = decode_json(record.detail, StreamEnd)
    kind = getattr(errors, ended.error, errors.CriError)
    code = StatusCode[ended.code] if ended.code else StatusCode.UNKNOWN
    return cast("errors.CriError", kind(ended.operation, "", code, ended.details))
