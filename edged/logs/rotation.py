"""Rotation of container logs (kubelet's ContainerLogManager)."""

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from beehive import Clock
from beehive.files.durable import put_in_place
from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import CriError
from edged.errors import ConfigError
from edged.logs.files import NAME_FORMAT, open_log, rotated, rotated_at
from edged.pods.labels import ref_of
from edged.pods.paths import PodPaths, log_path
from edged.settings.gc import LogPolicy
from modules.apimachinery.types import Pod

_log = logging.getLogger(__name__)

PIECE: Final = 256 * 1024
"""Bytes to pack at a time."""
_UNFINISHED: Final = ".tmp"
_LEVEL: Final = 6


class RunningLog(msgspec.Struct, frozen=True):
    """The log of a running container."""

    container: ContainerId
    file: Path


class LogRotation:
    """The rotation of the logs of running containers.

    A log that is too large is renamed to `0.log.20261120-054216`, and the runtime is asked to open a new file. All
    rotated files but the newest are packed, and the oldest are removed. zlib packs a quarter of a megabyte at a time in
    this process: it needs no more memory than that, releases the interpreter's lock meanwhile, and a child process
    would cost more.

    The pods' statuses tell which logs exist, so a check makes no call of the runtime, and one `stat` for each running
    container. If the agent is killed after the renaming, the container writes to the renamed file: the next check finds
    no log, and asks the runtime to open it.

    Args:
        runtime: opens new files.
        policy: size and number of files.
        clock: for the names of rotated files.
        paths: of the logs.
        pods: returns this node's pods with their statuses; called on the housekeeper's thread.
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

    def rotate_logs(self) -> None:
        """Rotate all logs that are too large. A failure is logged, and that log tried again at the next check."""
        for log in running_logs(self._pods(), self._paths):
            try:
                self._check(log)
            except (CriError, OSError) as error:
                _log.warning("the log %s is not rotated: %s", log.file, error)

    def _check(self, log: RunningLog) -> None:
        try:
            size = log.file.lstat().st_size
        except FileNotFoundError:
            if log.file.parent.is_dir():
                self._runtime.reopen_container_log(log.container)
            return
        if size >= self._policy.size:
            self._rotate(log)

    def _rotate(self, log: RunningLog) -> None:
        """Make room for one more file, pack the older ones, then rename the current one: an older file that cannot be
        removed or packed does not keep the log from being rotated.
        """
        unfinished = list(log.file.parent.glob(f"{log.file.name}.*{_UNFINISHED}"))
        known = rotated(log.file)
        superfluous = max(0, len(known) - max(0, self._policy.files - 2))
        removed = {*unfinished, *known[:superfluous]}
        for old in (*unfinished, *known):
            try:
                if old in removed:
                    old.unlink()
                elif old.suffix != ".gz":
                    pack(old)
            except OSError as error:
                _log.warning("the rotated log %s stays as it is: %s", old, error)
        self._rename(log)

    def _rename(self, log: RunningLog) -> None:
        """Rename the current file, and back again if the runtime does not open another: it then still writes to this
        one.
        """
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
    """Yield the logs of all running containers, by the pods' statuses."""
    for pod in pods:
        status = pod.status
        statuses = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
        for each in statuses:
            identity = each.container_id.partition("://")[2]
            if each.state.running is not None and identity:
                with suppress(ConfigError):
                    file = paths.pod_logs(ref_of(pod)) / log_path(each.name, each.restart_count)
                    yield RunningLog(ContainerId(identity), file)


def free_name(file: Path, now: datetime) -> Path:
    """Return the name for a file rotated now: kubelet's, or one second after the newest rotated file's where the clock
    was set back, so that names keep the order of contents and no file is replaced.
    """
    for older in rotated(file):
        with suppress(ValueError, OverflowError):
            now = max(now, rotated_at(older, file.name) + timedelta(seconds=1))
    return file.with_name(f"{file.name}.{now.strftime(NAME_FORMAT)}")


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def pack(file: Path) -> None:
    """Replace a file by its packed form, or leave it unchanged. No link is followed. Raises OSError."""
    import gzip  # noqa: PLC0415 - with the first rotation

    packed, unfinished = file.with_name(f"{file.name}.gz"), file.with_name(f"{file.name}{_UNFINISHED}")
    with open_log(file) as source, open(unfinished, "xb", opener=_without_links) as raw:
        os.fchmod(raw.fileno(), os.fstat(source.fileno()).st_mode & 0o777)
        with gzip.GzipFile("", "wb", _LEVEL, raw) as target:
            shutil.copyfileobj(source, target, PIECE)
        raw.flush()
        os.fsync(raw.fileno())
    put_in_place(unfinished, packed)
    file.unlink()
