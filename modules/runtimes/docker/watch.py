"""The connection to Docker Engine: its event stream, which reports the ends of containers, and whether Docker can be
reached.

While the stream is broken the state of containers is unknown: CRI requests are refused as UNAVAILABLE, and no container
counts as ended. When Docker can be reached again all states are compared, so a missed event does no harm.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from beehive.decoding import decode_json
from beehive.http.errors import HttpError
from modules.runtimes.docker.answers import DockerEvent
from modules.runtimes.docker.client import DockerClient, Exchange, Query
from modules.runtimes.docker.errors import DockerUnreachableError
from modules.runtimes.engine.errors import RequestRefusedError

_log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
"""Seconds between two attempts to reach Docker."""
_LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes of an event, which carries all labels."""
_ATTEMPT: Final = "follow Docker's events"


class ContainerStates(Protocol):
    """The states of Docker's containers."""

    def compare(self) -> None:
        """Take over all states from Docker after it was unreachable. Raises RequestRefusedError."""

    def ended(self, container_id: str) -> None:
        """Take over the end of a container. Raises RequestRefusedError."""


class DockerWatch:
    """The watch of Docker's events, on a thread of its own.

    Like `ProcessWatcher` it is outside the actor model. Its pauses are real time: it waits for a real daemon.

    Args:
        docker: Docker's API.
        events: the query for them.
        states: are kept up to date.
    """

    def __init__(
        self,
        docker: DockerClient,
        events: Query,
        states: ContainerStates,
    ) -> None:
        self._docker = docker
        self._events = events
        self._states = states
        self._lock = threading.Lock()
        self._exchange: Exchange | None = None
        self._stopping = threading.Event()
        self._tried = threading.Event()
        self._problem: RequestRefusedError | None = None
        self._thread = threading.Thread(target=self._run, name="docker-events", daemon=True)

    def start(self) -> None:
        """Start, and return after the first attempt to reach Docker."""
        self._thread.start()
        self._tried.wait()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        with self._lock:
            if self._exchange is not None:
                with suppress(OSError):
                    self._exchange.socket.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join()

    def settle(self) -> None:
        """Raise DockerUnreachableError while containers' states are unknown."""
        if (problem := self._problem) is not None:
            raise DockerUnreachableError("tell the states of containers", problem.reason, problem.hint)

    @property
    def problem(self) -> str:
        """The reason why Docker cannot be reached; empty if it can."""
        return str(self._problem or "")

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                if self._follow():
                    pause = _FIRST_PAUSE
            except Exception:  # noqa: BLE001 - the thread must survive whatever one event leads to
                _log.exception("Docker's events cannot be dealt with")
            self._tried.set()
            self._stopping.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _follow(self) -> bool:
        """Follow the events until the stream breaks; return whether a stream was opened."""
        try:
            self._docker.negotiate()
            exchange = self._docker.stream("GET", "/events", _ATTEMPT, self._events)
        except RequestRefusedError as error:
            self._lost(error)
            return False
        with self._lock:
            self._exchange = exchange
        try:
            self._states.compare()
            self._problem = None
            self._tried.set()
            self._read(exchange)
        except RequestRefusedError as error:
            self._lost(error)
        except (OSError, HttpError) as error:
            self._lost(self._docker.unreachable(_ATTEMPT, error))
        finally:
            with self._lock:
                self._exchange = None
            exchange.close()
        return True

    def _read(self, exchange: Exchange) -> None:
        rest = b""
        while not self._stopping.is_set():
            piece = exchange.piece()
            if not piece:
                raise HttpError(502, "Docker has ended the stream of events")
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                raise HttpError(502, "an event of Docker's is too long")
            for line in lines:
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            event = decode_json(line, DockerEvent)
        except (msgspec.MsgspecError, UnicodeError):
            return
        if event.actor.id:
            self._states.ended(event.actor.id)

    def _lost(self, error: RequestRefusedError) -> None:
        if self._problem is None and not self._stopping.is_set():
            _log.warning("%s; containers go on, and nothing is known about them until it is back", error)
        self._problem = error
