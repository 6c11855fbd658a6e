"""The real file system as the mount planner asks for it."""

import errno
import os
import stat
from pathlib import PurePosixPath

from edged.embedded.mount_plan import Kind


class HostFiles:
    """Looks at the machine's files; what this user may not look into counts as missing."""

    def kind(self, path: PurePosixPath) -> Kind:
        """What is at `path`, links not followed."""
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return Kind.MISSING
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return Kind.MISSING
            raise
        if stat.S_ISLNK(mode):
            return Kind.LINK
        return Kind.DIRECTORY if stat.S_ISDIR(mode) else Kind.FILE

    def read_link(self, path: PurePosixPath) -> str:
        """Where the symbolic link at `path` points to."""
        return os.readlink(path)  # noqa: PTH115 (a pure path has no file system)
