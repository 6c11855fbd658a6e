"""The checks of a cloudcore before it starts anything: its directory, no other cloudcore there, and the manifests."""

import argparse
import socket
import struct
from pathlib import Path

from beehive.errors import BeehiveError
from beehive.files.advice import advice
from beehive.sockets.unix_sockets import connect_unix

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group in SO_PEERCRED."""


class CloudStartError(BeehiveError):
    """cloudcore cannot start with these options."""


def prepare(chosen: argparse.Namespace) -> None:
    """Make the cloud's directory, and check that no cloudcore runs there.

    Raises:
        CloudStartError: the directory cannot be made, another cloudcore answers on the control socket, or the directory
            of manifests does not exist.
    """
    if chosen.manifests and not chosen.manifests.is_dir():
        raise CloudStartError("cannot read the manifests", str(chosen.manifests), "--manifests wants a directory")
    for directory in (chosen.root, chosen.socket.parent):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            hint = f"{advice(error)}; --root names another"
            raise CloudStartError("cannot use the cloud's directory", str(directory), hint) from error
    owner = running(chosen.socket)
    if owner:
        hint = f"process {owner}; stop that one first, or give this one another --root and --listen"
        raise CloudStartError("another cloudcore is running there", str(chosen.socket), hint)


def running(path: Path) -> int:
    """Return the id of the process that answers on a control socket; 0 if none does."""
    if not path.is_socket():
        return 0
    try:
        with connect_unix(path) as probe:
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return 0
    process, _, _ = _CREDENTIALS.unpack(credentials)
    return int(process)
