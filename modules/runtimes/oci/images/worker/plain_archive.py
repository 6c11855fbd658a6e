"""A compressed archive as a plain file: archives are read at any place, compressed ones in order only."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from modules.runtimes.oci.images.worker.compression import PlainBytes, is_compressed
from modules.runtimes.oci.images.worker.errors import LIMIT, ImageWorkError, beyond_limit
from modules.runtimes.oci.images.worker.limits import LOOK_AT_DISK_EVERY, RATIO_AFTER, UnpackLimits
from modules.runtimes.oci.images.worker.unpack import LayerSource, reading

_FIRST: Final = 4


@contextmanager
def plain_archive(descriptor: int, directory: Path, limits: UnpackLimits) -> Iterator[int]:
    """Yield a descriptor of the archive as it is, or of its plain content in a file without a name.

    Args:
        descriptor: of the archive, a regular file.
        directory: for the plain content.
        limits: of that.

    Raises:
        ImageWorkError: it cannot be decompressed, or is larger than the limits.
        OSError: the machine refuses something.
    """
    if not is_compressed(os.pread(descriptor, _FIRST, 0)):
        yield descriptor
        return
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        _decompress(descriptor, file.fileno(), limits)
        yield file.fileno()


def _decompress(source: int, target: int, limits: UnpackLimits) -> None:
    plain = PlainBytes(reading(LayerSource(source, 0, os.fstat(source).st_size)))
    size = looked_at = 0
    while piece := plain.next():
        size += len(piece)
        if size > limits.size:
            raise beyond_limit(f"the archive has more than {limits.size} bytes")
        if size > RATIO_AFTER and size > limits.ratio * plain.consumed:
            raise beyond_limit(f"the archive is more than {limits.ratio} times as large as it came")
        if size - looked_at >= LOOK_AT_DISK_EVERY:
            looked_at = size
            _look_at_disk(target, limits.reserve)
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]


def _look_at_disk(descriptor: int, reserve: int) -> None:
    found = os.fstatvfs(descriptor)
    if found.f_bavail * found.f_frsize < reserve:
        raise ImageWorkError(LIMIT, f"less than {reserve} bytes of the disk would stay free", "free some space")
