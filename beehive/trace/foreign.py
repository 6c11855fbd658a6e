"""Captures of other programs as traces: JSON lines written by a proxy between a real cloudcore and edgecore.

One object a line, with its time (`ts`), `kind`, and for what went over a connection `listener`, `conn` and `dir`. A
whole websocket message becomes a `LinkFrame`, seen from the node; every other line (TLS, HTTP, fragments, closes, and
whatever else was recorded beside them) becomes a `Note` that holds it. There are no deliveries in
them and so no causes but the messages' own parent ids.
"""

from collections.abc import Iterator
from typing import IO, Any

import msgspec

from beehive.trace.errors import TraceError
from beehive.trace.format import FORMAT, FRAME_BYTES, Direction, Header, LinkFrame, Note, NoteKind, Record

_DIRECTIONS = {"cloud->edge": Direction.IN, "edge->cloud": Direction.OUT}


class _Line(msgspec.Struct):
    """What is read of a line, of whatever kind it is."""

    ts: float | None = None
    kind: Any = None
    conn: Any = None
    dir: Any = None
    listener: Any = None
    msg: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(_Line)


class ForeignFrames:
    """The header and the records of a capture.

    Args:
        file: open for reading bytes, at its beginning.
        name: of the file, for errors.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self.offset = 0
        self.damage = ""

    def __iter__(self) -> Iterator[Header | Record]:
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
                yield Header(FORMAT, "foreign capture", "", began, why=self._name)
            time = time if line.ts is None else line.ts - began
            yield _record(line, data, time)

    def _parse(self, text: bytes) -> tuple[_Line, Any] | None:
        """What a line says: a message's frame is left as it is, everything else is decoded.

        The first line must have a time and a kind, by which a capture is told from other JSON lines. A later one
        without a time happened when the one before it did.
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
