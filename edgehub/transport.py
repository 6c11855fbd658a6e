"""The socket of a link: one TCP or TLS connection with deadlines."""

import errno
import fcntl
import math
import os
import select
import socket
import ssl
import struct
import termios
from collections.abc import Callable

from beehive import Clock
from beehive.sockets.dialling import attempts, host_bytes
from beehive.sockets.tls import default_client_context
from beehive.wakeup import Wakeup
from edgehub.certificates.diagnosis import explain
from edgehub.errors import ClosedHereError, DialError, LinkError
from edgehub.ping_deadline import Flow
from edgehub.upgrade import Target

_QUEUED = struct.Struct("=i")
_INFO = struct.Struct("=56xI60xQ")
"""From `struct tcp_info` (linux/tcp.h): tcpi_last_ack_recv, in milliseconds, and tcpi_bytes_acked, since Linux 4.1."""

ContextFactory = Callable[[], "ssl.SSLContext"]
"""Returns the TLS context for one connection; called for each, so that the next one uses a renewed certificate."""


class Transport:
    """One TCP or TLS connection whose calls block no longer than their deadline, and that any thread can wake.

    A single thread connects, reads, writes and pings: so none of them can fail without the others, and Python's TLS
    objects forbid use by two threads at the same time. Other threads only `wake` its wakeup.

    Args:
        target: host and port.
        clock: for deadlines.
        make_context: returns the TLS context of a secure target; None for the system's trust.
    """

    def __init__(self, target: Target, clock: Clock, make_context: ContextFactory | None = None) -> None:
        self._target = target
        self._clock = clock
        self._make_context = make_context
        self._socket: socket.socket | None = None
        self._would_block: tuple[type[OSError], ...] = (BlockingIOError,)
        self._wakeup = Wakeup()
        self.wake = self._wakeup.wake
        """Wakes the link's thread; any thread."""
        self.stopping = False
        """Set by `stop`: the link's thread stops dialling or serving."""

    def stop(self) -> None:
        """Ask the link's thread to end the connection; any thread."""
        self.stopping = True
        self.wake()

    def connect(self, deadline: float) -> None:
        """Connect to the first address that answers, with TLS if the target is secure.

        Args:
            deadline: monotonic seconds of the clock.

        Raises:
            DialError: no address answered in time, or TLS failed.
            ClosedHereError: `stop` was called meanwhile.
        """
        try:
            seconds = deadline - self._clock.monotonic()
            addresses = attempts(self._target.host, self._target.port, self._clock, seconds)
        except OSError as error:
            raise DialError("cannot find the cloud", str(self._target), str(error)) from error
        failure = DialError("cannot connect to the cloud", str(self._target), "the name has no address")
        for attempt in addresses:
            try:
                self._connect_to(attempt.family, attempt.address, self._clock.monotonic() + attempt.seconds)
                break
            except DialError as error:
                self._drop_socket()
                failure = error
            except OSError as error:
                self._drop_socket()
                failure = DialError("cannot connect to the cloud", str(self._target), str(error))
        else:
            raise failure
        if self._target.secure:
            self._secure(deadline)

    def wait(self, *, write: bool, until: float) -> bool:
        """Wait until the socket is readable (with `write`: or writable), `wake` is called, or `until` has come.

        Returns whether to read: the socket is readable or broken, TLS holds decrypted bytes, or `until` has come, and
        something may have arrived just before.
        """
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._connected(), select.POLLIN | (select.POLLOUT if write else 0))
        seconds = max(0.0, until - self._clock.monotonic())
        ready = poll.poll(math.ceil(min(seconds, 3600.0) * 1000))
        events = dict(ready)
        if self._wakeup.fileno() in events:
            self._wakeup.clear()  # a later wake ends the next wait; what was done before it is visible already
        connection = self._connected()
        if not events or events.get(connection.fileno(), 0) & ~select.POLLOUT:
            return True
        return self._target.secure and isinstance(connection, ssl.SSLSocket) and connection.pending() > 0

    def receive(self, size: int) -> bytes | None:
        """Read at most `size` bytes; empty at the end of the stream, None when nothing has arrived."""
        try:
            return self._connected().recv(size)
        except self._would_block:
            return None

    def send(self, data: memoryview) -> int:
        """Write as much as the socket's buffer takes; return the number of bytes."""
        try:
            return self._connected().send(data)
        except self._would_block:
            return 0
        except OSError as error:
            raise self._tls_alert() or error from None

    def _tls_alert(self) -> OSError | None:
        """Return the alert of the peer that ended TLS, if it can be read.

        In TLS 1.3 the peer verifies the client's certificate after the handshake. A write in between fails with a
        closed connection, and only reading reveals why.
        """
        try:
            self._connected().recv(1)
        except OSError as error:
            return error if "ALERT" in str(getattr(error, "reason", "")) else None
        return None

    def flow(self) -> Flow:
        """Return how many bytes the peer's kernel has acknowledged, counted as TCP carries them (TLS included)."""
        try:
            (unacknowledged,) = _QUEUED.unpack(fcntl.ioctl(self._connected(), termios.TIOCOUTQ, bytes(_QUEUED.size)))
            info = self._connected().getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        except OSError:
            return Flow()
        if len(info) < _INFO.size:
            return Flow()
        milliseconds, acknowledged = _INFO.unpack(info)
        return Flow(acknowledged, unacknowledged, milliseconds / 1000)

    def end_writing(self) -> None:
        """Shut down the sending side."""
        self._connected().shutdown(socket.SHUT_WR)

    def explain(self, error: OSError) -> str:
        """Return the text for a failure of this connection; for TLS with a hint."""
        return explain(error) if self._target.secure else str(error)

    def close(self) -> None:
        """Close the socket and the wakeup; idempotent."""
        self._wakeup.close()
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
        self._would_block = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        late = DialError("no TLS with the cloud in time", str(self._target), "see the cloud's log")
        try:
            context = self._make_context() if self._make_context else default_client_context()
            connection = self._socket = context.wrap_socket(
                self._connected(), server_hostname=host_bytes(self._target.host), do_handshake_on_connect=False
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
        """Wait while dialling until the socket is writable (or readable).

        Raises:
            LinkError: `late`, when the deadline has passed; `ClosedHereError`, when `stop` was called.
        """
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._connected(), select.POLLOUT if write else select.POLLIN)
        while True:
            ready = poll.poll(math.ceil(max(0.0, deadline - self._clock.monotonic()) * 1000))
            if self.stopping:
                raise ClosedHereError
            if not ready:
                raise late
            if any(descriptor != self._wakeup.fileno() for descriptor, _ in ready):
                return
            self._wakeup.clear()

    def await_answer(self, deadline: float, late: LinkError) -> None:
        """Wait until the socket is readable during the handshake; raises `late`, or ClosedHereError after `stop`."""
        self._await(deadline, late, write=False)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._socket

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
