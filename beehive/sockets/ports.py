"""Who listens on the machine's ports, and why a process cannot listen on an address, in words that help."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

import msgspec

from beehive.errors import BeehiveError
from beehive.printable import printable

_LISTENING: Final = {"tcp": "0A", "udp": "07"}
"""State of a socket that takes what any client sends, in the tables of /proc/net."""

_PROC: Final = Path("/proc")


class ListeningSocket(msgspec.Struct, frozen=True):
    """A socket that takes what any client sends to a port."""

    address: IPv4Address | IPv6Address
    port: int
    inode: str


class ListenError(BeehiveError):
    """An address cannot be listened on."""


@contextmanager
def listen_errors(address: str, port: int, setting: str) -> Iterator[None]:
    """Convert an OSError of listening on an address to a ListenError with advice.

    Args:
        address: host or IP address.
        port: TCP port.
        setting: the option or key that chooses the address.
    """
    try:
        yield
    except OSError as error:
        raise ListenError("cannot listen on", f"{address}:{port}", listen_hint(error, port, setting)) from error


def listen_hint(error: OSError, port: int, setting: str) -> str:
    """Return why an address cannot be listened on, and which setting chooses another."""
    another = f"{setting} chooses another"
    if error.errno == errno.EADDRINUSE:
        return f"the port is taken by {holder(port) or 'another process'}; stop that one, or {another}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"no interface of this machine has this address; {another}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"only root may listen on ports below 1024; {another}"
    return f"{error.strerror or error}; {another}"


def holder(port: int) -> str:
    """Return the process that listens on a TCP port, as `process 17 (name)`; empty if /proc does not show it to this
    user.
    """
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for process in _PROC.glob("[0-9]*") if wanted else ():
        with suppress(OSError), os.scandir(process / "fd") as files:  # it has ended, or is another user's
            if any(_target(each) in wanted for each in files):
                return f"process {process.name} ({_name(process)})"
    return ""


def _target(entry: os.DirEntry[str]) -> str:
    with suppress(OSError):
        return os.readlink(entry.path)  # noqa: PTH115 - a Path for each descriptor of the machine is slow
    return ""


def _name(process: Path) -> str:
    return printable((process / "comm").read_text(errors="replace").strip())


def _listening_inodes(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port."""
    return {each.inode for each in listeners("tcp") if each.port == port}


def listeners(protocol: str) -> Iterator[ListeningSocket]:
    """Yield the listening sockets of the calling thread's network namespace.

    Args:
        protocol: `tcp` or `udp`.
    """
    for table in (protocol, f"{protocol}6"):
        with suppress(OSError):
            for line in (_PROC / "thread-self/net" / table).read_text().splitlines()[1:]:
                cells = line.split()
                if cells[3] == _LISTENING[protocol]:
                    address, _, port = cells[1].partition(":")
                    yield ListeningSocket(_address(address), int(port, 16), cells[9])


def _address(text: str) -> IPv4Address | IPv6Address:
    """Return an address as the kernel writes it: words of 32 bits, each in the machine's order."""
    words = (int(text[at : at + 8], 16) for at in range(0, len(text), 8))
    return ip_address(b"".join(each.to_bytes(4, sys.byteorder) for each in words))
