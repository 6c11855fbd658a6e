"""The one thread that waits for all shepherds.

It stands outside of the actor model on purpose: the embedded runtime is a gRPC server as any other runtime's, which
edged reaches through its socket; no module shares an object with it, and it could as well be another process. What it
waits for are sockets of real processes, which no virtual clock can advance.
"""

import logging
import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from edged.embedded.link import ShepherdLink

_log = logging.getLogger(__name__)


class Watcher:
    """Reads every link as soon as there is something; no polling."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._links: dict[int, ShepherdLink] = {}
        self._reading = threading.RLock()
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._stop, select.EPOLLIN)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="embedded-runtime-watcher", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def stop(self) -> None:
        """Wait no more and close all links; the containers behind them go on."""
        self._stopping = True
        os.eventfd_write(self._stop, 1)
        if self._thread.is_alive():
            self._thread.join()
        with self._reading:
            for link in self._links.values():
                link.close()
            self._links.clear()
            self._epoll.close()
        os.close(self._stop)

    def add(self, link: ShepherdLink) -> None:
        """Read this link from now on."""
        with self._reading:
            self._links[link.fileno()] = link
            self._epoll.register(link.fileno(), select.EPOLLIN)

    def settle(self) -> None:
        """Deal with everything that shepherds have said until now, in the caller's thread.

        Listings call it, so that a container whose end is written down is never listed as running.
        """
        with self._reading:
            for descriptor, _ in self._epoll.poll(0):
                if link := self._links.get(descriptor):
                    self._read(descriptor, link)

    def _read(self, descriptor: int, link: ShepherdLink) -> None:
        with self._outlived():
            if link.read():
                return
        self._epoll.unregister(descriptor)
        del self._links[descriptor]
        with self._outlived():
            link.gone()

    @contextmanager
    def _outlived(self) -> Iterator[None]:
        """The thread must outlive whatever goes wrong with one shepherd."""
        try:
            yield
        except Exception:  # noqa: BLE001 (see above)
            _log.exception("a shepherd said something that cannot be dealt with; its connection is closed")

    def _run(self) -> None:
        while not self._stopping:
            self._epoll.poll()
            self.settle()
