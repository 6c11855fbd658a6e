"""Reads captures of other programs as traces: JSON lines of a proxy between a real cloudcore and edgecore.

Each line is an object with its time (`ts`) and `kind`, and with `listener`, `conn` and `dir` for data of a connection.
A whole websocket message becomes a `LinkFrame`, seen from the node; every other line (TLS, HTTP, fragments, closes and
so on) becomes a `Note` that holds it. A capture has no deliveries, and so no causes but the messages' parent ids.
"""

from collections.abc import Iterator
from typing import IO, Any

import msgspec

from beehive.decoding import json_decoder
from beehive.errors import TraceError
from beehive.trace.format import FORMAT, FRAME_BYTES, Direction, LinkFrame, Note, NoteKind, Record, TraceHeader

_DIRECTIONS = {"cloud->edge": Direction.IN, "edge->cloud": Direction.OUT}


class _Line(msgspec.Struct):
    """The known fields of a line of any kind."""

    ts: float | None = None
    kind: Any = None
    conn: Any = None
    dir: Any = None
    listener: Any = None
    msg: msgspec.Raw = msgspec.Raw()


_line = json_decoder(_Line)


class ForeignFrames:
    """Iterates over the header and the records of a capture.

    Args:
        file: open for reading bytes, at its beginning.
        name: of the file, for errors.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self.offset = 0
        self.damage = ""

    def __iter__(self) -> Iterator[TraceHeader | Record]:
        began, time = None, 0.0
        while text := self._file.readline(FRAME_BYTES):
            parsed = self._parse(text) if text.strip() else None
            if parsed is None and self.damage:
                return
            self.offset += len(text)
            if parsed is None:
                continue
            line, data = parsed
            if began is None:
                began = line.ts or 0.0
                yield TraceHeader(FORMAT, "foreign capture", "", began, why=self._name)
            time = time if line.ts is None else line.ts - began
            yield _record(line, data, time)

    def _parse(self, text: bytes) -> tuple[_Line, Any] | None:
        """Parse a line; a frame stays undecoded, all other data is decoded. Returns None and sets `damage` if it fails.

        The first line must have a time and a kind, which distinguish a capture from other JSON lines. A later line
        without a time has the time of the line before.
        """
        try:
            line = _line.decode(text)
            if not self.offset and (line.ts is None or not isinstance(line.kind, str)):
                raise msgspec.ValidationError("Object missing required field `ts` or `kind`")
            return line, None if _is_frame(line) else msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            if not self.offset:
                hint = "a trace of edgecore, or JSON lines with `ts`, `dir` and `kind`, is wanted"
                raise TraceError("cannot read the trace", f"{self._name}: {error}", hint) from error
            self.damage = f"no such line at byte {self.offset}: {error}"
            return None


def _is_frame(line: _Line) -> bool:
    return line.kind == "ws" and isinstance(line.dir, str) and line.dir in _DIRECTIONS and bytes(line.msg)[:1] == b"{"


def _record(line: _Line, data: Any, time: float) -> Record:
    if _is_frame(line):
        frame = bytes(line.msg)
        number = line.conn if isinstance(line.conn, int) else 0
        return LinkFrame(time, 0, 0, 0, _DIRECTIONS[line.dir], number, len(frame), frame)
    what = " ".join(part for part in (line.listener, line.dir, line.kind) if isinstance(part, str))
    return Note(time, 0, 0, 0, NoteKind.FOREIGN, "", what, data)
