"""The unix socket of a runtime inside edgecore."""

import socket
from pathlib import Path
from typing import Final

from modules.runtimes.engine.errors import StateDirectoryError

_MODE: Final = 0o600
_ADDRESS_LIMIT: Final = 107


def listen_for_cri(address: Path) -> socket.socket:
    """Return a listening socket that only this user can open; replaces one that a killed process left.

    Raises StateDirectoryError.
    """
    attempt = f'listen on "{address}"'
    if len(bytes(address)) > _ADDRESS_LIMIT:
        reason = f"a unix socket's path holds {_ADDRESS_LIMIT} bytes"
        raise StateDirectoryError(attempt, reason, "configure a shorter path")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        address.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        address.unlink(missing_ok=True)
        listening.bind(str(address))
        address.chmod(_MODE)
        listening.listen()
    except OSError as error:
        listening.close()
        raise StateDirectoryError(attempt, str(error)) from error
    return listening
