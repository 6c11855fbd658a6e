"""Whether a mapper is alive, as its socket shows."""

import socket
from pathlib import Path
from typing import Final

from beehive.http.listening import short_name

_CONNECT_SECONDS: Final = 1.0


def is_served(path: Path) -> bool:
    """Return whether a process listens on a socket; one that takes no connection within a second hangs, and listens."""
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.settimeout(_CONNECT_SECONDS)
        try:
            with short_name(path) as name:
                attempt.connect(name)
        except TimeoutError:
            return True
        except OSError:
            return False
    return True
