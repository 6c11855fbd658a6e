"""A child that sees a changed file in place of a module's, as do all processes that it starts.

It has mounts and processes of its own: nobody else sees the file, and what it started ends with it.
"""

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.mutants.children import DIE_WITH_PARENT, run_child

_libc = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_PROCESSES = 0x0002_0000, 0x2000_0000
_BIND, _WHOLE, _PRIVATE, _SHARED = 0x1000, 0x4000, 0x4_0000, 0x10_0000


def run_with_file(file: Path, text: str, task: Callable[[], int], limit: float) -> int | None:
    """Run `task` in a child where a file has another text, and return its exit status.

    Args:
        file: the file; nothing is written to it.
        text: what the child and its processes read in it.
        task: returns an exit status from 0 to 255.
        limit: seconds that it may take.

    Returns:
        The exit status, or None when it took longer.
    """
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        changed = Path(directory) / file.name
        changed.write_text(text)
        changed.chmod(0o644)
        return run_child(lambda: _run(file, changed, task), limit)


def _run(file: Path, changed: Path, task: Callable[[], int]) -> int:
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_PROCESSES))
    _mount("none", Path("/"), "none", _PRIVATE | _WHOLE)
    _mount("none", Path("/"), "none", _SHARED | _WHOLE)  # as systemd leaves it
    _mount(str(changed), file, "none", _BIND)
    cache = file.parent / "__pycache__"
    if cache.is_dir():
        _mount("tmpfs", cache, "tmpfs", 0)  # else the compiled change would stay there
    first = os.fork()
    if first == 0:
        _be_first(task)
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


def _be_first(task: Callable[[], int]) -> None:
    """Be the process that reaps the others: without it a test would wait for ones that have ended."""
    code = 1
    try:
        _libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)
        _mount("proc", Path("/proc"), "proc", 0)
        child = os.fork()
        if child == 0:
            code = task()
            return
        ended = 0
        while ended != child:
            ended, status = os.wait()
        code = os.waitstatus_to_exitcode(status) & 0xFF
    finally:
        os._exit(code)


def _mount(source: str, target: Path, kind: str, flags: int) -> None:
    _check(_libc.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), None))


def _check(result: int) -> None:
    """Raise the error of a system call.

    Raises:
        OSError: it failed.
    """
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
