"""What a container said when it ended: the file at its terminationMessagePath, or the end of its log (kubelet's
getTerminationMessage), and how much of it a status holds (kubelet's normalizeStatus).
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from edged.api import ContainerState, ContainerStatus, Pod
from edged.pods.model import ContainerFacts, RunState

LONGEST = 4096
"""Bytes that are read of the file, the last ones, as a kubelet's MaxContainerTerminationMessageLength."""
LOG_LINES = 80
"""Lines that are read of a log (MaxContainerTerminationMessageLogLines)."""
LONGEST_LOG = 2048
"""Bytes that are kept of them, the last ones (MaxContainerTerminationMessageLogLength)."""
LONGEST_OF_POD = 12 * 1024
"""Bytes that all containers of a pod share evenly (MaxPodTerminationMessageLogLength)."""

_LOG_BYTES = 128 * 1024
"""Bytes that are looked at of a log. An entry has at most 16 KiB: there are whole ones in it at any rate."""
_FALLBACK = "FallbackToLogsOnError"
_OOM_KILLED = "OOMKilled"


def read_last_words(path: Path) -> str:
    """The file's end as text; empty when it is not there. No link is followed: the container may write here."""
    return _text(_tail(path, LONGEST))


def read_end_of_log(path: Path) -> str:
    """The last lines that a container has printed, from its log in CRI's format; empty when there is none."""
    return _text(end_of_log(_tail(path, _LOG_BYTES)))


def end_of_log(log: bytes) -> bytes:
    """What was printed in the last lines of a log. `log` may begin in the middle of an entry, which then does not
    count; an entry that is only a part (P) is no line of its own.
    """
    printed = [_printed(entry) for entry in log.split(b"\n")[-LOG_LINES - 1 :]]
    return b"".join(printed)[-LONGEST_LOG:]


def reads_log(container: ContainerFacts) -> bool:
    """Whether the log stands in for last words that the container did not write: it asked for that, and failed."""
    return container.message_policy == _FALLBACK and (container.exit_code != 0 or container.reason == _OOM_KILLED)


def with_last_words(container: ContainerFacts) -> ContainerFacts:
    """The facts of a container with what it said when it ended, after what the runtime says of its end."""
    if container.state is not RunState.EXITED:
        return container
    words = read_last_words(Path(container.message_path)) if container.message_path else ""
    if not words and container.log_path and reads_log(container):
        words = read_end_of_log(Path(container.log_path))
    if not words:
        return container
    return replace(container, message=f"{container.message}: {words}" if container.message else words)


def share_of_message(pod: Pod) -> int:
    """Bytes that the message of one container may have in the pod's status."""
    return LONGEST_OF_POD // max(len(pod.spec.all_containers), 1)


def shortened(statuses: Sequence[ContainerStatus], limit: int) -> tuple[ContainerStatus, ...]:
    """The statuses with messages of so many bytes at most."""
    return tuple(
        replace(status, state=_short(status.state, limit), last_state=_short(status.last_state, limit))
        for status in statuses
    )


def _short(state: ContainerState, limit: int) -> ContainerState:
    ending = state.terminated
    if ending is None or len(ending.message) * 4 <= limit or len(encoded := ending.message.encode()) <= limit:
        return state
    message = encoded[:limit].decode(errors="ignore")
    return replace(state, terminated=replace(ending, message=message))


def _printed(entry: bytes) -> bytes:
    """What one entry (`<time> <stream> <tag> <content>`) says; nothing when it is none."""
    parts = entry.split(b" ", 3)
    if len(parts) < 4 or parts[1] not in (b"stdout", b"stderr"):
        return b""
    return parts[3] if parts[2].startswith(b"P") else parts[3] + b"\n"


def _tail(path: Path, longest: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        regular = stat.S_ISREG(status.st_mode)
        return os.pread(descriptor, longest, max(status.st_size - longest, 0)) if regular else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
