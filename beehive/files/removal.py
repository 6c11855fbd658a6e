"""Removes a directory tree of any depth: `shutil.rmtree` recurses, and fails with RecursionError at 1,500 levels.

Each directory is opened through its parent's descriptor, so no path is too long and no link is followed. Directories of
the first levels stay open while their entries are removed. Deeper ones are moved up into a directory of the removal's
own and removed from there, so that a tree of any depth takes a fixed number of descriptors and no memory, and each
directory is listed once; one that is empty is removed without being opened. A mount in the tree is not entered, and is
an error.
"""

import errno
import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from beehive.files.descriptors import MountOf, mount_of, open_directory, open_without_rights

_LEVELS = 16
"""Directories that are open at a time; each takes two descriptors."""

_PASSES = 8
"""Passes over one directory: some file systems leave names out of a listing while others are removed."""

_FOLLOWING = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PRIVATE = 0o700
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a directory with its content. A missing one is no error.

    Removes as much as possible, and then raises the first OSError.
    """
    try:
        above = os.open(path.parent, _FOLLOWING)
    except FileNotFoundError:
        return
    removal = _Removal(above, path)
    try:
        removal.run()
    finally:
        removal.close()
        os.close(above)


class _Level:
    """A directory that is being emptied. `above` is its parent's descriptor, -1 for the top, which is removed last."""

    def __init__(self, above: int, name: str, descriptor: int) -> None:
        self.above = above
        self.name = name
        self.descriptor = descriptor
        self.passes = 0
        self.list()

    def list(self) -> None:
        """List the directory, again if it was listed before."""
        self.passes += 1
        self.entries = os.scandir(self.descriptor)

    def close(self) -> None:
        """Close the directory and its listing."""
        self.entries.close()
        os.close(self.descriptor)


