"""The actor that watches the directory of static pods."""

import logging
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

_Stamp = tuple[int, int, int]
"""Inode, size in bytes, and time of the last change in nanoseconds."""


class _Scan(msgspec.Struct, frozen=True):
    """Scan the directory now."""


class StaticPodChanges(msgspec.Struct, frozen=True):
    """The changes since the last scan. A changed pod is in both lists, with another uid in each."""

    removed: list[JsonPod]
    added: list[JsonPod]


class StaticPodDirectory(Actor):
    """Reads static pods from the files of a directory, and reports changes.

    As for a kubelet, a file should be written elsewhere and moved here. An invalid file changes nothing, and is read
    again when it changes. A scan without changes only reads the directory, and no file.

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
        try:
            stamps = _stamps(self._directory)
        except OSError as error:
            if str(error) != self._problem:
                _log.warning("the directory of static pods cannot be read, they stay as they are: %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        before = self._stamps
        if stamps == before:
            return
        self._stamps = stamps
        known = before or {}
        changed = [path for path in sorted(stamps) if stamps[path] != known.get(path)]
        self._events.post(self._changes(changed, [path for path in known if path not in stamps]))

    def _changes(self, changed: list[Path], vanished: list[Path]) -> StaticPodChanges:
        changes = StaticPodChanges([self._pods.pop(path) for path in vanished if path in self._pods], [])
        for path in changed:
            pod = self._read(path)
            old = self._pods.get(path)
            if pod is None or (old is not None and _uid(old) == _uid(pod)):
                continue
            if old is not None:
                changes.removed.append(old)
            self._pods[path] = pod
            changes.added.append(pod)
        return changes

    def _read(self, path: Path) -> JsonPod | None:
        try:
            with path.open("rb") as file:
                return static_pod(file.read(LARGEST + 1), str(path), self._node)
        except (ManifestError, OSError) as error:
            _log.error("%s", error)
            return None


def _stamps(directory: Path) -> dict[Path, _Stamp]:
    """Return the stamps of all files whose names do not begin with a dot; none for a missing directory."""
    try:
        entries = list(directory.iterdir())
    except FileNotFoundError:
        return {}
    found = {}
    for path in entries:
        if not path.name.startswith(".") and path.is_file():
            stat = path.stat()
            found[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return found


def _uid(pod: JsonPod) -> str:
    return str(pod["metadata"]["uid"])
