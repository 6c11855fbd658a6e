"""Reads traces as a stream: from a file, a directory of rotated parts, or another program's capture.

A capture has the JSON lines of a proxy between a real cloudcore and edgecore. Each line is an object with its time
(`ts`) and `kind`, and with `listener`, `conn` and `dir` for data of a connection. A whole websocket message becomes a
`LinkFrame`, seen from the node; every other line (TLS, HTTP, fragments, closes and so on) becomes a `Note` that holds
it. A capture has no deliveries, and so no causes but the messages' parent ids.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import msgspec

from beehive.decoding import decode_json, json_decoder
from beehive.errors import TraceError
from beehive.trace.contents import ContentJoiner
from beehive.trace.format import (
    FORMAT,
    FRAME_BYTES,
    AnyRecord,
    Content,
    Direction,
    LinkFrame,
    Note,
    NoteKind,
    Record,
    TraceHeader,
    traceparent,
)
from beehive.trace.frames import BIN32, Frames, decode
from beehive.trace.writer import parts_of

_BUFFER = 256 * 1024
_RUN: Final = 48
"""Bits of a span below the number of its run."""
_FARTHEST: Final = 6e10
"""Seconds from the Unix epoch to the wall clock of a record, which is a date then."""
_WANTED = "a trace of edgecore, a directory of its parts (*.trace), or a capture as JSON lines is wanted"


class TraceReader:
    """A reader that iterates once over the records of a trace, with one record in memory at a time.

        with read(path) as trace:
            for record in trace: ...

    Records of a later run in the same file are put on the time axis of the first one, with distinct spans.

    Args:
        files: the files of the trace in order; at least one.

    Raises:
        TraceError: a file cannot be opened, or the first is not a trace.
    """

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self.size = sum(path.stat().st_size for path in files)
        """Bytes of all files."""
        self.done = 0
        """Bytes that have been read, for a progress display."""
        self.damage = ""
        """Where and why reading a file ended early; the records before were read."""
        self.skipped = 0
        """Records of kinds that this version does not know, or with numbers that no recorder writes."""
        self.runs: list[TraceHeader] = []
        """Headers of the runs so far."""
        self._open: IO[bytes] | None = None
        self._records = self._read()
        first = next(self._records, None)
        if not isinstance(first, TraceHeader):
            self.close()
            raise TraceError("cannot read the trace", str(files[0]), self.damage or _WANTED)
        self.header = first
        """The header of the first run."""

    def __enter__(self) -> "TraceReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        """Yield the records, oldest first."""
        for record in self._records:
            if not isinstance(record, TraceHeader | Content):
                yield record

    def close(self) -> None:
        """Close the open file."""
        if self._open is not None:
            self._open.close()

    def traceparent(self, record: Record) -> str:
        """Return the W3C `traceparent` of a record's cause; empty if the record began its trace."""
        run, trace, cause = record.trace >> _RUN, _within(record.trace), _within(record.cause)
        return traceparent(self.runs[run], trace, cause) if cause else ""

    def _read(self) -> Iterator[AnyRecord]:
        for path in self._files:
            try:
                self._open = file = path.open("rb", buffering=_BUFFER)
            except OSError as error:
                raise TraceError("cannot open the trace", str(path), str(error.strerror)) from error
            with file:
                yield from self._of_file(file, path)

    def _of_file(self, file: IO[bytes], path: Path) -> Iterator[AnyRecord]:
        before = self.done
        head = file.peek(1)[:1]  # type: ignore[attr-defined]
        frames = ForeignFrames(file, str(path)) if head == b"{" else _Decoded(file)
        if head and head not in (b"{", bytes((BIN32,))):
            self.damage = _WANTED
            return
        for record in frames:
            self.done = before + frames.offset
            if record is None or not self._is_possible(record):
                self.skipped += 1
            elif not isinstance(record, Content):
                yield self._placed(record, path)
        if frames.damage:
            self.damage = f"{path}: {frames.damage}"

    def _is_possible(self, record: AnyRecord) -> bool:
        """Return whether a record's time is a date, and its spans are numbers of one run."""
        if isinstance(record, TraceHeader):
            return abs(record.began) < _FARTHEST
        if isinstance(record, Content):
            return True
        began = self.runs[-1].began if self.runs else 0.0
        spans = (record.span, record.cause, record.trace)
        return abs(began + record.time) < _FARTHEST and min(spans) >= 0 and max(spans) < 1 << _RUN

    def _placed(self, record: TraceHeader | Record, path: Path) -> AnyRecord:
        if isinstance(record, TraceHeader):
            self._begin(record, path)
            return record
        run = len(self.runs) - 1
        if run <= 0:
            return record
        return msgspec.structs.replace(
            record,
            time=record.time + self.runs[run].began - self.runs[0].began,
            span=_of_run(run, record.span),
            cause=_of_run(run, record.cause),
            trace=_of_run(run, record.trace),
        )

    def _begin(self, header: TraceHeader, path: Path) -> None:
        if header.format > FORMAT:
            hint = f"it was written by {header.program}; read it with that version or a later one"
            raise TraceError("cannot read the trace", f"{path} has format {header.format}, ours is {FORMAT}", hint)
        if not self.runs or (header.prefix, header.began) != (self.runs[-1].prefix, self.runs[-1].began):
            self.runs.append(header)


class _Decoded:
    """The records of one file, with resolved contents; None for records of unknown kinds."""

    def __init__(self, file: IO[bytes]) -> None:
        self._frames = Frames(file)
        self._contents = ContentJoiner(file.fileno(), decode)

    @property
    def offset(self) -> int:
        return self._frames.offset

    @property
    def damage(self) -> str:
        return self._frames.damage

    def __iter__(self) -> Iterator[AnyRecord | None]:
        for body in self._frames:
            record = decode(body)
            if isinstance(record, Content):
                self._contents.learn(record, self._frames.offset - len(body), len(body))
            yield (
                record if record is None or isinstance(record, TraceHeader | Content) else self._contents.whole(record)
            )


def read(path: Path | str) -> TraceReader:
    """Open a trace.

    Args:
        path: of a file, of a directory of parts, or of a capture as JSON lines.

    Raises:
        TraceError: the path does not exist, or is not a trace; the text names the expected forms.
    """
    path = Path(path)
    try:
        files = parts_of(path) if path.is_dir() else [path]
        if not files:
            raise TraceError("cannot read the trace", str(path), f"the directory is empty of them; {_WANTED}")
        return TraceReader(files)
    except OSError as error:
        raise TraceError("cannot open the trace", str(path), str(error.strerror)) from error


def _of_run(run: int, number: int) -> int:
    return number + (run << _RUN) if number else 0


def _within(number: int) -> int:
    return number & (1 << _RUN) - 1


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
    """An iterator over the header and the records of a capture.

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
            return line, None if _is_frame(line) else decode_json(text)
        except (msgspec.DecodeError, UnicodeError) as error:
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
