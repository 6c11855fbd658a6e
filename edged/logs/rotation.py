"""Keeps containers' logs from growing without end: kubelet's ContainerLogManager.

A log that is too large is renamed to `0.log.20261120-054216`, the runtime is asked to go on in a new file, and all but
the newest of what was renamed is packed. Packing is zlib's, a quarter of a megabyte at a time, in this process: that
takes no more memory than these pieces, gives the interpreter to others meanwhile, and a child process would cost more
than both. The oldest are removed.

Which files there are is known from the pods' statuses, so that a look costs the runtime nothing, and each container
that runs one `stat`. An agent that was killed between the two steps leaves a container that writes to the renamed file:
its log is missing at the next look, and the runtime is asked to open it.
"""

import gzip
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from beehive import Clock
from beehive.files.durable import put_in_place
from edged.api import Pod
from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import CriError
from edged.gc.settings import LogPolicy
from edged.logs.files import open_log, rotated
from edged.pods.errors import ConfigError
from edged.pods.labels import ref_of
from edged.pods.paths import PodPaths, log_path

_log = logging.getLogger(__name__)

PIECE: Final = 256 * 1024
"""Bytes that are packed at a time."""
_UNFINISHED: Final = ".tmp"
_LEVEL: Final = 6
_FORMAT: Final = "%Y%m%d-%H%M%S"


class RunningLog(NamedTuple):
    """The log of a container that runs."""

    container: ContainerId
    file: Path


class LogRotation:
    """See the module's docstring.

    Args:
        pods: of this node, with their statuses; called on the housekeeper's thread.
    """

    def __init__(
        self,
        runtime: ContainerRuntime,
        policy: LogPolicy,
        clock: Clock,
        paths: PodPaths,
        pods: Callable[[], tuple[Pod, ...]],
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._clock = clock
        self._paths = paths
        self._pods = pods

    def look(self) -> None:
        """Rotate what is too large. What fails with one log is tried again at the next look, and told in the log."""
        for log in running_logs(self._pods(), self._paths):
            try:
                self._look_at(log)
            except (CriError, OSError) as error:
                _log.warning("the log %s is not rotated: %s", log.file, error)

    def _look_at(self, log: RunningLog) -> None:
        try:
            size = log.file.lstat().st_size
        except FileNotFoundError:
            if log.file.parent.is_dir():
                self._runtime.reopen_container_log(log.container)
            return
        if size >= self._policy.size:
            self._rotate(log)

    def _rotate(self, log: RunningLog) -> None:
        """Make room for one more, pack those that are not yet, then rename the file that is written."""
        for unfinished in log.file.parent.glob(f"{log.file.name}.*{_UNFINISHED}"):
            unfinished.unlink()
        known = rotated(log.file)
        superfluous = max(0, len(known) - max(0, self._policy.files - 2))
        for old in known[:superfluous]:
            old.unlink()
        for old in known[superfluous:]:
            if old.suffix != ".gz":
                pack(old)
        self._begin_anew(log)

    def _begin_anew(self, log: RunningLog) -> None:
        """The renamed file gets its name back when the runtime does not open another: it goes on to write there."""
        renamed = free_name(log.file, datetime.fromtimestamp(self._clock.now(), UTC))
        log.file.rename(renamed)
        try:
            self._runtime.reopen_container_log(log.container)
        except CriError:
            if not log.file.exists():
                renamed.rename(log.file)
            raise
        _log.debug("the log %s was rotated", log.file)


def running_logs(pods: tuple[Pod, ...], paths: PodPaths) -> Iterator[RunningLog]:
    """The logs of all containers that run, by the pods' statuses."""
    for pod in pods:
        status = pod.status
        everyone = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
        for each in everyone:
            identity = each.container_id.partition("://")[2]
            if each.state.running is not None and identity:
                with suppress(ConfigError):
                    file = paths.pod_logs(ref_of(pod)) / log_path(each.name, each.restart_count)
                    yield RunningLog(ContainerId(identity), file)


def free_name(file: Path, now: datetime) -> Path:
    """The name of a log that is rotated now: kubelet's, a second later for each that is taken (a clock that was put
    back).
    """
    while True:
        name = file.with_name(f"{file.name}.{now.strftime(_FORMAT)}")
        if not name.exists() and not name.with_name(f"{name.name}.gz").exists():
            return name
        now += timedelta(seconds=1)


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def pack(file: Path) -> None:
    """Replace a file by its packed form, or leave it as it is. No link is followed. Raises OSError."""
    packed, unfinished = file.with_name(f"{file.name}.gz"), file.with_name(f"{file.name}{_UNFINISHED}")
    with open_log(file) as source, open(unfinished, "xb", opener=_without_links) as raw:
        os.fchmod(raw.fileno(), os.fstat(source.fileno()).st_mode & 0o777)
        with gzip.GzipFile("", "wb", _LEVEL, raw) as target:
            shutil.copyfileobj(source, target, PIECE)
        raw.flush()
        os.fsync(raw.fileno())
    put_in_place(unfinished, packed)
    file.unlink()
