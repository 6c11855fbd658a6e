"""Directories inside a root, found without leaving it: each component is opened from its parent, links by hand.

openat2(2) does the same with RESOLVE_IN_ROOT, but does not tell where a missing directory belongs.
"""

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable

from beehive.on_failure import on_failure
from modules.runtimes.oci.images.worker.errors import beyond_limit, invalid

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
"""As the kernel's limit (ELOOP)."""
_MOST_STEPS = 20_000
"""Steps of one path: links may lead up and down again."""

Missing = Callable[[int, bytes, tuple[bytes, ...]], None]
"""Makes the directory that is missing, or replaces a whiteout: descriptor of its parent, its name, its real path."""


class StepBudget:
    """The steps that many paths may take together: each may take thousands, and an image has millions of paths.

    Args:
        left: steps; each enters one component, some microseconds of processor time.
    """

    def __init__(self, left: int) -> None:
        self._left = left

    def add(self, steps: int) -> None:
        """Allow more steps."""
        self._left += steps

    def charge(self) -> None:
        """Take one step. Raises ImageWorkError when none is left."""
        self._left -= 1
        if self._left < 0:
            raise beyond_limit("the paths of the image lead through too many directories")


def open_inside(root: int, parts: Iterable[bytes], budget: StepBudget, missing: Missing | None = None) -> int | None:
    """Open the directory at a path below `root`, whose links lead to paths below `root` only.

    Returns its descriptor, which the caller closes; None if it is missing and may not be made.

    Raises:
        ImageWorkError: a component is no directory (also: a whiteout, which `missing` would replace), there are too
            many links, or the budget is spent.
    """
    walk = _Walk(root, parts, budget, replaces=missing is not None)
    with on_failure(walk.close):
        while walk.pending:
            if not walk.step(missing):
                walk.close()
                return None
    return walk.at


def is_whiteout(status: os.stat_result) -> bool:
    """Return whether a file is overlayfs' mark of a removed one: a character device 0:0."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


class _Walk:
    def __init__(self, root: int, parts: Iterable[bytes], budget: StepBudget, *, replaces: bool) -> None:
        self._root = root
        self._budget = budget
        self._replaces = replaces
        self.pending = deque(parts)
        self.at = os.dup(root)
        self._done: list[bytes] = []
        self._links = self._steps = 0

    def close(self) -> None:
        os.close(self.at)

    def step(self, missing: Missing | None) -> bool:
        """Go into the next component; return False if it is missing."""
        name = self.pending.popleft()
        self._count()
        if name in (b"", b"."):
            return True
        if name == b"..":
            self._restart(self._done[:-1])
            return True
        if self._enter(name):
            return True
        if self._follow(name):
            return True
        if missing is None:
            return False
        missing(self.at, name, (*self._done, name))
        if not self._enter(name):
            raise invalid(f"{name!r} cannot be made a directory")
        return True

    def _count(self) -> None:
        self._budget.charge()
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise invalid("a path leads through too many directories")

    def _enter(self, name: bytes) -> bool:
        try:
            below = os.open(name, OPEN_DIRECTORY, dir_fd=self.at)
        except (FileNotFoundError, NotADirectoryError):
            return False
        os.close(self.at)
        self.at = below
        self._done.append(name)
        return True

    def _follow(self, name: bytes) -> bool:
        """Go on where a link leads; return False if nothing, or a whiteout, is there."""
        try:
            status = os.stat(name, dir_fd=self.at, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if is_whiteout(status) and self._replaces:
            return False
        if not stat.S_ISLNK(status.st_mode):
            raise invalid(f"{name!r} is in the place of a directory")
        self._links += 1
        if self._links > _MOST_LINKS:
            raise invalid("a path leads through too many links")
        target = os.readlink(name, dir_fd=self.at)
        if target.startswith(b"/"):
            self._restart([])
        self.pending.extendleft(reversed(target.split(b"/")))
        return True

    def _restart(self, done: list[bytes]) -> None:
        """Begin again at the root and enter directories that were entered before."""
        os.close(self.at)
        self.at = os.dup(self._root)
        self._done = []
        for name in done:
            self._count()
            if not self._enter(name):
                raise invalid("a directory vanished")
