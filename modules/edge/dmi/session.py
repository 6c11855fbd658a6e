"""One registered mapper: the objects that it gets, and the times of the calls to it."""

import logging
import stat
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from google.protobuf.message import Message

from beehive import Actor, Module, Timer
from beehive.backoff import Backoff
from edged.errors import PluginCallError
from edged.plugins.socket import PluginSocket
from modules.edge.dmi.catalogue import Catalogue, Key
from modules.edge.dmi.liveness import is_served
from modules.edge.dmi.mappers import MapperRow
from modules.edge.dmi.peer import MapperStep, Peer
from protos.dmi.v1beta1 import MAPPER
from protos.dmi.v1beta1 import api_pb2 as dmi

CALL_SECONDS: Final = 10.0
"""Time-out of a mapper's answer in seconds (KubeEdge's)."""

_AWAY: Final = frozenset({"UNAVAILABLE", "CANCELLED"})
_BUSY: Final = frozenset({"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"})
"""Failures that do not say that the mapper refuses the object."""
_LONGEST_TEXT: Final = 300
_MOST_NOTES: Final = 10
"""Parts of an object that are left out, and logged, at each call."""

Stamp = tuple[int, int]
"""Inode and time of change of a socket; they differ if another process has made it."""

_log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 0.5
"""Seconds between a registration and the first call: a mapper opens its socket only after the answer."""
FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 60.0
"""Bounds in seconds of the random delay before an unreachable mapper is called again."""
MOST_BYTES: Final = 3 * 1024 * 1024
MOST_SECONDS: Final = 0.4
"""Bounds of the answer to a registration: gRPC clients accept 4 MiB, and a mapper waits for one second. Later calls
send the rest."""


REGISTRATION_SECONDS: Final = 10.0
"""Seconds that a mapper may wait for the answer to its registration (KubeEdge's wait for one)."""


class Outcome(NamedTuple):
    """The result of a call."""

    code: str = ""
    """gRPC's name of the failure; empty for a success."""
    text: str = ""
    """The reason that the mapper gave."""
    is_new: bool = False
    """Whether the socket was made again since the last call: the mapper was restarted, and has not been called."""

    @property
    def is_away(self) -> bool:
        """Whether no mapper answers on the socket."""
        return self.code in _AWAY


class SocketState(NamedTuple):
    """The result of a look at a mapper's socket."""

    is_new: bool
    """Whether the mapper has made a new socket since the last call or first look."""
    is_served: bool
    """Whether a process listens on it."""


class MapperConnection:
    """A channel to a mapper's socket, reopened when the mapper makes a new socket. `close` ends the call under way.

    Args:
        path: of the socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._socket: PluginSocket | None = None
        self._stamp: Stamp | None = None
        self._has_looked = False
        """Whether `_stamp` is known; if it is, None means that there was no socket."""
        self._is_closed = False

    def call(self, method: str, request: Message, answer: type[Message]) -> Outcome:
        """Call the mapper, and wait for its answer; but not after its restart: it must first get its models."""
        was = self._stamp
        opened = self._opened()
        if opened is None:
            return Outcome("UNAVAILABLE", f"there is no socket {self._path}")
        if was is not None and was != self._stamp:
            return Outcome(is_new=True)
        try:
            opened.call(f"{MAPPER}/{method}", request, answer, CALL_SECONDS)
        except PluginCallError as error:
            return Outcome(error.code, error.details[:_LONGEST_TEXT] or "it gives no reason")
        return Outcome()

    def is_new(self) -> bool:
        """Return whether there is a socket, and not the last call's or first check."""
        stamp = _stamp(self._path)
        if not self._has_looked:
            self._stamp, self._has_looked = stamp, True
        return stamp is not None and stamp != self._stamp

    def is_served(self) -> bool:
        """Return whether a process listens on the socket; a killed mapper leaves a socket where none does."""
        return is_served(self._path)

    def close(self) -> None:
        """Close the channel for good."""
        with self._lock:
            self._is_closed = True
            if self._socket is not None:
                self._socket.close()

    def _opened(self) -> PluginSocket | None:
        stamp = _stamp(self._path)
        with self._lock:
            if self._socket is not None and stamp != self._stamp:
                self._socket.close()
                self._socket = None
            self._stamp, self._has_looked = stamp, True
            if stamp is None or self._is_closed:
                return None
            if self._socket is None:
                self._socket = PluginSocket(self._path)
            return self._socket


