"""The termination message of a container: its file, or the end of its log (kubelet's terminationMessagePolicy)."""

import os
import stat
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from beehive.files.descriptors import OwnedFd
from edged.pods.model import ContainerFacts, RunState

LONGEST: Final = 4096
"""Bytes read from the end of the file (MaxContainerTerminationMessageLength)."""
LOG_LINES: Final = 80
"""Lines read from the end of a log (MaxContainerTerminationMessageLogLines)."""
LONGEST_LOG: Final = 2048
"""Bytes kept of these lines, the last ones (MaxContainerTerminationMessageLogLength)."""
_FALLBACK: Final = "FallbackToLogsOnError"
_LOG_BYTES: Final = 128 * 1024
"""Bytes read from the end of a log. An entry has at most 16 KiB, so they hold whole entries."""


def read_termination_message(path: Path) -> str:
    """Return the file's end as text; empty when it does not exist. The container can write here, so no link is
    followed.
    """
    return _text(_tail(path, LONGEST))


def read_end_of_log(path: Path) -> str:
    """Return the last lines of a log in the CRI's format; empty when it does not exist."""
    return _text(end_of_log(_tail(path, _LOG_BYTES)))


def end_of_log(log: bytes) -> bytes:
    """Return the text of the last lines of a log.

    `log` may begin in the middle of an entry, which is then left out; a partial entry (P) does not end a line.
    """
    printed = [_printed(entry) for entry in log.split(b"\n")[-LOG_LINES - 1 :]]
    return b"".join(printed)[-LONGEST_LOG:]


def reads_log(container: ContainerFacts) -> bool:
    """Return whether the end of the log replaces a missing message: by its policy, for a container that failed."""
    return container.message_policy == _FALLBACK and container.exit_code != 0


def with_termination_message(container: ContainerFacts) -> ContainerFacts:
    """Return the facts of a container with its termination message, after the runtime's own message."""
    if container.state is not RunState.EXITED:
        return container
    message = read_termination_message(Path(container.message_path)) if container.message_path else ""
    if not message and container.log_path and reads_log(container):
        message = read_end_of_log(Path(container.log_path))
    if not message:
        return container
    return replace(container, message=f"{container.message}: {message}" if container.message else message)


def _printed(entry: bytes) -> bytes:
    """Return the text of one entry (`<time> <stream> <tag> <content>`); nothing for anything else."""
    parts = entry.split(b" ", 3)
    if len(parts) < 4 or parts[1] not in (b"stdout", b"stderr"):
        return b""
    return parts[3] if parts[2].startswith(b"P") else parts[3] + b"\n"


def _tail(path: Path, longest: int) -> bytes:
    try:
        with OwnedFd(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as descriptor:
            status = os.fstat(descriptor)
            regular = stat.S_ISREG(status.st_mode)
            return os.pread(descriptor, longest, max(status.st_size - longest, 0)) if regular else b""
    except OSError:
        return b""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
