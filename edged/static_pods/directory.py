"""The actor that watches the directory of static pods."""

import logging
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from beehive import Actor
from beehive.files.stamps import FileStamp, stamp_of
from edged.errors import ManifestError
from edged.static_pods.manifest import LARGEST, static_pod
from edged.sync_events import SyncEvents

_log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two scans of the directory."""

JsonPod = dict[str, Any]
"""A pod as a JSON object of the API."""

_UNREAD = FileStamp()
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
    """The actor that reads static pods from the files of a directory, and reports changes.

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
        self._stamps: dict[Path, FileStamp] | None = None
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
                seen = known.get(path)
                is_known = seen is not None and (seen == _UNREAD if again else seen.is_of_state(stamps[path]))
                if not is_known:
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


def _stamps(directory: Path, known: Mapping[Path, FileStamp], now: float) -> dict[Path, FileStamp]:
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
                found[path] = stamp_of(status, now)
    return found


def _uid(pod: JsonPod) -> str:
    return str(pod["metadata"]["uid"])


def _identity(pod: JsonPod) -> tuple[str, str, str]:
    return _uid(pod), pod["metadata"]["namespace"], pod["metadata"]["name"]
