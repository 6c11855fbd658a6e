"""What a kill or a power cut leaves of files, at each call of the kernel that the code under test makes.

    def life(promise: Promise) -> None:
        replace_file(path, b"new")
        promise("new")

    def check(cut: Cut) -> None:
        assert path.read_bytes() in ((b"new",) if cut.promised else (b"old", b"new"))

    assert after_each_cut(tmp_path, life, check) > 3

The code runs once. Before each of its calls of the kernel, and at the end, this module notes what the disk has and what
of it was flushed; afterwards it puts each of these states into place, and lets a reader start there. Nothing that the
code would do on its way out, such as removing a file, hides what a real cut leaves.

The disk is one by the letter of fsync(2), and a bad one: a content is safe when its file was flushed, a name when its
directory was. One exception, which holds for ext4, XFS, Btrfs and F2FS: who flushes a directory finds it where it is.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

from beehive.files.removal import remove_tree

_ASKING: Final = frozenset({"_io", "fcntl", "io", "posix", "sqlite3"})
"""Modules of C whose functions and objects change files."""
_INODE = int


class Loss(StrEnum):
    """What is lost at a cut."""

    NOTHING = "a kill"
    CONTENTS = "a power cut that loses contents"
    TEARS = "a power cut that tears contents"
    NAMES = "a power cut that loses names"


class Cut(NamedTuple):
    """One end of the code, after which `check` looks at the files."""

    step: int
    """Calls of the kernel before it."""
    loss: Loss
    promised: tuple[Any, ...]
    """What was promised before it."""


Promise = Callable[[Any], None]


class _Node(NamedTuple):
    """A file, a link or a directory."""

    mode: int
    owner: tuple[int, int]
    content: bytes | str | Mapping[str, "_Node"]


class _File(NamedTuple):
    """What was flushed of a file or a directory."""

    mode: int
    content: bytes | Mapping[str, _INODE]


class _Disk:
    """The files below a directory.

    Args:
        root: of the files.
        trusted: patterns of names of files whose contents need no flush here, as SQLite flushes them itself.
    """

    def __init__(self, root: Path, trusted: tuple[str, ...]) -> None:
        self._root = root
        self._trusted = trusted
        self._flushed: dict[_INODE, _File] = {}
        self._open: dict[_INODE, int] = {}
        """Descriptors, so that no number of an inode is used again."""
        self._links: dict[_INODE, str] = {}
        for path in (root, *root.rglob("*")):
            self._flush(path)

    def close(self) -> None:
        """Close all descriptors."""
        while self._open:
            os.close(self._open.popitem()[1])

    def flush(self, descriptor: int) -> None:
        """Note that a file or a directory was flushed."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self._root):
            return
        self._flush(Path(f"/proc/self/fd/{descriptor}"))
        while stat.S_ISDIR(os.fstat(descriptor).st_mode) and path != self._root:
            number = self._keep(path)
            path = path.parent
            above = self._flushed.get(self._keep(path), _File(stat.S_IMODE(path.stat().st_mode), {}))
            assert not isinstance(above.content, bytes)
            others = {name: each for name, each in above.content.items() if each != number}
            names = {child.name: number for child in path.iterdir() if child.lstat().st_ino == number}
            self._flushed[path.stat().st_ino] = _File(above.mode, others | names)

    def left(self, loss: Loss) -> _Node:
        """Return what is left at this moment."""
        return self._left(self._keep(self._root), self._root, loss)

    def _left(self, number: _INODE, path: Path, loss: Loss) -> _Node:
        opened = f"/proc/self/fd/{self._open[number]}"
        if number in self._links:
            return _Node(0, (-1, -1), self._links[number])
        found = os.stat(opened)  # noqa: PTH116 - of a descriptor
        owner = found.st_uid, found.st_gid
        flushed = self._flushed.get(number)
        if stat.S_ISDIR(found.st_mode):
            if loss is Loss.NAMES:
                flushed = flushed or _File(stat.S_IMODE(found.st_mode), {})
                assert not isinstance(flushed.content, bytes)
                names, mode = dict(flushed.content), flushed.mode
            else:
                names = {name: self._keep(path / name) for name in os.listdir(path)}  # noqa: PTH208 - names alone
                mode = stat.S_IMODE(found.st_mode)
            below = {name: self._left(each, path / name, loss) for name, each in sorted(names.items())}
            return _Node(mode, owner, below)
        if not stat.S_ISREG(found.st_mode):
            return _Node(0, owner, "")
        live = _content(opened)
        content = flushed.content if flushed is not None else b""
        assert isinstance(content, bytes)
        if loss is Loss.NOTHING or any(fnmatch(path.name, pattern) for pattern in self._trusted):
            content = live
        elif loss is Loss.TEARS and content != live:
            kept = _same(content, live)
            content = live[: kept + (len(live) - kept) // 2]
        mode = found.st_mode if flushed is None or loss is not Loss.NAMES else flushed.mode
        return _Node(stat.S_IMODE(mode), owner, content)

    def _flush(self, path: Path) -> None:
        number = self._keep(path)
        if number in self._links:
            return
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            names = {name: self._keep(path / name) for name in os.listdir(path)}  # noqa: PTH208 - names alone
            self._flushed[number] = _File(stat.S_IMODE(found.st_mode), names)
        elif stat.S_ISREG(found.st_mode):
            self._flushed[number] = _File(stat.S_IMODE(found.st_mode), _content(str(path)))

    def _keep(self, path: Path) -> _INODE:
        """Return the number of a file's inode, and keep it in use."""
        is_descriptor = path.parts[1:4] == ("proc", "self", "fd") and len(path.parts) == 5
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if is_descriptor else os.O_NOFOLLOW))
        found = os.fstat(descriptor)
        if found.st_ino in self._open:
            os.close(descriptor)
        else:
            self._open[found.st_ino] = descriptor
            if stat.S_ISLNK(found.st_mode):
                self._links[found.st_ino] = os.readlink("", dir_fd=descriptor)
        return found.st_ino


