"""mount(2) and umount2(2), which Python lacks."""

import ctypes
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_text = ctypes.c_char_p
_libc.mount.argtypes = (_text, _text, _text, ctypes.c_ulong, _text)
_libc.umount2.argtypes = (_text, ctypes.c_int)

_MS_RDONLY = 0x1
_MNT_DETACH, _UMOUNT_NOFOLLOW = 0x2, 0x8


def _check(result: int, subject: Path) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(subject))


def mount(source: str, target: Path, kind: str, options: str, *, read_only: bool = False) -> None:
    """Mount a file system of a kind. Raises OSError."""
    flags = _MS_RDONLY if read_only else 0
    _check(_libc.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()), target)


def unmount(target: Path) -> None:
    """Undo the last mount at a point. Raises OSError: EBUSY while something uses it."""
    _check(_libc.umount2(os.fsencode(target), _UMOUNT_NOFOLLOW), target)


def unmount_lazily(target: Path) -> None:
    """Take the last mount at a point out of the tree; it ends when nothing uses it. Raises OSError."""
    _check(_libc.umount2(os.fsencode(target), _UMOUNT_NOFOLLOW | _MNT_DETACH), target)
