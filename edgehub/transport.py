"""One TCP or TLS connection that never blocks for longer than it is told, and that a bell can wake.

Everything of a link happens on one thread, so that reading, writing and pinging cannot die apart, and because Python's
TLS objects must not be used by two threads at once. Other threads only ring the bell.
"""

import errno
import fcntl
import math
import os
import select
import socket
import struct
import termios
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from beehive import Clock
from edgehub.errors import ClosedHereError, DialError, LinkError
from edgehub.patience import Flow
from edgehub.upgrade import Target

if TYPE_CHECKING:
    import ssl

_QUEUED = struct.Struct("=i")
_INFO = struct.Struct("=56xI60xQ")
"""Of `struct tcp_info` (linux/tcp.h): tcpi_last_ack_recv, in milliseconds, and tcpi_bytes_acked, since Linux 4.1."""

ContextFactory = Callable[[], "ssl.SSLContext"]
"""Makes the TLS context for one connection, so that a renewed certificate is used from the next one on."""


class Transport:
    """See the module's docstring.

    Args:
        target: where to connect.
        clock: for deadlines.
        make_context: of TLS; needed when the target is secure.
    """

    def __init__(self, target: Target, clock: Clock, make_context: ContextFactory | None = None) -> None:
        self._target = target
        self._clock = clock
        self._make_context = make_context
        self._socket: socket.socket | None = None
        self._would_block: tuple[type[OSError], ...] = (BlockingIOError,)
        self._lock = threading.Lock()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rung = False
        self._closed = False
        self.stopping = False
        """Set by `stop`: whoever dials gives up, whoever serves comes to an end."""

    def ring(self) -> None:
        """Wake whoever waits; any thread. Once is enough until it was heard: each write costs a switch of threads."""
        with self._lock:
            if not self._closed and not self._rung:
                self._rung = True
                os.eventfd_write(self._bell, 1)

    def stop(self) -> None:
        """Say that the connection is no longer wanted; any thread."""
        self.stopping = True
        self.ring()

    def connect(self, deadline: float) -> None:
        """Connect to the first address that answers, with TLS if the target is secure.

        Args:
            deadline: monotonic seconds of the clock.

        Raises:
            DialError: nobody answered in time, or the certificate was refused.
            ClosedHereError: `stop` was called meanwhile.
        """
        try:
            addresses = socket.getaddrinfo(self._target.host, self._target.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise DialError("cannot find the cloud", str(self._target), str(error)) from error
        failure = DialError("cannot connect to the cloud", str(self._target), "the name has no address")
        for index, (family, _, _, _, address) in enumerate(addresses):
            share = (deadline - self._clock.monotonic()) / (len(addresses) - index)
            try:
                self._connect_to(family, address, self._clock.monotonic() + share)
                break
            except OSError as error:
                self._drop_socket()
                failure = DialError("cannot connect to the cloud", str(self._target), str(error))
        else:
            raise failure
        if self._target.secure:
            self._secure(deadline)

    def wait(self, *, write: bool, until: float) -> None:
        """Wait until there is something to read (or, if asked for, room to write), the bell rings, or it is `until`."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(self._connected(), select.POLLIN | (select.POLLOUT if write else 0))
        seconds = max(0.0, until - self._clock.monotonic())
        ready = poll.poll(math.ceil(min(seconds, 3600.0) * 1000))
        if any(descriptor == self._bell for descriptor, _ in ready):
            self._hear()

    def receive(self, size: int) -> bytes | None:
        """What has come, at most `size` bytes; empty at the end of the stream, None when nothing is there."""
        try:
            return self._connected().recv(size)
        except self._would_block:
            return None

    def send(self, data: memoryview) -> int:
        """Hand over as much as fits; returns how many bytes that was."""
        try:
            return self._connected().send(data)
        except self._would_block:
            return 0
        except OSError as error:
            raise self._last_words() or error from None

    def _last_words(self) -> OSError | None:
        """The alert with which the peer has ended TLS, if one waits to be read.

        With TLS 1.3 a client's certificate is judged after the handshake, and who writes meanwhile meets a closed
        connection before the reason of it.
        """
        try:
            self._connected().recv(1)
        except OSError as error:
            return error if "ALERT" in str(getattr(error, "reason", "")) else None
        return None

    def flow(self) -> Flow:
        """How much of what was sent the peer's kernel has taken; bytes of TLS count as what they carry."""
        try:
            (queued,) = _QUEUED.unpack(fcntl.ioctl(self._connected(), termios.TIOCOUTQ, bytes(_QUEUED.size)))
            info = self._connected().getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        except OSError:
            return Flow()
        if len(info) < _INFO.size:
            return Flow()
        milliseconds, taken = _INFO.unpack(info)
        return Flow(taken, queued, milliseconds / 1000)

    def end_writing(self) -> None:
        """Say that nothing more will be sent."""
        self._connected().shutdown(socket.SHUT_WR)

    def explain(self, error: OSError) -> str:
        """What a failure of this connection means."""
        if not self._target.secure:
            return str(error)
        from edgehub.certificates.diagnosis import explain  # noqa: PLC0415 - for TLS only, as `ssl`

        return explain(error)

    def close(self) -> None:
        """Free everything; idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._bell)
        self._drop_socket()

    def _connect_to(self, family: int, address: object, deadline: float) -> None:
        connection = self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(0.0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = connection.connect_ex(address)  # type: ignore[arg-type]
        if code == errno.EINPROGRESS:
            self._await(deadline, DialError("cannot connect to the cloud", str(self._target), "no answer"), write=True)
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def _secure(self, deadline: float) -> None:
        import ssl  # noqa: PLC0415 - 1.2 MB that a node without TLS does not need

        self._would_block = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        late = DialError("no TLS with the cloud in time", str(self._target), "see the cloud's log")
        try:
            context = self._make_context() if self._make_context else ssl.create_default_context()
            connection = self._socket = context.wrap_socket(
                self._connected(), server_hostname=self._target.host, do_handshake_on_connect=False
            )
            while True:
                try:
                    connection.do_handshake()
                    return
                except ssl.SSLWantReadError:
                    self._await(deadline, late, write=False)
                except ssl.SSLWantWriteError:
                    self._await(deadline, late, write=True)
        except OSError as error:
            raise DialError("no TLS with the cloud", str(self._target), self.explain(error)) from error

    def _await(self, deadline: float, late: LinkError, *, write: bool) -> None:
        """Wait while dialling: only for what is asked for, and not beyond the deadline.

        Raises:
            LinkError: `late`, when the deadline has passed; `ClosedHereError`, when `stop` was called.
        """
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(self._connected(), select.POLLOUT if write else select.POLLIN)
        while True:
            ready = poll.poll(math.ceil(max(0.0, deadline - self._clock.monotonic()) * 1000))
            if self.stopping:
                raise ClosedHereError
            if not ready:
                raise late
            if any(descriptor != self._bell for descriptor, _ in ready):
                return
            self._hear()

    def await_answer(self, deadline: float, late: LinkError) -> None:
        """Wait for something to read while the peer still has to agree; see `connect` for what it raises."""
        self._await(deadline, late, write=False)

    def _hear(self) -> None:
        """The bell has rung. Who rings from here on is heard by the next wait; what was done before is there now."""
        with self._lock:
            self._rung = False
            os.eventfd_read(self._bell)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._socket

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
