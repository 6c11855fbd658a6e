"""Looks at the directory of static pods, and tells edged what came, what changed and what went.

Whoever writes a file should write it beside and move it here, as for a kubelet; one that cannot be read (yet) changes
nothing, and is read again once it changes. A look that finds every file as it was costs one scan of the directory.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from beehive import Actor
from edged.static_pods.errors import ManifestError
from edged.static_pods.manifest import LARGEST, static_pod

_log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two looks at the names and times of the files."""

JsonPod = dict[str, Any]
"""A pod as an object of the API."""

_Stamp = tuple[int, int, int]
"""Inode, size in bytes, and time of the last change in nanoseconds."""


class _Look(NamedTuple):
    """Look now."""


class Changes(NamedTuple):
    """What is different from the look before. A pod that changed is among both, with another uid each."""

    gone: list[JsonPod]
    come: list[JsonPod]


class StaticPodDirectory(Actor):
    """See the module's docstring.

    Args:
        directory: need not exist.
        node: this node's name.
        tell: takes the changes, the first time what there is; must not block.
    """

    def __init__(self, directory: Path, node: str, tell: Callable[[Changes], None]) -> None:
        super().__init__()
        self._directory = directory
        self._node = node
        self._tell = tell
        self._stamps: dict[Path, _Stamp] | None = None
        self._pods: dict[Path, JsonPod] = {}
        self._problem = ""

    def on_start(self) -> None:
        """Look at once."""
        self.actor_ref.tell(_Look())

    def on_receive(self, message: object) -> None:
        """Look, and again after a while."""
        if isinstance(message, _Look):
            self._look()
            self.clock.after(PERIOD, self._look_again)

    def _look_again(self) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(_Look())

    def _look(self) -> None:
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
        self._tell(self._take(changed, [path for path in known if path not in stamps]))

    def _take(self, changed: list[Path], vanished: list[Path]) -> Changes:
        changes = Changes([self._pods.pop(path) for path in vanished if path in self._pods], [])
        for path in changed:
            pod = self._read(path)
            old = self._pods.get(path)
            if pod is None or (old is not None and _uid(old) == _uid(pod)):
                continue
            if old is not None:
                changes.gone.append(old)
            self._pods[path] = pod
            changes.come.append(pod)
        return changes

    def _read(self, path: Path) -> JsonPod | None:
        try:
            with path.open("rb") as file:
                return static_pod(file.read(LARGEST + 1), str(path), self._node)
        except (ManifestError, OSError) as error:
            _log.error("%s", error)
            return None


def _stamps(directory: Path) -> dict[Path, _Stamp]:
    """The files whose names do not begin with a dot; a directory that is not there has none."""
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
