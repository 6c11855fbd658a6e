"""Brings the loopback interface of a new network namespace up, then becomes the command of its arguments."""

import fcntl
import os
import socket
import struct
import sys
from typing import Final

_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1

if __name__ == "__main__":
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - its own command line
