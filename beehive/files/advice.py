"""The reasons why a file cannot be used, each with advice."""

from __future__ import annotations

import errno
from typing import Final

_ADVICE: Final = {
    errno.ENOSPC: "no space is left on the device: free some (`df` shows how much there is)",
    errno.EDQUOT: "the user's quota of disk space is used up: free some",
    errno.EROFS: "the file system is read-only: mount it for writing (`mount` shows it)",
    errno.EACCES: "this user has no permission: `ls -ld` shows whose it is",
    errno.EPERM: "this user has no permission: `ls -ld` shows whose it is",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EEXIST: "it is a file, not a directory",
    errno.EISDIR: "it is a directory, not a file",
    errno.ENAMETOOLONG: "the path is too long: choose a shorter one",
    errno.EIO: "the device reports an error: `dmesg` says more",
    errno.EMFILE: "this process may open no more files: raise its limit (`ulimit -n`)",
    errno.ENFILE: "the machine has no more open files: raise fs.file-max",
}


def advice(error: OSError) -> str:
    """Return the reason for an error of the file system in words, with advice for the known errors."""
    return _ADVICE.get(error.errno or 0, error.strerror or str(error))
