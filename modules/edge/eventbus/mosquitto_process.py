"""mosquitto as a process of edgecore: started, watched, started again when it ends, and ended with edgecore."""

import logging
import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from beehive import Actor, Clock, Module
from beehive.backoff import Backoff
from beehive.files.durable import write_file
from beehive.files.reading import read_file
from beehive.printable import printable
from beehive.rate import TokenBucket
from beehive.sockets.unix_sockets import connect_unix
from beehive.wakeup import Wakeup
from modules.edge.eventbus import mosquitto_files
from modules.edge.eventbus.connection import BrokerConnection
from modules.edge.eventbus.counters import EventBusCounters
from modules.edge.eventbus.internal_broker import CONFIGURATION, DATA, InternalBroker
from modules.edge.eventbus.mosquitto_sessions import LARGEST, MOST_BYTES, UnreadableError, read_held
from modules.edge.eventbus.routing import MAX_PAYLOAD
from modules.edge.eventbus.self_message import NoAnswerError, end_session, send_to_itself

_log = logging.getLogger(__name__)

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 60.0
"""Bounds of the delay before it is started again, in seconds; it is drawn at random."""

STEADY: Final = 60.0
"""Seconds after which a broker that ends has not failed immediately."""

_PROGRAM: Final = Path(__file__).with_name("mosquitto_launcher.py")
_LOOK: Final = 0.05
"""Seconds between two attempts to reach a broker that is starting."""

CHECK_SECONDS: Final = 10.0
"""Seconds between two checks whether it passes a message on, and how much memory it has."""

LARGE: Final = 32 * 1024 * 1024
"""From so many bytes of memory (RSS) on the sessions are looked at, and a check is made with the largest message."""

ANSWER_SECONDS: Final = 15.0
"""Seconds for such a message."""

MOST_FAILURES: Final = 2
"""Checks in a row that may fail, and starts in a row without a single message before the stored ones are set aside."""

START_SECONDS: Final = 30.0
"""Seconds for the first message after a start, while mosquitto reads its store."""

_OF_STORED_MESSAGES: Final = ("memory", "persist", "database", ".db")
"""Words of mosquitto's last line when it ends because of its stored messages."""
_ABOUT_THE_UNIX_SOCKET: Final = "Unable to set TCP_NODELAY"
"""The option is for the other listener, and mosquitto has it for both or none."""
_ABOUT_ROOT: Final = "should not be run as root"
"""In the namespaces of an ordinary user's node, whose root is that user."""
_LONGEST_LINE: Final = 300
_STORE_SECONDS: Final = 10.0
"""Seconds for mosquitto to store its sessions when it is told to."""
_NAMED: Final = 5
_LONGEST_NAME: Final = 64
_LINES: Final = (1.0, 20)
"""Lines of mosquitto that are logged: a second, and in a burst. A device may make it complain without end."""


