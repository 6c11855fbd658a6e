"""Whether a mapper is alive, as its socket shows."""

from pathlib import Path
from typing import Final

from beehive.sockets.unix_sockets import connect_unix

_CONNECT_SECONDS: Final = 1.0


def is_served(path: Path) -> bool:
    """Return whether a process listens on a socket; a process that takes no connection within a second hangs, and
    listens.
    """
    try:
        connect_unix(path, _CONNECT_SECONDS).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
