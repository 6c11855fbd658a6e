"""A connection to the system's message bus, by jeepney. Imported only where `shutdownGracePeriod` is set.

jeepney adds 0.2 MB of resident memory and 7 ms; of it, the messages and the authentication are used. The socket is
ours, because jeepney's own connection takes messages of any size and cannot be woken from another thread.
"""

import itertools
import socket
import struct
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from jeepney.auth import BEGIN, AuthenticationError, Authenticator
from jeepney.fds import FileDescriptor
from jeepney.low_level import HeaderFields, Message, MessageType, Parser
from jeepney.wrappers import DBusAddress, new_method_call

from edged.errors import BusError

CALL_SECONDS: Final = 25.0
"""Longest wait for an answer, in seconds (the default of D-Bus libraries)."""
MAX_MESSAGE: Final = 64 * 1024
"""Bytes of a message that are read; logind's have some hundred."""
MOST_SIGNALS: Final = 64
"""Signals that wait while an answer is read."""

_BUS: Final = ("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
_MAX_DESCRIPTORS: Final = 253
"""File descriptors that Linux passes with one message (SCM_MAX_FD)."""
_LINE_BYTES: Final = 512
_MALFORMED: Final = (AssertionError, IndexError, KeyError, RecursionError, TypeError, ValueError, struct.error)
"""Raised by jeepney for a message that it cannot read."""


class CallRefusedError(BusError):
    """The answer to a call is an error."""


class BusSignal(NamedTuple):
    """A signal of the bus."""

    sender: str
    """Unique name of the connection that sent it."""
    member: str
    body: tuple[Any, ...]


class Bus:
    """A connection to the bus, as a context manager; one thread uses it, any thread may call `wake`.

    Args:
        path: socket of the bus.

    Raises:
        BusError: there is no bus, or it refuses this user.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._serials = itertools.count(1)
        self._parser = Parser()
        self._signals: deque[BusSignal] = deque()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.settimeout(CALL_SECONDS)
            self._socket.connect(str(path))
            self._authenticate()
            self.call(_BUS, "Hello")
        except OSError as error:
            self.close()
            raise BusError("connect to the bus", str(path), str(error)) from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, address: tuple[str, str, str], member: str, signature: str = "", *body: Any) -> Any:
        """Call a method and return the first value of its answer, None without any. Signals that come first are kept.

        Args:
            address: path of the object, name of the connection, interface.
            member: name of the method.
            signature: D-Bus types of the arguments.
            body: the arguments.

        Returns:
            A variant as a pair of signature and value.

        Raises:
            BusError: the call is refused, or no answer comes.
        """
        serial = next(self._serials)
        call = new_method_call(DBusAddress(*address), member, signature or None, body)
        try:
            self._socket.settimeout(CALL_SECONDS)
            self._socket.sendall(call.serialise(serial))
        except OSError as error:
            raise BusError("send to the bus", str(self._path), str(error)) from error
        while True:
            message, descriptors = self._read()
            if message.header.fields.get(HeaderFields.reply_serial) != serial:
                self._keep_signal(message, descriptors)
                continue
            value = message.body[0] if message.body else None
            if message.header.message_type is MessageType.error:
                _close(descriptors)
                why = value or message.header.fields.get(HeaderFields.error_name)
                raise CallRefusedError(f"call {member} of {address[1]}", str(self._path), str(why))
            _close(each for each in descriptors if each is not value)
            return value

    def call_for_descriptor(self, address: tuple[str, str, str], member: str, signature: str, *body: Any) -> int:
        """Call a method and return the file descriptor in its answer; the caller closes it. Raise BusError."""
        value = self.call(address, member, signature, *body)
        if not isinstance(value, FileDescriptor):
            raise BusError("receive a file descriptor from the bus", str(self._path), "the answer has none")
        return int(value.to_raw_fd())

    def subscribe(self, interface: str, member: str) -> None:
        """Have a signal delivered. Raise BusError."""
        self.call(_BUS, "AddMatch", "s", f"type='signal',interface='{interface}',member='{member}'")

    def has_name(self, connection: str, name: str) -> bool:
        """Return whether a connection owns a name on the bus now: any user may send what looks like its signal. Raise
        BusError when there is no answer.
        """
        try:
            return bool(self.call(_BUS, "GetNameOwner", "s", name) == connection)
        except CallRefusedError:
            return False

    def receive(self) -> BusSignal:
        """Return the next signal; wait without a limit. Raise BusError when the bus has disconnected."""
        while not self._signals:
            with suppress(OSError):
                self._socket.settimeout(None)
            self._keep_signal(*self._read())
        return self._signals.popleft()

    def wake(self) -> None:
        """Let `receive` raise BusError; may be called on any thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection and the file descriptors that came with an incomplete message."""
        self.wake()
        self._socket.close()
        _close(self._parser.fds)
        self._parser.fds = []

    def _authenticate(self) -> None:
        """Authenticate as this process's user, and agree to pass file descriptors."""
        authenticator = Authenticator(enable_fds=True)
        try:
            for data in authenticator:
                if data:
                    self._socket.sendall(data)
                line = self._socket.recv(_LINE_BYTES)
                if not line:
                    raise BusError("authenticate on the bus", str(self._path), "it has closed the connection")
                authenticator.feed(line)
        except AuthenticationError as error:
            raise BusError("authenticate on the bus", str(self._path), str(error)) from error
        self._socket.sendall(BEGIN)

    def _keep_signal(self, message: Message, descriptors: list[FileDescriptor]) -> None:
        """Keep a signal for `receive`, and drop other messages: any user may send them. Raise BusError when too many
        signals wait.
        """
        _close(descriptors)
        fields = message.header.fields
        if message.header.message_type is MessageType.signal:
            if len(self._signals) >= MOST_SIGNALS:
                raise BusError("read from the bus", str(self._path), f"more than {MOST_SIGNALS} signals wait")
            sender, member = str(fields.get(HeaderFields.sender)), str(fields.get(HeaderFields.member))
            self._signals.append(BusSignal(sender, member, message.body))

    def _read(self) -> tuple[Message, list[FileDescriptor]]:
        """Return the next message and the file descriptors that came with it."""
        try:
            while True:
                waiting = list(self._parser.fds)
                message = self._parser.get_next_message()
                if message is not None:
                    return message, waiting[: len(waiting) - len(self._parser.fds)]
                missing = self._parser.bytes_desired()
                self._check_size(self._parser.next_msg_size or 0)
                self._parser.add_data(*self._receive(missing))
        except _MALFORMED as error:
            raise BusError("read a message of the bus", type(error).__name__) from error

    @staticmethod
    def _check_size(size: int) -> None:
        if size > MAX_MESSAGE:
            raise BusError("read a message of the bus", f"it has {size} bytes", f"at most {MAX_MESSAGE} are read")

    def _receive(self, size: int) -> tuple[bytes, list[FileDescriptor]]:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, size, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise BusError("read from the bus", str(self._path), str(error)) from error
        if not data:
            raise BusError("read from the bus", str(self._path), "it has closed the connection")
        return data, [FileDescriptor(each) for each in descriptors]


def _close(descriptors: Iterable[FileDescriptor]) -> None:
    for descriptor in descriptors:
        descriptor.close()