class MosquittoProcess:
    """One run of mosquitto.

    Args:
        broker: its settings.
        clock: for the rate of its lines in the log.
    """

    def __init__(self, broker: InternalBroker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._lines = TokenBucket(*_LINES)
        self._last: deque[str] = deque(maxlen=1)
        self._stopping = False
        self.is_up = False
        """Whether it has passed on a message."""
        self.may_be_stored = False
        """Whether it seems to have failed because of its stored messages."""
        self._problem = ""
        """Why it is ended although it runs."""
        self._wakeup = Wakeup()
        self._most_memory = self._looked_at = 0

    def run(self, listening: Callable[[], None]) -> str:
        """Start mosquitto, and return why it has ended. Blocks; called once. The thread must not end before it.

        Args:
            listening: called when it passes messages on, so that edgecore can connect.
        """
        try:
            mosquitto_files.end_left_over(self._broker.directory)
            process = self._start()
            try:
                write_file(self._broker.directory / mosquitto_files.PID, b"%d\n" % process.pid)
                self._follow(process, listening)
            finally:
                self._end(process)
        except OSError as error:
            return str(error)
        finally:
            self._wakeup.close()
        if self._stopping:
            return "stopped by this node"
        last = self._last[0] if self._last else ""
        is_about_stored = any(word in last for word in _OF_STORED_MESSAGES)
        self.may_be_stored = bool(self._problem) or is_about_stored or process.returncode < 0
        said = f": {last}" if last else ""
        return self._problem or f"it has ended with status {process.returncode}{said}"

    def stop(self) -> None:
        """End mosquitto; `run` returns then. Any thread."""
        self._stopping = True
        self._wakeup.wake()

    def _start(self) -> subprocess.Popen[bytes]:
        user = mosquitto_files.owner()
        mosquitto_files.write_files(self._broker, user)
        try:
            mosquitto_files.shorten_messages(self._broker, user)
        except (OSError, UnreadableError) as error:
            _log.warning("mosquitto's stored sessions are left as they are: %s", error)
        with suppress(FileNotFoundError):
            self._broker.socket.unlink()
        own = [str(os.getpid()), str(user.uid), str(user.gid), mosquitto_files.mark(self._broker.directory)]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROGRAM), *own, str(self._broker.program), "-c", CONFIGURATION],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd=self._broker.directory,
            env={},
        )

    def _follow(self, process: subprocess.Popen[bytes], listening: Callable[[], None]) -> None:
        """Log its output, and check that it passes messages on, until it ends, is to end, or does not."""
        stream = process.stderr
        if stream is None:
            return
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        begun = due = self._clock.monotonic()
        failures = 0
        while not self._stopping:
            now = self._clock.monotonic()
            if now >= due and (self.is_up or self._answers()):
                memory = _memory(process.pid)
                if memory >= LARGE:
                    self._relieve(process, memory, is_urgent=failures > 0)
                why = self._check(MAX_PAYLOAD if memory >= LARGE else 0)
                failures = failures + 1 if why else 0
                due = self._clock.monotonic() + (CHECK_SECONDS if not why else 0.0)
                if not why and not self.is_up:
                    self.is_up = True
                    listening()
                if failures >= MOST_FAILURES and (self.is_up or now - begun > START_SECONDS):
                    self._problem = f"it passes no message on: {why}"
                    return
            wait = max(0.0, due - self._clock.monotonic()) if self.is_up else _LOOK
            ready = dict(poll.poll(wait * 1000))
            if stream.fileno() in ready and not self._read(stream):
                return

    def _check(self, size: int) -> str:
        """Let it pass on a message, and take one of a size; return why it has not, or an empty text."""
        try:
            send_to_itself(self._broker.socket, self._clock, ANSWER_SECONDS, self._wakeup, size)
        except NoAnswerError as error:
            return str(error)
        return ""

    def _relieve(self, process: subprocess.Popen[bytes], memory: int, *, is_urgent: bool) -> None:
        """End the sessions that hold more than they may together, as they are stored; store them first if mosquitto has
        grown since the last time, or takes no message.
        """
        if not self.is_up:
            return
        stored = self._broker.directory / DATA / mosquitto_files.STORED
        if memory > self._most_memory or is_urgent:
            self._most_memory = max(memory, self._most_memory)
            before = _changed(stored)
            process.send_signal(signal.SIGUSR1)
            self._wait(lambda: _changed(stored) != before)
        changed = _changed(stored)
        if changed == self._looked_at:
            return
        self._looked_at = changed
        try:
            ended = read_held(read_file(stored, LARGEST)).to_end(self._broker.client_id.encode(), MOST_BYTES)
            for each in ended:
                end_session(self._broker.socket, self._clock, each, ANSWER_SECONDS, self._wakeup)
        except (OSError, ValueError, UnreadableError, NoAnswerError) as error:
            _log.warning("mosquitto's memory gets full, and not all sessions are ended: %s", error)
            return
        if ended:
            names = ", ".join(printable(each[:_LONGEST_NAME].decode(errors="replace")) for each in ended[:_NAMED])
            _log.warning("mosquitto's memory gets full, and %d sessions with what waits for them are ended: %s%s",
                         len(ended), names, ", …" if len(ended) > _NAMED else "")  # fmt: skip

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Wait for something, for some seconds at most, or until the broker is stopped."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        due = self._clock.monotonic() + _STORE_SECONDS
        while not is_done() and self._clock.monotonic() < due and not poll.poll(_LOOK * 1000):
            pass

    def _read(self, stream: IO[bytes]) -> bool:
        """Log the output that is there; return False at its end."""
        said = os.read(stream.fileno(), 4096)
        for line in said.decode(errors="replace").splitlines():
            text = "".join(char for char in line[:_LONGEST_LINE] if char.isprintable())
            if _ABOUT_THE_UNIX_SOCKET in text or _ABOUT_ROOT in text:
                continue
            self._last.append(text)
            if not self._lines.reserve(self._clock.monotonic()):
                _log.warning("mosquitto: %s", text)
        return bool(said)

    def _answers(self) -> bool:
        try:
            connect_unix(self._broker.socket).close()
        except OSError:
            return False
        return True

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End it if need be, and wait for it. A new process may miss the first signal."""
        if process.stderr is not None:
            process.stderr.close()
        process.terminate()
        try:
            process.wait(mosquitto_files.END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _memory(pid: int) -> int:
    """Return the bytes that a process has in memory; none if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def _changed(path: Path) -> int:
    """Return when a file was changed, in nanoseconds; 0 if it is missing."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class BrokerRunner(Actor):
    """The actor that runs each mosquitto until its end. mosquitto ends with this actor's thread."""

    def on_receive(self, message: object) -> None:
        """Run it."""
        if isinstance(message, _Run):
            message.ended(message.process.run(message.listening))