def _same(one: bytes, other: bytes) -> int:
    """Return how many bytes at the beginning are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (first, second) in pairs if first != second), min(len(one), len(other)))


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
    finally:
        os.close(descriptor)


@contextmanager
def _noting(disk: _Disk, note: Callable[[], None]) -> Iterator[None]:
    """Call `note` before each call of the kernel that may change a file, of this thread within the block."""
    is_noting = False

    def profile(_frame: FrameType, event: str, called: Any) -> None:
        nonlocal is_noting
        if event != "c_call" or is_noting:
            return
        if called.__module__ in _ASKING or type(getattr(called, "__self__", None)).__module__ in _ASKING:
            is_noting = True
            try:
                note()
            finally:
                is_noting = False

    def flushing(call: Callable[[Any], None]) -> Callable[[Any], None]:
        def called(file: Any) -> None:
            nonlocal is_noting
            call(file)
            is_noting = True
            try:
                disk.flush(file if isinstance(file, int) else file.fileno())
            finally:
                is_noting = False

        return called

    with pytest.MonkeyPatch.context() as patched:
        for name in ("fsync", "fdatasync"):
            patched.setattr(os, name, flushing(getattr(os, name)))
        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)


def _readable_by_others(node: _Node, secrets: tuple[bytes, ...], path: str) -> list[str]:
    """Return the files with a secret that others may read, by their modes."""
    match node.content:
        case bytes() as content:
            return [path] if node.mode & 0o077 and any(each in content for each in secrets) else []
        case str():
            return []
        case names:
            below = names.items() if node.mode & 0o011 or not path else ()  # a test's own directory is closed
            return [each for name, child in below for each in _readable_by_others(child, secrets, f"{path}/{name}")]


def _restore(node: _Node, path: Path) -> None:
    match node.content:
        case bytes() as content:
            path.write_bytes(content)
        case str() as target:
            if target:
                path.symlink_to(target)
            return
        case names:
            path.mkdir(exist_ok=True)
            for name, child in names.items():
                _restore(child, path / name)
    os.chown(path, *node.owner)
    path.chmod(node.mode)


def after_each_cut(
    root: Path,
    life: Callable[[Promise], object],
    check: Callable[[Cut], object],
    *,
    losses: tuple[Loss, ...] = tuple(Loss),
    trusted: tuple[str, ...] = (),
    secrets: tuple[bytes, ...] = (),
) -> int:
    """Let some code run, and check what a kill and a power cut at each of its calls of the kernel leave. Return how
    many different ends there were.

    Args:
        root: directory of all files that the code changes; what is there is flushed.
        life: the code, in this thread. It calls `promise` when others may rely on something.
        check: starts a reader of the files, as they are left, and raises AssertionError.
        losses: what may be lost.
        trusted: patterns of names of files whose contents need no flush here, as SQLite flushes them itself.
        secrets: no file with one of them may be readable by others, at any call.
    """
    disk, promised = _Disk(root, trusted), list[Any]()
    ends: dict[tuple[Loss, tuple[Any, ...]], list[tuple[int, _Node]]] = {}
    steps = 0

    def note() -> None:
        nonlocal steps
        steps += 1
        for loss in losses:
            node, known = disk.left(loss), ends.setdefault((loss, tuple(promised)), [])
            if all(node != other for _, other in known):
                exposed = _readable_by_others(node, secrets, "")
                assert not exposed, f"after {loss}, before call {steps + 1}, others may read {exposed}"
                known.append((steps, node))

    try:
        with _noting(disk, note):
            life(promised.append)
        note()
    finally:
        disk.close()
    for (loss, before), found in ends.items():
        for step, node in found:
            remove_tree(root)
            _restore(node, root)
            cut = Cut(step, loss, before)
            try:
                check(cut)
            except BaseException as error:
                error.add_note(f"after {loss}, before call {step + 1}, with {before or 'nothing'} promised")
                raise
    return sum(len(found) for found in ends.values())
