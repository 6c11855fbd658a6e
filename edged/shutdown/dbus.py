"""A connection to the system's message bus.

A library for it would be one more dependency and some megabytes on every node, for two calls and one signal; and a
child process of `systemd-inhibit` and `busctl` one or two processes that have to be watched.
"""

import os
import socket
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from edged.shutdown.errors import BusError
from edged.shutdown.wire import FIXED, Field, Kind, Message, decode, encode, length

SYSTEM_BUS: Final = Path("/run/dbus/system_bus_socket")
CALL_SECONDS: Final = 25.0
"""How long an answer is waited for (D-Bus libraries' own)."""
_BUS: Final = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
_MOST_DESCRIPTORS: Final = 4
_LONGEST_LINE: Final = 512


class Bus:
    """See the module's docstring. A context manager. Used by one thread, but for `wake`.

    Args:
        path: socket of the bus.

    Raises:
        BusError: there is no bus, or it does not let this user in.
    """

    def __init__(self, path: Path = SYSTEM_BUS) -> None:
        self._path = path
        self._serial = 0
        self._waiting: deque[Message] = deque()
        self._descriptors: deque[int] = deque()
        self._received = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.settimeout(CALL_SECONDS)
            self._socket.connect(str(path))
            self._let_in()
            self.call(*_BUS, "Hello")
        except OSError as error:
            self.close()
            raise BusError("connect to the bus", str(path), str(error)) from error
        except BusError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, destination: str, path: str, interface: str, member: str, signature: str = "", *body: Any) -> Any:
        """Call a method; the first value of its answer, None without any. Signals that come meanwhile are kept.

        Raises:
            BusError: it is refused, or does not come.
        """
        fields: dict[int, Any] = {
            Field.PATH: path, Field.DESTINATION: destination, Field.INTERFACE: interface, Field.MEMBER: member,
        }  # fmt: skip
        if signature:
            fields[Field.SIGNATURE] = signature
        serial = self.send(Kind.CALL, fields, *body)
        self._socket.settimeout(CALL_SECONDS)
        while True:
            answer = self._read()
            if answer.kind not in (Kind.RETURN, Kind.ERROR) or answer.field(Field.REPLY_SERIAL) != serial:
                self._waiting.append(answer)
                continue
            if answer.kind is Kind.ERROR:
                why = answer.body[0] if answer.body else answer.field(Field.ERROR_NAME)
                raise BusError(f"call {member} of {destination}", str(self._path), str(why))
            return answer.body[0] if answer.body else None

    def listen(self, interface: str, member: str) -> None:
        """Have a signal delivered. Raises BusError."""
        self.call(*_BUS, "AddMatch", "s", f"type='signal',interface='{interface}',member='{member}'")

    def has_name(self, connection: str, name: str) -> bool:
        """Whether a name on the bus is this connection's now: anybody may send what looks like another's signal."""
        try:
            return bool(self.call(*_BUS, "GetNameOwner", "s", name) == connection)
        except BusError:
            return False

    def receive(self) -> Message:
        """The next message that is no answer; waits as long as it takes. Raises BusError when the bus is gone."""
        if self._waiting:
            return self._waiting.popleft()
        with suppress(OSError):
            self._socket.settimeout(None)
        return self._read()

    def send(self, kind: Kind, fields: dict[int, Any], *body: Any) -> int:
        """Send a message; its number. Raises BusError."""
        self._serial += 1
        try:
            self._socket.sendall(encode(Message(kind, self._serial, fields, body)))
        except OSError as error:
            raise BusError("send to the bus", str(self._path), str(error)) from error
        return self._serial

    def take_descriptor(self) -> int:
        """A file descriptor that came with an answer; whoever takes it closes it. Raises BusError."""
        if not self._descriptors:
            raise BusError("take what the bus has passed", str(self._path), "it came without a file descriptor")
        return self._descriptors.popleft()

    def wake(self) -> None:
        """Tell who waits for a message that the bus is gone; may be called on any thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of it."""
        self.wake()
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _let_in(self) -> None:
        """As this process's user, with file descriptors."""
        user = str(os.geteuid()).encode().hex()
        self._socket.sendall(b"\0AUTH EXTERNAL " + user.encode() + b"\r\n")
        self._expect(b"OK ")
        self._socket.sendall(b"NEGOTIATE_UNIX_FD\r\n")
        self._expect(b"AGREE_UNIX_FD")
        self._socket.sendall(b"BEGIN\r\n")

    def _expect(self, begin: bytes) -> None:
        line = b""
        while not line.endswith(b"\r\n"):
            more = self._socket.recv(1)
            line += more
            if not more or len(line) > _LONGEST_LINE:
                break
        if not line.startswith(begin):
            said = line.decode("ascii", "replace").strip()
            raise BusError("be let in by the bus", str(self._path), f"it says {said!r}")

    def _read(self) -> Message:
        head = self._take(FIXED)
        return decode(head + self._take(length(head) - FIXED))

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    self._socket, 4096, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
            except OSError as error:
                raise BusError("hear from the bus", str(self._path), str(error)) from error
            self._descriptors.extend(descriptors)
            if not data:
                raise BusError("hear from the bus", str(self._path), "it has closed the connection")
            self._received += data
        taken, self._received = self._received[:size], self._received[size:]
        return taken
