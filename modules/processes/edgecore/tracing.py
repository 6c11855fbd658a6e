"""Recording of the running node."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive import Actor
from beehive.delivery import ModuleFailed
from beehive.errors import BeehiveError, StopError, TraceError
from beehive.trace.entries import AnyEntry, EntrySink, RecorderNote, Serialiser
from beehive.trace.flight_recorder import FlightRecorder
from beehive.trace.format import FORMAT, NoteKind, TraceHeader
from beehive.trace.redact import Redactor
from beehive.trace.secret_forms import without_secrets
from beehive.trace.secrets import KnownSecrets
from edged.cri.recording import recording
from edgehub.outbox.recording import recording as recorded_outbox
from edgehub.recording import RecordingLinks
from metamanager.recording import RecordingStore
from metamanager.store import open_store
from modules.apimachinery.attempts import AttemptError
from modules.processes.common.version import VERSION
from modules.processes.edgecore.config.section import plain
from modules.processes.edgecore.trace_socket import (
    SOCKET,
    ServeTraceSocket,
    TraceSocketListener,
    close_trace_socket,
    listen,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from beehive import Hive
    from edged.cri.contract import ContainerRuntime
    from edgehub.link import LinkFactory
    from edgehub.outbox.store import OpenOutbox
    from metamanager.store import Store
    from modules.processes.edgecore.config import EdgeCoreConfig

_log = logging.getLogger(__name__)

DIRECTORY: Final = "traces"
"""Directory of flight recorder files, below the root directory."""

FILES: Final = 8
"""Number of flight recorder files that are kept."""

FAILURE_PAUSE: Final = 60.0
"""Seconds after a module's failure without files of further failures: the first file has the cause."""

_STOP_SECONDS = 5.0
_FORESEEN = (BeehiveError, AttemptError, OSError)


class Dumped(msgspec.Struct, frozen=True):
    """A written file of the flight recorder."""

    path: Path
    records: int


class Dump(msgspec.Struct, frozen=True):
    """Message to the dumper: write the flight recorder."""

    why: str


class _Dumper(Actor):
    """The actor that writes the flight recorder on a thread of its own, so that a failing thread does not wait for the
    disk.
    """

    def __init__(self, dump: Callable[[str], Dumped]) -> None:
        super().__init__()
        self._dump = dump

    def on_receive(self, message: object) -> None:
        """Write a file; an error is only logged."""
        if isinstance(message, Dump):
            try:
                self._dump(message.why)
            except TraceError as error:
                _log.error("the flight recorder could not be written: %s", error)
            except Exception:  # noqa: BLE001 - later failures are to be written, too
                _log.exception("the flight recorder could not be written")