class MapperCall(NamedTuple):
    """A call for `MapperCaller`."""

    method: str
    request: Message
    answer: type[Message]
    done: Callable[[Outcome], None]
    """Called on the caller's thread."""


class CheckSocket(NamedTuple):
    """The request to look at the mapper's socket."""

    done: Callable[[SocketState], None]


class MapperCaller(Actor):
    """The actor that calls one mapper, one call at a time, so that a mapper that hangs delays no other.

    Args:
        connection: to the mapper; close it before stopping the actor.
    """

    def __init__(self, connection: MapperConnection) -> None:
        super().__init__()
        self._connection = connection

    def on_receive(self, message: object) -> None:
        """Make a call, or check the socket."""
        if isinstance(message, MapperCall):
            message.done(self._connection.call(message.method, message.request, message.answer))
        elif isinstance(message, CheckSocket):
            message.done(SocketState(self._connection.is_new(), self._connection.is_served()))


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_ino, status.st_ctime_ns) if stat.S_ISSOCK(status.st_mode) else None


class MapperSession:
    """A registered mapper, on the module's thread.

    Args:
        module: dmi.
        row: the mapper.
        catalogue: of the objects that it should have.
        judged: called with a device that the mapper has taken, and "", or has refused twice in a row, and the reason.
    """

    def __init__(
        self, module: Module, row: MapperRow, catalogue: Catalogue, judged: Callable[[str, str], None]
    ) -> None:
        self._judged = judged
        self._module = module
        self._catalogue = catalogue
        self._peer = Peer(row.protocol, catalogue)
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        self._timer: Timer | None = None
        self._not_before = 0.0
        self._is_busy = self._is_looking = self._is_away = False
        self._called_at: dict[Key, float] = {}
        """The monotonic time of the last call with each object."""
        self._connection: MapperConnection | None = None
        self._lost_since: float | None = None
        """Monotonic seconds since when nobody has listened on the mapper's socket."""
        self.is_known = False
        """Whether it is known if somebody listens on the mapper's socket: before the first look it is not."""
        self.is_lost: bool | None = None
        """Whether the module has noted that the mapper has ended; None before it has noted anything."""
        self.row = row
        self._connect()

    def begin(self) -> None:
        """Send everything to a mapper that registered with an earlier process of edgecore."""
        self._peer.forget()
        self._pump()

    def register(self, row: MapperRow, *, with_data: bool) -> dmi.MapperRegisterResponse:
        """Take a registration, and return its answer; with `with_data` it contains the mapper's objects, within bounds.

        Objects that the answer lacks are sent soon afterwards, by calls. So are those of calls that the mapper may have
        taken while it waited for the answer: it cannot know that the answer is newer.
        """
        self.close()
        self.row = row
        self._connect()
        self._heard()
        self._peer.begin()
        answer = self._answer() if with_data else dmi.MapperRegisterResponse()
        now = self._module.clock.monotonic()
        for key, when in self._called_at.items():
            if now - when < REGISTRATION_SECONDS:
                self._peer.doubt(key)
        self._called_at.clear()
        self._not_before = now + SETTLE_SECONDS
        self._pump()
        return answer

    def mark(self, keys: Iterable[Key]) -> None:
        """Send changed objects to the mapper."""
        self._peer.mark(keys)
        self._pump()

    def resend(self, device: str) -> None:
        """Send the mapper a device again that it may have lost, or could not open."""
        self._peer.doubt(Key("device", device))
        self._pump()

    def check_socket(self) -> None:
        """Check whether the mapper has made a new socket, and if so, send it everything."""
        settled = self._module.clock.monotonic() >= self._not_before
        if self._connection is not None and not self._is_busy and not self._is_looking and (settled or self._is_away):
            self._is_looking = True
            module, connection = self._module, self._connection

            def done(found: SocketState) -> None:
                module.call_soon(lambda: self._handle_socket_state(found) if self._connection is connection else None)

            self._caller.tell(CheckSocket(done))

    def lost_for(self, now: float) -> float:
        """Return the seconds during which nobody has listened on the mapper's socket; 0 if somebody does.

        Args:
            now: monotonic seconds.
        """
        return now - self._lost_since if self._lost_since is not None else 0.0

    def close(self) -> None:
        """Stop calling the mapper."""
        self._cancel_timer()
        if self._connection is not None:
            self._connection.close()
            self._caller.stop(block=False)
            self._connection = None

    def _connect(self) -> None:
        path = self.row.socket
        if path is None:
            _log.warning("mapper %s has no address: it reports, but gets no values", self.row.name)
            return
        self._connection = MapperConnection(path)
        self._caller = self._module.start_actor(MapperCaller, self._connection, name=f"dmi/{self.row.name}")
        self._is_busy = self._is_looking = False

    def _answer(self) -> dmi.MapperRegisterResponse:
        answer = dmi.MapperRegisterResponse()
        size, until = 0, self._module.clock.monotonic() + MOST_SECONDS
        for key in self._catalogue.keys(self.row.protocol):
            wanted = self._catalogue.wanted(self.row.protocol, key)
            if wanted is None:
                continue
            size += wanted.message.ByteSize() + 8
            if size > MOST_BYTES or self._module.clock.monotonic() > until:
                break
            if isinstance(wanted.message, dmi.DeviceModel):
                answer.modelList.append(wanted.message)
            elif isinstance(wanted.message, dmi.Device):
                answer.deviceList.append(wanted.message)
                self._log_notes(key, wanted.notes)
            self._peer.record(key, wanted)
        return answer

    def _pump(self) -> None:
        if self._is_busy or self._connection is None:
            return
        self._cancel_timer()
        now = self._module.clock.monotonic()
        following = self._peer.next(now) if now >= self._not_before else self._not_before - now
        if isinstance(following, MapperStep):
            self._call(following, self._connection)
        elif following is not None:
            self._timer = self._module.after(following, self._pump)

    def _call(self, step: MapperStep, connection: MapperConnection) -> None:
        self._is_busy = True
        if step.digest is None:
            self._called_at.pop(step.key, None)
        else:
            self._called_at[step.key] = self._module.clock.monotonic()
        self._log_notes(step.key, step.notes)
        module = self._module

        def done(outcome: Outcome) -> None:
            module.call_soon(lambda: self._called(step, outcome) if self._connection is connection else None)

        self._caller.tell(MapperCall(step.method, step.request, step.answer, done))

    def _called(self, step: MapperStep, outcome: Outcome) -> None:
        self._is_busy = False
        now = self._module.clock.monotonic()
        if outcome.is_away:
            self._called_at.pop(step.key, None)
            self._gone(outcome.text, now)
        else:
            if self._is_away:
                _log.info("mapper %s is back, and gets all values", self.row.name)
            self._heard()
            if outcome.is_new:
                self._peer.forget()
            elif not outcome.code or (step.digest is None and outcome.code == "NOT_FOUND"):
                self._peer.succeeded(step)
                self._judge(step)
            else:
                self._failed(step, outcome, now)
        self._pump()

    def _failed(self, step: MapperStep, outcome: Outcome, now: float) -> None:
        failures = self._peer.failed(step, now, self._module.clock.random)
        if failures <= 2:
            what = f"{step.method} of {step.key.id}"
            _log.warning("mapper %s refuses %s: %s; %s", self.row.name, what, outcome.text, outcome.code)
        if failures >= 2 and outcome.code not in _BUSY:
            self._judge(step, outcome.text)

    def _judge(self, step: MapperStep, why: str = "") -> None:
        if step.key.kind == "device" and step.digest is not None:
            self._judged(step.key.id, why)

    def _heard(self) -> None:
        self._is_away = False
        self._lost_since = None
        self._backoff.reset()

    def _gone(self, why: str, now: float) -> None:
        if not self._is_away:
            _log.warning("mapper %s does not answer on %s: %s", self.row.name, self.row.socket, why)
        self._is_away = True
        self._peer.forget()
        self._not_before = now + max(FIRST_DELAY / 2, self._backoff.next(self._module.clock.random))

    def _handle_socket_state(self, found: SocketState) -> None:
        self._is_looking = False
        self.is_known = True
        if found.is_served:
            self._lost_since = None
        elif self._lost_since is None:
            self._lost_since = self._module.clock.monotonic()
        if found.is_new and not self._is_busy:
            self._peer.forget()
            self._not_before = min(self._not_before, self._module.clock.monotonic() + SETTLE_SECONDS)
            self._pump()

    def _log_notes(self, key: Key, notes: tuple[str, ...]) -> None:
        """Log the parts of an object that the mapper does not get; of very many the first ones."""
        for note in notes[:_MOST_NOTES]:
            _log.warning("%s: %s", key.id, note)
        if len(notes) > _MOST_NOTES:
            _log.warning("%s: %d further parts are left out", key.id, len(notes) - _MOST_NOTES)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