class _Run:
    """One run, and its reports on the module's thread."""

    def __init__(self, supervisor: "BrokerSupervisor", process: MosquittoProcess) -> None:
        self._supervisor = supervisor
        self.process = process

    def listening(self) -> None:
        """Report that it takes connections."""
        self._supervisor.module.call_soon(lambda: self._supervisor.listening(self))

    def ended(self, why: str) -> None:
        """Report its end."""
        self._supervisor.module.call_soon(lambda: self._supervisor.ended(self, why))


class BrokerSupervisor:
    """The supervisor of a mosquitto, which keeps it running on the module's thread.

    Args:
        module: eventbus.
        broker: settings.
        counters: of eventbus.
        connection: dialled when it listens.
    """

    def __init__(
        self, module: Module, broker: InternalBroker, counters: EventBusCounters, connection: BrokerConnection
    ) -> None:
        self.module = module
        self._broker = broker
        self._counters = counters
        self._connection = connection
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        self._runner = module.start_actor(BrokerRunner)
        self._run: _Run | None = None
        self._since = 0.0
        self._failures = 0
        """Starts in a row without a single message, which its stored messages may have caused."""

    def start(self) -> None:
        """Start it."""
        self._counters.broker_starts += 1
        self._since = self.module.clock.monotonic()
        self._run = _Run(self, MosquittoProcess(self._broker, self.module.clock))
        self._runner.tell(self._run)

    def stop(self) -> None:
        """End it; it writes its stored messages first."""
        if self._run is not None:
            self._run.process.stop()
            self._run = None

    def listening(self, run: _Run) -> None:
        """Connect."""
        if run is self._run:
            _log.info("mosquitto listens on %s:%d", self._broker.host, self._broker.port)
            self._connection.dial()

    def _set_aside(self, process: MosquittoProcess) -> None:
        """Let the next one start without the stored messages if those keep it from working: a broker that devices
        reach is worth more than they are.
        """
        self._failures = self._failures + 1 if process.may_be_stored and not process.is_up else 0
        if self._failures < MOST_FAILURES:
            return
        self._failures = 0
        try:
            aside = mosquitto_files.set_aside_messages(self._broker.directory)
        except OSError as error:
            _log.error("mosquitto's stored messages cannot be set aside: %s", error)
            return
        if aside is not None:
            _log.error("mosquitto does not start with the messages that it has stored: they are set aside in %s", aside)

    def ended(self, run: _Run, why: str) -> None:
        """Start it again, later."""
        if run is not self._run:
            return
        self._run = None
        self._set_aside(run.process)
        if self.module.clock.monotonic() - self._since >= STEADY:
            self._backoff.reset()
        delay = self._backoff.next(self.module.clock.random)
        _log.error("mosquitto does not run: %s; next try in %.1f s", why, delay)
        self.module.after(delay, self.start)
