"""The actor that watches the directory of static pods."""

import logging
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from beehive import Actor
from edged.errors import ManifestError
from edged.static_pods.manifest import LARGEST, static_pod
from edged.sync_events import SyncEvents

_log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two scans of the directory."""

JsonPod = dict[str, Any]
"""A pod as a JSON object of the API."""

_Stamp = tuple[int, int, int, bool]
"""Inode, size in bytes, time of the last change in nanoseconds, and whether that is `_SETTLED` ago: the file is read
again then, because a change before the reading and one after it may have the same time.
"""

_SETTLED = 2.0
"""Seconds: the coarsest time of a change (FAT's)."""

_UNREAD = (0, 0, 0, False)
"""Stamp of a file that is read again at the next scan."""


class _Scan(msgspec.Struct, frozen=True):
    """Scan the directory now."""


class StaticPodChanges(msgspec.Struct, frozen=True):
    """The changes since the last scan. A changed pod is in both lists, with another uid in each; one whose file states
    its uid is added only, and updates the pod.
    """

    removed: list[JsonPod]
    added: list[JsonPod]


class StaticPodDirectory(Actor):
    """Reads static pods from the files of a directory, and reports changes.

    As for a kubelet, a file should be written elsewhere and moved here. An invalid file changes nothing, and is read
    again when it changes. A file that cannot be read, or that states the uid of another file's pod, is tried again at
    each scan. A scan without changes only reads the directory, and no file, but once those that had just been written.

    Args:
        directory: need not exist.
        node: this node's name.
        events: take the changes, first all present pods.
    """

    def __init__(self, directory: Path, node: str, events: SyncEvents[StaticPodChanges]) -> None:
        super().__init__()
        self._directory = directory
        self._node = node
        self._events = events
        self._stamps: dict[Path, _Stamp] | None = None
        self._pods: dict[Path, JsonPod] = {}
        self._problem = ""

    def on_start(self) -> None:
        """Scan immediately."""
        self.actor_ref.tell(_Scan())

    def on_receive(self, message: object) -> None:
        """Scan, and schedule the next scan."""
        if isinstance(message, _Scan):
            self._scan()
            self.clock.after(PERIOD, self._scan_again)

    def _scan_again(self) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(_Scan())

    def _scan(self) -> None:
        known = self._stamps or {}
        try:
            stamps = _stamps(self._directory, known, self.clock.now())
        except OSError as error:
            if str(error) != self._problem:
                _log.warning("the directory of static pods cannot be read, they stay as they are: %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        changes = StaticPodChanges([self._pods.pop(path) for path in list(self._pods) if path not in stamps], [])
        for path in sorted(path for path, stamp in stamps.items() if stamp == _UNREAD or stamp != known.get(path)):
            try:
                self._read(path, changes)
            except (ManifestError, OSError) as error:
                again = isinstance(error, OSError) or error.retryable
                if not again or known.get(path) != _UNREAD:
                    _log.error("%s", error)
                if again:
                    stamps[path] = _UNREAD
        if self._stamps is None or changes.removed or changes.added:
            self._events.post(changes)
        self._stamps = stamps

    def _read(self, path: Path, changes: StaticPodChanges) -> None:
        """Read a file, and add its pod to the changes if it is another than before. Raises ManifestError, OSError."""
        with path.open("rb") as file:
            pod = static_pod(file.read(LARGEST + 1), str(path), self._node)
        old = self._pods.get(path)
        if pod == old:
            return
        twin = next((other for other, each in self._pods.items() if other != path and _uid(each) == _uid(pod)), None)
        if twin is not None:
            hint = f"{twin} has the same `metadata.uid`"
            raise ManifestError("cannot make a static pod of", str(path), hint, retryable=True)
        if old is not None and _identity(old) != _identity(pod):
            changes.removed.append(old)
        self._pods[path] = pod
        changes.added.append(pod)


def _stamps(directory: Path, known: Mapping[Path, _Stamp], now: float) -> dict[Path, _Stamp]:
    """Return the stamps of all files whose names do not begin with a dot; none for a missing directory. A file that a
    worn disk cannot look up keeps its known stamp.
    """
    try:
        entries = list(directory.iterdir())
    except FileNotFoundError:
        return {}
    found = {}
    for path in entries:
        if path.name.startswith("."):
            continue
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        except OSError:
            found[path] = known.get(path, _UNREAD)
        else:
            if stat.S_ISREG(status.st_mode):
                is_settled = abs(now - status.st_mtime) >= _SETTLED
                found[path] = (status.st_ino, status.st_size, status.st_mtime_ns, is_settled)
    return found


def _uid(pod: JsonPod) -> str:
    return str(pod["metadata"]["uid"])


def _identity(pod: JsonPod) -> tuple[str, str, str]:
    return _uid(pod), pod["metadata"]["namespace"], pod["metadata"]["name"]
