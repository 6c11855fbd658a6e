"""A file that another program renews: a projected token, a rotated certificate."""

import os
import stat
from typing import TYPE_CHECKING, Final

from modules.cloud.client.credentials.errors import no_credentials

if TYPE_CHECKING:
    from beehive.clock import Clock

MAX_BYTES: Final = 1024 * 1024
"""Size of the largest file that is read."""
PERIOD: Final = 60.0
"""Seconds after which a file is read again even if its time is unchanged (client-go's cachingTokenSource)."""


class WatchedFile:
    """Reads a file again when its modification time changes, a minute has passed, or its content was refused.

    Args:
        path: of a regular file.
        field: of the kubeconfig, for errors.
        clock: for the minute.
    """

    def __init__(self, path: str, field: str, clock: "Clock") -> None:
        self._path = path
        self._field = field
        self._clock = clock
        self._content = b""
        self._identity: tuple[int, int, int] | None = None
        self._read_at = 0.0

    def content(self) -> bytes:
        """Return the file's bytes.

        Raises:
            KubeCredentialsError: it cannot be read, is too long, or empty.
        """
        now = self._clock.monotonic()
        try:
            identity = self._stat()
            if identity != self._identity or now >= self._read_at + PERIOD:
                self._content, self._identity, self._read_at = self._read(), identity, now
        except OSError as error:
            why = f"{self._field}: {error.strerror}: name a file that this user may read"
            raise no_credentials(self._path, why) from error
        return self._content

    def forget(self) -> None:
        """Read the file again when it is needed next."""
        self._identity = None

    def _stat(self) -> tuple[int, int, int]:
        found = os.stat(self._path)  # noqa: PTH116 - for each request: a Path costs as much again
        if not stat.S_ISREG(found.st_mode):
            raise no_credentials(self._path, f"{self._field} is not a regular file")
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> bytes:
        with open(self._path, "rb") as file:  # noqa: PTH123 - as above
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise no_credentials(self._path, f"{self._field} is longer than {MAX_BYTES} bytes")
        if not content.strip():
            raise no_credentials(self._path, f"{self._field} is empty")
        return content
