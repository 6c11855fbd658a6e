"""The one thread that waits for the parents of all containers."""

import logging
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from beehive.files.descriptors import SHORTAGES
from beehive.on_failure import on_failure
from beehive.wakeup import Wakeup

_log = logging.getLogger(__name__)


class Watched(Protocol):
    """A descriptor that reports the end of a container: the connection to its shim, or the pidfd of its conmon."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    def read(self) -> bool:
        """Handle the messages that have arrived; return False when no more will come."""

    def gone(self) -> None:
        """Close, and handle the end.

        Raises OSError: for a shortage of the process or machine it is called again.
        """

    def close(self) -> None:
        """Close; the container goes on. Idempotent."""


class ProcessWatcher:
    """The watcher that reads each connection to a shim as soon as it has packets, and notices the end of each conmon,
    without polling.

    It stands outside the actor model on purpose: the runtime is a gRPC server like any other, which
    edged reaches through its socket; no module shares an object with it, and it could as well be another process. It
    waits for sockets of real processes, which no virtual clock can advance.
    """

    def __init__(self) -> None:
        self._stop = Wakeup()
        with on_failure(self._stop.close):
            self._epoll = select.epoll()
            self._epoll.register(self._stop, select.EPOLLIN)
        self._links: dict[int, Watched] = {}
        self._gone: list[Watched] = []
        """Ends that could not be handled for a shortage."""
        self._reading = threading.RLock()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="process-watcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close all connections; the containers go on."""
        self._stopping = True
        self._stop.wake()
        if self._thread.is_alive():
            self._thread.join()
        with self._reading:
            for link in self._links.values():
                link.close()
            self._links.clear()
            self._epoll.close()
        self._stop.close()

    def add(self, link: Watched) -> None:
        """Read this connection from now on. Raises OSError, and then closes it."""
        with self._reading:
            with on_failure(link.close):
                self._epoll.register(link.fileno(), select.EPOLLIN)
            self._links[link.fileno()] = link

    def remove(self, link: Watched) -> None:
        """Read this connection no longer, and close it without a report."""
        with self._reading:
            if self._links.pop(link.fileno(), None) is not None:
                self._epoll.unregister(link.fileno())
            link.close()

    def settle(self) -> None:
        """Handle the messages that have arrived so far, in the caller's thread.

        Listings call it, so that a container with an exit record is never listed as running. Ends that could not be
        handled for want of descriptors or memory are tried again.
        """
        with self._reading:
            gone, self._gone = self._gone, []
            for each in gone:
                self._end(each)
            for descriptor, _ in self._epoll.poll(0):
                if link := self._links.get(descriptor):
                    self._read(descriptor, link)

    def _read(self, descriptor: int, link: Watched) -> None:
        with self._outlived():
            if link.read():
                return
        self._epoll.unregister(descriptor)
        del self._links[descriptor]
        self._end(link)

    def _end(self, link: Watched) -> None:
        with self._outlived():
            try:
                link.gone()
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise
                _log.error("the end of a container is handled later: %s", error)
                self._gone.append(link)

    @contextmanager
    def _outlived(self) -> Iterator[None]:
        """Log any error about one container, so that the thread survives it."""
        try:
            yield
        except Exception:  # noqa: BLE001 (see above)
            _log.exception("what came from the parent of a container cannot be dealt with; it is no longer watched")

    def _run(self) -> None:
        while not self._stopping:
            self._epoll.poll()
            self.settle()
