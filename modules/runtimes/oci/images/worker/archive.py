"""Archives of images: what `docker save` writes, and OCI layouts in a tar. The file is read where it lies."""

import os
import posixpath
from typing import Final, NamedTuple

from modules.runtimes.oci.images.worker import tar_entries as tar
from modules.runtimes.oci.images.worker.digests import matches
from modules.runtimes.oci.images.worker.errors import invalid
from modules.runtimes.oci.images.worker.limits import LONGEST_MANIFEST
from modules.runtimes.oci.images.worker.tar_entries import TarEntries
from modules.runtimes.oci.images.worker.tar_stream import BLOCK
from modules.runtimes.oci.images.worker.unpack import LayerSource

_MOST_MEMBERS: Final = 100_000
_MOST_LINKS: Final = 8


class _FileBlocks:
    """The blocks of a file: headers are read, bodies skipped without reading them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self.position = 0

    def exactly(self, wanted: int) -> bytes:
        found = os.pread(self._descriptor, wanted, self.position)
        self.position += len(found)
        if len(found) < wanted:
            raise invalid("the archive ends too early")
        return found

    def at_end(self) -> bool:
        return self.position >= self._size


class _Member(NamedTuple):
    offset: int
    size: int


class Archive:
    """The members of an archive by name, to be read in any order.

    Args:
        descriptor: of the file, which must be regular.

    Raises:
        ImageWorkError: it is no tar.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._members: dict[str, _Member] = {}
        self._links: dict[str, str] = {}
        blocks = _FileBlocks(descriptor)
        for entry in TarEntries(blocks, _MOST_MEMBERS):
            name = _plain(os.fsdecode(entry.name))
            if entry.kind == tar.FILE:
                self._members[name] = _Member(blocks.position, entry.stored)
                blocks.position += entry.stored + -entry.stored % BLOCK
            elif entry.kind == tar.SYMBOLIC_LINK:
                self._links[name] = _plain(posixpath.join(posixpath.dirname(name), os.fsdecode(entry.target)))
            elif entry.kind == tar.HARD_LINK:
                self._links[name] = _plain(os.fsdecode(entry.target))

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        return self._find(name) is not None

    def read(self, name: str) -> bytes:
        """Return the content of a small file. Raises ImageWorkError."""
        member = self._found(name)
        if member.size > LONGEST_MANIFEST:
            raise invalid(f"{name[:80]!r} of the archive has more than {LONGEST_MANIFEST} bytes")
        return os.pread(self._descriptor, member.size, member.offset)

    def blob(self, digest: str) -> bytes:
        """Return a small blob of an OCI layout, whose digest is verified. Raises ImageWorkError."""
        content = self.read(blob_name(digest))
        if not matches(digest, content):
            raise invalid(f"the archive's blob {digest} has another content")
        return content

    def layer(self, name: str) -> LayerSource:
        """Return a layer's tar. Raises ImageWorkError."""
        member = self._found(name)
        return LayerSource(self._descriptor, member.offset, member.size)

    def _found(self, name: str) -> _Member:
        member = self._find(name)
        if member is None:
            raise invalid(f"the archive has no {name[:80]!r}")
        return member

    def _find(self, name: str) -> _Member | None:
        name = _plain(name)
        for _ in range(_MOST_LINKS):
            if name not in self._links:
                break
            name = self._links[name]
        return self._members.get(name)


def blob_name(digest: str) -> str:
    """Return the name of a blob in an OCI layout."""
    return f"blobs/{digest.replace(':', '/', 1)}"


def _plain(name: str) -> str:
    return posixpath.normpath(name).lstrip("/")
