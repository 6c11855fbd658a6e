"""Processes: which is meant, what it was started with, and its end."""

from __future__ import annotations

import errno
import os
import re
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

STOP_SECONDS: Final = 90.0
"""Seconds after which a node that does not stop is killed."""
LOOK_AGAIN_SECONDS: Final = 0.02
AGAIN_SECONDS: Final = 5.0
"""Seconds until an updater that has failed tries again, here and under systemd."""
COMMAND_SECONDS: Final = 150.0
"""Seconds that a command of systemd may take."""


def number_in(text: str) -> int:
    """Return the number that a text is; 0 if it is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}\n?", text) else 0


def surroundings_of(process: int) -> tuple[dict[str, str], Path]:
    """Return the environment that a process was started with, and its directory. Raises OSError if it has ended, or is
    in the middle of an exec and has none.
    """
    words = Path(f"/proc/{process}/environ").read_bytes()
    if not words:
        raise ProcessLookupError(errno.ESRCH, "it has no environment", f"process {process}")
    pairs = (os.fsdecode(word).partition("=") for word in words.split(b"\0") if b"=" in word)
    return {name: value for name, _, value in pairs}, Path(f"/proc/{process}/cwd").readlink()


def end_process(process: int, is_meant: Callable[[], bool] = lambda: True) -> None:
    """End a process: SIGTERM, and SIGKILL if it does not stop.

    Args:
        process: the process.
        is_meant: returns whether the process that has this number now is still the one that is meant.
    """
    with suppress(ProcessLookupError):
        try:
            descriptor = os.pidfd_open(process)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):  # the number is a thread's by now
                return
            raise
        try:
            for number in (signal.SIGTERM, signal.SIGKILL) if is_meant() else ():
                signal.pidfd_send_signal(descriptor, number)
                if select.select([descriptor], [], [], STOP_SECONDS)[0]:
                    return
        finally:
            os.close(descriptor)
