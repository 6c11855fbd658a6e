"""Directories whose subdirectories ext4 puts into different parts of the disk, as it does at the top of a file system.

ext4 makes new files near their directory. Without a journal it does not use an inode again for one to five minutes
after its file was deleted, and passes such inodes by one at a time (`recently_deleted` in `fs/ext4/ialloc.c`): among
thousands of deleted files, as tests leave them in /tmp, making one takes 0.4 ms of processor time instead of 0.025.
"""

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

_GET_FLAGS: Final = 0x8008_6601
_SET_FLAGS: Final = 0x4008_6602
_TOP: Final = 0x0002_0000
"""EXT4_TOPDIR_FL, which `chattr +T` sets."""


def spread(directory: Path) -> None:
    """Mark an empty directory; nothing on file systems without the mark."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.ioctl(opened, _SET_FLAGS, struct.pack("l", _flags(opened) | _TOP))
    finally:
        os.close(opened)


def _flags(opened: int) -> int:
    (flags,) = struct.unpack("l", fcntl.ioctl(opened, _GET_FLAGS, bytes(struct.calcsize("l"))))
    return int(flags)