class Tracing:
    """The flight recorder, which is always on, and the stream of `run --record`.

    It wraps store, runtime, links and outbox so that they are recorded. The flight recorder is written into `traces`
    below the root directory on SIGUSR2, by `edgecore trace dump`, and when a module or the process fails; the newest
    files are kept.

    Args:
        hive: the hive to record, not yet started.
        config: configuration of the node.
        record: file or directory of the stream; None for the flight recorder alone.
        limit: largest size of the stream in bytes; None for the default of `open_writer`.
    """

    def __init__(
        self, hive: Hive, config: EdgeCoreConfig, record: Path | None = None, limit: int | None = None
    ) -> None:
        clock = hive.clock
        self._hive = hive
        self._root = config.modules.edged.root_directory
        self._record = record
        self._limit = limit
        self._redactor = Redactor(KnownSecrets(clock.now))
        self.sink = EntrySink(clock, self._redactor, hive.next_span, self.add)
        """Takes the entries of recorded parts."""
        self._origin = clock.monotonic()
        self._header = TraceHeader(
            FORMAT, f"edgecore {VERSION}", config.node_name, clock.now(), None, plain(config),
            int.from_bytes(os.urandom(8), "big"), why="record",
        )  # fmt: skip
        self._flight = FlightRecorder(clock, noted=self.add)
        self._adders: list[Callable[[AnyEntry], None]] = [self._flight.add]
        self._lock = threading.Lock()
        self._last_failure: float | None = None
        self._dumper: Any = None

    def attach(self, stack: ExitStack) -> None:
        """Record the hive until the stack ends.

        Raises:
            TraceError: the file of the stream, or the socket, cannot be made.
        """
        stack.callback(self._flight.close)
        self._hive.taps.append(self._flight)
        if self._record is not None:
            self._start_stream(self._record, stack)
        self.add(RecorderNote(self._hive.clock.monotonic(), NoteKind.BEGUN, "everything from here on"))
        self._hive.watchers.append(self._happened)
        self._serve(stack)
        self._watch_threads(stack)
        stack.push(self._on_exit)

    def open_store(self, source: str) -> Store:
        """Open the store of a source, recorded (`MetaManager`'s `open_store`)."""
        return RecordingStore(open_store(source), self.sink)

    def outbox(self, open_outbox: OpenOutbox) -> OpenOutbox:
        """Wrap the opening of the outbox so that it is recorded."""
        return recorded_outbox(open_outbox, self.sink)

    def runtime(self, runtime: ContainerRuntime) -> ContainerRuntime:
        """Wrap a container runtime so that its calls are recorded."""
        return recording(runtime, self.sink)

    def links(self, make: LinkFactory) -> LinkFactory:
        """Wrap a link factory so that its links are recorded."""
        return RecordingLinks(make, self.sink)

    def without_secrets(self, text: str) -> str:
        """Return a text for people without the secrets that the process has seen. Thread-safe."""
        return without_secrets(text, self._redactor)

    def add(self, entry: AnyEntry) -> None:
        """Record an entry from outside of the bus."""
        for add in self._adders:
            add(entry)

    def dump_soon(self, why: str) -> None:
        """Have the flight recorder written on the dumper's thread; do not block. Any thread may call it."""
        if self._dumper is not None and self._dumper.is_alive():
            self._dumper.tell(Dump(why))

    def dump(self, why: str) -> Dumped:
        """Write the flight recorder into a new file.

        Raises:
            TraceError: the file could not be written.
        """
        from beehive.trace.writer import keep_newest, new_part  # noqa: PLC0415 - with the first file

        now = self._hive.clock.monotonic()
        for name, depth in self._hive.depths().items():
            if depth:
                self._flight.add(RecorderNote(now, NoteKind.WAITING, f"{depth} waited in the inbox of {name}", depth))
        with self._lock:
            directory = self._root / DIRECTORY
            _make(directory, 0o700)
            path = new_part(directory, self._hive.clock.now(), _slug(why))
            header = msgspec.structs.replace(self._header, why=why)
            try:
                records = self._flight.write(path, header, self._origin, self._redactor)
            finally:  # also a disk without room gets no more files
                keep_newest(directory, FILES)
        _log.warning("the flight recorder was written to %s (%s, %d records)", path, why, records)
        return Dumped(path, records)

    def _start_stream(self, path: Path, stack: ExitStack) -> None:
        # imported only here: most nodes do not record to a file
        from beehive.trace.stream_recorder import StreamRecorder, Waiting  # noqa: PLC0415
        from beehive.trace.writer import open_writer  # noqa: PLC0415

        writer = open_writer(path, self._header, self._limit)
        waiting = Waiting()
        with ExitStack() as failing:
            failing.callback(writer.close)
            running = self._hive.runtime.start(
                StreamRecorder, waiting, writer, Serialiser(self._origin, self._redactor), name="trace/recorder"
            )
            failing.pop_all()
        stack.callback(running.stop, _STOP_SECONDS)
        self._hive.taps.append(waiting)
        self._adders.append(waiting.add)

    def _serve(self, stack: ExitStack) -> None:
        runtime = self._hive.runtime
        dumper = runtime.start(_Dumper, self.dump, name="trace/dumper")
        self._dumper = dumper.ref
        stack.callback(dumper.stop, _STOP_SECONDS)
        _make(self._root, 0o750)
        listening = listen(self._root / SOCKET)
        with ExitStack() as failing:
            failing.callback(close_trace_socket, listening, self._root / SOCKET)
            listener = runtime.start(TraceSocketListener, listening, self._asked, name="trace/socket")
            failing.pop_all()
        stack.callback(listener.stop, _STOP_SECONDS)
        stack.callback(close_trace_socket, listening, self._root / SOCKET)
        listener.ref.tell(ServeTraceSocket())

    def _asked(self) -> dict[str, Any]:
        """Answer `edgecore trace dump`."""
        try:
            dumped = self.dump("asked for")
        except TraceError as error:
            return {"error": str(error)}
        except Exception:  # noqa: BLE001 - others ask later
            _log.exception("the flight recorder could not be written")
            return {"error": "the flight recorder could not be written: edgecore's log says why"}
        return {"path": str(dumped.path), "records": dumped.records}

    def _happened(self, happened: AnyEntry) -> None:
        self.add(happened)
        if isinstance(happened, ModuleFailed):
            last = self._last_failure
            if last is None or happened.time - last >= FAILURE_PAUSE:
                self._last_failure = happened.time
                self.dump_soon(f"{happened.module} failed")

    def _watch_threads(self, stack: ExitStack) -> None:
        """Write the flight recorder when a thread that is no actor ends with an exception."""
        before = threading.excepthook

        def hook(arguments: threading.ExceptHookArgs) -> None:
            self.dump_soon("thread crashed")
            before(arguments)

        threading.excepthook = hook
        stack.callback(setattr, threading, "excepthook", before)

    def _on_exit(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Write the flight recorder when the process ends with an unexpected exception or a module that does
        not stop.
        """
        if error is None or (isinstance(error, _FORESEEN) and not isinstance(error, StopError)):
            return
        try:
            self.dump("crash")
        except TraceError as failure:
            _log.error("the flight recorder could not be written: %s", failure)


def _make(directory: Path, mode: int) -> None:
    try:
        directory.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError("cannot make the directory of traces", str(directory), str(error.strerror)) from error


def _slug(why: str) -> str:
    """Return the part of a file's name for a reason."""
    return "-".join("".join(sign if sign.isascii() and sign.isalnum() else " " for sign in why).split()) or "dump"
