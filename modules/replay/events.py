"""The runtime's stream of events in a replay: each time it is asked for it goes as it went that time."""

from collections.abc import Callable, Iterable
from typing import Final, NoReturn, cast

import msgspec
from google.protobuf.json_format import ParseDict
from grpc import StatusCode

from beehive import Runtime
from beehive.trace import CriEvent
from edged.cri import errors
from edged.cri.recording_events import ENDED, KINDS, LISTENING, OPENED, Ended
from protos.cri.v1 import api_pb2 as pb

STREAM: Final = frozenset({LISTENING, OPENED, ENDED, *KINDS.values()})
"""Kinds of records that are of the stream; others say what edged learnt."""


class RecordedEvents:
    """See the module's docstring.

    Args:
        actors: gives time, and futures to wait on.
        records: of the recorded run, in their order.
    """

    def __init__(self, actors: Runtime, records: Iterable[CriEvent]) -> None:
        self._actors = actors
        self._streams: list[list[CriEvent]] = []
        for record in records:
            if record.kind == LISTENING:
                self._streams.append([])
            elif record.kind in STREAM and self._streams:
                self._streams[-1].append(record)
        self._silent = not self._streams
        self._next = iter(self._streams)

    def play(self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]) -> NoReturn:
        """The next stream, in the recorded time; one that was not asked for when it was recorded says nothing.

        Raises:
            CriError: what ended it then. Of a run from before there were events: that there are none.
        """
        if self._silent:
            text = "the recorded run did not ask for events"
            raise errors.UnimplementedError("GetContainerEvents", "", StatusCode.UNIMPLEMENTED, text)
        for record in next(self._next, ()):
            self._wait(record.time - self._actors.clock.monotonic())
            if record.kind == OPENED:
                opened()
            elif record.kind == ENDED:
                raise _error(record)
            else:
                happened(ParseDict(msgspec.json.decode(record.detail), pb.ContainerEventResponse()))
        self._actors.future().get()
        raise AssertionError

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            over = self._actors.future()
            self._actors.clock.after(seconds, over.set)
            over.get()


def _error(record: CriEvent) -> errors.CriError:
    ended = msgspec.json.decode(record.detail, type=Ended)
    kind = getattr(errors, ended.error, errors.CriError)
    code = StatusCode[ended.code] if ended.code else StatusCode.UNKNOWN
    return cast("errors.CriError", kind(ended.operation, "", code, ended.details))