class _Removal:
    """The removal of one tree."""

    def __init__(self, above: int, path: Path) -> None:
        self._above = above
        self._path = path
        self._error: OSError | None = None
        self._removed = 0
        self._levels: list[_Level] = []
        self._top = self._deep = -1
        self._deep_name = ""
        self._moved = 0

    def run(self) -> None:
        """Remove the tree in passes, as long as they make progress: entries that appear meanwhile are removed too."""
        name = self._path.name
        if self._unlink(self._above, name):
            return self._complain()
        if self._was_empty(self._above, name):
            return None
        try:
            self._top = self._open(self._above, name)
        except FileNotFoundError:  # somebody else has removed it now
            return None
        for _ in range(_PASSES):
            before, self._error = self._removed, None
            self._empty_top()
            is_new = self._error is None
            if self._rmdir(self._above, name):
                return None
            if self._removed == before and not is_new:
                break
        return self._complain()

    def close(self) -> None:
        """Close all descriptors."""
        while self._levels:
            self._levels.pop().close()
        for descriptor in (self._deep, self._top):
            if descriptor >= 0:
                os.close(descriptor)

    @cached_property
    def _mount_of_top(self) -> MountOf:
        """Asked where a directory below has something in it."""
        return mount_of(self._top)

    def _complain(self) -> None:
        if self._error is not None:
            raise self._error

    def _empty_top(self) -> None:
        """Empty the directory itself, then the directories that were moved up, in the order of moving."""
        descriptor = os.dup(self._top)
        try:
            first = _Level(-1, "", descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._levels = [first]
        self._remove_levels()
        emptied = 0
        while emptied < self._moved:
            self._levels = []
            self._enter(self._deep, str(emptied))
            self._remove_levels()
            emptied += 1
        if self._deep >= 0:
            os.close(self._deep)
            self._rmdir(self._top, self._deep_name)
            self._deep, self._deep_name, self._moved = -1, "", 0

    def _remove_levels(self) -> None:
        """Empty and remove the open levels."""
        while self._levels:
            level = self._levels[-1]
            name = self._next_directory(level)
            if name is not None:
                self._enter(level.descriptor, name)
            elif level.above < 0 or self._is_done(level):
                self._levels.pop().close()

    def _next_directory(self, level: _Level) -> str | None:
        """Return the name of the next directory in a level, or None; remove other entries on the way."""
        try:
            for entry in level.entries:
                if entry.name == self._deep_name:
                    continue
                if entry.is_dir(follow_symlinks=False) or not self._unlink(level.descriptor, entry.name):
                    return entry.name
        except OSError as error:
            self._record(error, level.name)
        return None

    def _is_done(self, level: _Level) -> bool:
        """Remove a listed level; return True if it was deleted or cannot be removed.

        If no error occurred, its remaining entries appeared meanwhile, and it is listed again.
        """
        is_new = self._error is None
        if self._rmdir(level.above, level.name) or not is_new or level.passes >= _PASSES:
            return True
        self._error = None
        try:
            level.list()
        except OSError as error:
            self._record(error, level.name)
            return True
        return False

    def _enter(self, within: int, name: str) -> None:
        """Remove a directory if it is empty; open it as the next level, or move it up if too many are open."""
        if self._was_empty(within, name):
            return
        if len(self._levels) >= _LEVELS:
            self._move_up(within, name)
            return
        descriptor = -1
        try:
            descriptor = self._open(within, name)
            if mount_of(descriptor) != self._mount_of_top:
                raise OSError(errno.EBUSY, "something is mounted there")
            self._levels.append(_Level(within, name, descriptor))
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            if error.errno in _NO_DESCRIPTORS and len(self._levels) > 1:
                self._give_way()
            else:
                self._record(error, name)
        except BaseException:
            if descriptor >= 0:
                os.close(descriptor)
            raise

    def _give_way(self) -> None:
        """Free the descriptors of the innermost level, which is moved up and emptied later."""
        innermost = self._levels.pop()
        innermost.close()
        self._move_up(innermost.above, innermost.name)

    def _open(self, within: int, name: str) -> int:
        """Open a directory, with the permissions to empty it as far as this user can set them. Raises OSError."""
        try:
            descriptor = open_directory(name, within)
        except PermissionError:
            return open_without_rights(name, within)
        if os.fstat(descriptor).st_mode & _PRIVATE != _PRIVATE:
            with suppress(OSError):
                os.fchmod(descriptor, _PRIVATE)
        return descriptor

    def _move_up(self, within: int, name: str) -> None:
        """Move a directory up; this takes write permission on it, because its `..` changes."""
        try:
            try:
                self._rename_into_depths(within, name)
            except PermissionError:
                os.close(open_without_rights(name, within))
                self._rename_into_depths(within, name)
        except OSError as error:
            self._record(error, name)

    def _rename_into_depths(self, within: int, name: str) -> None:
        """Move a directory into the removal's own one, which is made for the first of them."""
        if self._deep < 0:
            self._deep_name = f".removing-{os.urandom(8).hex()}"
            os.mkdir(self._deep_name, _PRIVATE, dir_fd=self._top)
            self._deep = open_directory(self._deep_name, self._top)
        os.rename(name, str(self._moved), src_dir_fd=within, dst_dir_fd=self._deep)
        self._moved += 1
        self._removed += 1

    def _was_empty(self, within: int, name: str) -> bool:
        """Remove a directory if it is empty; whatever prevents it is found again when the directory is emptied."""
        try:
            os.rmdir(name, dir_fd=within)
        except OSError:
            return False
        self._removed += 1
        return True

    def _rmdir(self, within: int, name: str) -> bool:
        """Remove an empty directory; return whether it no longer exists."""
        try:
            os.rmdir(name, dir_fd=within)
            self._removed += 1
        except FileNotFoundError:
            return True
        except OSError as error:
            self._record(error, name)
            return False
        return True

    def _unlink(self, within: int, name: str) -> bool:
        """Remove a file; return False for a directory (EISDIR on Linux)."""
        try:
            os.unlink(name, dir_fd=within)
            self._removed += 1
        except FileNotFoundError:
            return True
        except IsADirectoryError:
            return False
        except OSError as error:
            self._record(error, name)
        return True

    def _record(self, error: OSError, name: str) -> None:
        """Keep the first error, with the path of the top: a deep path may be too long."""
        if self._error is None and not isinstance(error, FileNotFoundError):
            where = str(self._path) if name == self._path.name else f"{self._path}: {name or '.'}"
            self._error = OSError(error.errno, error.strerror, where)
