"""Captures of other programs as traces: JSON lines written by a proxy between a real cloudcore and edgecore.

One object a line, as `shared/traces/README.md` describes it. A whole websocket message becomes a `LinkFrame`, seen from
the node; every other line (TLS, HTTP, fragments, closes) becomes a `Note` that holds it. There are no deliveries in
them and so no causes but the messages' own parent ids.
"""

from collections.abc import Iterator
from typing import IO, Any

import msgspec

from beehive.trace.errors import TraceError
from beehive.trace.format import FORMAT, FRAME_BYTES, Direction, Header, LinkFrame, Note, NoteKind, Record

_DIRECTIONS = {"cloud->edge": Direction.IN, "edge->cloud": Direction.OUT}


class _Line(msgspec.Struct):
    """What is read of a line."""

    ts: float
    kind: str = ""
    conn: int = 0
    dir: str = ""
    listener: str = ""
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
        began: float | None = None
        while text := self._file.readline(FRAME_BYTES):
            parsed = self._parse(text)
            if parsed is None:
                return
            line, data = parsed
            if began is None:
                began = line.ts
                yield Header(FORMAT, "foreign capture", "", began, why=self._name)
            self.offset += len(text)
            yield _record(line, data, line.ts - began)

    def _parse(self, text: bytes) -> tuple[_Line, Any] | None:
        """What a line says: a message's frame is left as it is, everything else is decoded."""
        try:
            line = _line.decode(text)
            return line, None if _is_frame(line) else msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            if not self.offset:
                hint = "a trace of edgecore, or JSON lines with `ts`, `dir` and `kind`, is wanted"
                raise TraceError("cannot read the trace", f"{self._name}: {error}", hint) from error
            self.damage = f"no such line at byte {self.offset}: {error}"
            return None


def _is_frame(line: _Line) -> bool:
    return line.kind == "ws" and line.dir in _DIRECTIONS and len(line.msg) > 0


def _record(line: _Line, data: Any, time: float) -> Record:
    if _is_frame(line):
        frame = bytes(line.msg)
        return LinkFrame(time, 0, 0, 0, _DIRECTIONS[line.dir], line.conn, len(frame), frame)
    return Note(time, 0, 0, 0, NoteKind.FOREIGN, "", f"{line.listener} {line.dir} {line.kind}".strip(), data)
