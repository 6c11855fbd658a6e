"""The real file system, as the mount planner sees it."""

import errno
import os
import stat
from pathlib import PurePosixPath

from modules.runtimes.process.mount_plan import PathKind


class HostFiles:
    """Reads the machine's files; a path that this user may not look up counts as missing."""

    def kind(self, path: PurePosixPath) -> PathKind:
        """Return the kind of file at `path`, links not followed."""
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return PathKind.MISSING
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return PathKind.MISSING
            raise
        if stat.S_ISLNK(mode):
            return PathKind.LINK
        return PathKind.DIRECTORY if stat.S_ISDIR(mode) else PathKind.FILE

    def read_link(self, path: PurePosixPath) -> str:
        """Return the target of the symbolic link at `path`."""
        return os.readlink(path)  # noqa: PTH115 (a pure path has no file system)
