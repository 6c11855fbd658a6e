"""A blob that is being fetched: a file that a later attempt resumes, and its hash so far."""

import os
from pathlib import Path

from beehive.on_failure import on_failure
from modules.runtimes.oci.images.worker.digests import hash_of

_CHUNK = 1024 * 1024


class BlobFile:
    """The file of one blob. Not thread-safe.

    Args:
        path: of the file; its present content is taken for the beginning of the blob.
        digest: of the whole blob.
        size: of it, in bytes.
    """

    def __init__(self, path: Path, digest: str, size: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._path = path
        self._digest = digest
        self._hash = hash_of(digest)
        self.descriptor = os.open(path, flags, 0o600)
        self._position = 0
        with on_failure(self.close):
            if os.fstat(self.descriptor).st_size > size:
                self.restart()
            while chunk := os.read(self.descriptor, _CHUNK):
                self._hash.update(chunk)
                self._position += len(chunk)

    def position(self) -> int:
        """Return the bytes that are there."""
        return self._position

    def write(self, data: bytes) -> None:
        """Add bytes at the end. Raises OSError; the bytes that fitted are kept then, and a later attempt goes on."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self.descriptor, view, self._position)
            self._hash.update(view[:written])
            self._position += written
            view = view[written:]

    def restart(self) -> int:
        """Discard the present content; return its size in bytes."""
        os.ftruncate(self.descriptor, 0)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        lost, self._position = self._position, 0
        self._hash = hash_of(self._digest)
        return lost

    def is_right(self) -> bool:
        """Return whether the content has the digest."""
        return bool(self._hash.hexdigest() == self._digest.partition(":")[2])

    def remove(self) -> None:
        """Remove the name of the file; the descriptor stays."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)
