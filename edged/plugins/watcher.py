"""Registers plug-ins that put a socket into a directory (kubelet's plug-in watcher and the pluginregistration API)."""

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from beehive import Actor
from beehive.backoff import doubled
from edged.errors import PluginError
from edged.plugins.socket import PluginSocket
from modules.apimachinery.attempts import AttemptError
from protos.pluginregistration.v1 import api_pb2 as registration

_log = logging.getLogger(__name__)

SCAN_INTERVAL = 2.0
"""Seconds between two scans of the directory."""
CALL_SECONDS = 10.0
"""Time-out of a plug-in's answer in seconds (kubelet's dial time-out)."""
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 120.0
"""Seconds before a failed plug-in is tried again, doubled each time (kubelet's exponential back-off)."""
_SERVICE = "pluginregistration.Registration"
_LONGEST_PATH = 107
"""Bytes of a unix socket's path."""
_DEEPEST = 32
"""Levels of directories that are scanned: a socket's path holds hardly more, and a plug-in may make any number."""


class Plugin(msgspec.Struct, frozen=True):
    """A plug-in, as it describes itself."""

    name: str
    endpoint: Path
    """The socket of its service; the registration socket unless it names another."""
    versions: tuple[str, ...]


class PluginHandler(Protocol):
    """A handler that registers plug-ins of one type. Called on the watcher's thread, and may block there."""

    def register(self, plugin: Plugin) -> None:
        """Register a plug-in, perhaps again. Raises EdgedError to refuse it; the plug-in gets the reason."""

    def deregister(self, plugin: Plugin) -> None:
        """Deregister a plug-in whose socket was removed."""


class _Known(msgspec.Struct, frozen=True):
    """A socket found in the directory. `stamp` changes when a plug-in makes its socket again."""

    stamp: tuple[int, int]
    kind: str = ""
    plugin: Plugin | None = None
    failures: int = 0
    again_at: float = 0.0
    """Monotonic seconds of the next attempt after a failure."""


class Scan(msgspec.Struct, frozen=True):
    """The request to scan the directory."""


class PluginWatcher(Actor):
    """The actor that scans the registration directory, and registers and deregisters its plug-ins with their handlers.

    It scans every two seconds instead of using inotify: scanning an empty directory takes microseconds, also finds
    earlier sockets, needs no thread of its own, and follows the clock, so that a simulated node scans in simulated
    time. The handler of a plug-in's type (CSI driver, device plug-in) accepts or refuses it; a plug-in that is refused
    or does not answer is tried again with growing delays.

    Args:
        directory: where plug-ins put their sockets; made if missing.
        handlers: by the plug-in's type: `CSIPlugin`, `DevicePlugin`.
    """

    def __init__(self, directory: Path, handlers: Mapping[str, PluginHandler]) -> None:
        super().__init__()
        self._directory = directory
        self._handlers = handlers
        self._known: dict[Path, _Known] = {}

    def on_start(self) -> None:
        """Scan immediately: plug-ins of an earlier agent are still there."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.actor_ref.tell(Scan())

    def on_receive(self, message: object) -> None:
        """Scan, and schedule the next scan."""
        if not isinstance(message, Scan):
            return
        self._scan()
        self.clock.after(SCAN_INTERVAL, self._scan_again)

    def _scan_again(self) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(Scan())

    def _scan(self) -> None:
        found = sockets_in(self._directory, {path: known.stamp for path, known in self._known.items()})
        for path in [path for path, known in self._known.items() if found.get(path) != known.stamp]:
            self._forget(path)
        now = self.clock.monotonic()
        for path, stamp in found.items():
            known = self._known.get(path, _Known(stamp))
            if known.plugin is None and known.again_at <= now and not self.actor_stopped.is_set():
                self._known[path] = self._register(path, known)

    def _forget(self, path: Path) -> None:
        known = self._known.pop(path)
        if known.plugin is not None:
            _log.info("plug-in %s was removed", known.plugin.name)
            self._handlers[known.kind].deregister(known.plugin)

    def _register(self, path: Path, known: _Known) -> _Known:
        socket = PluginSocket(path)
        try:
            return self._try(socket, path, known)
        except AttemptError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - one plug-in must not end edged
            _log.exception("plug-in at %s failed unexpectedly", path)
            reason = type(error).__name__
        finally:
            socket.close()
        delay = doubled(_FIRST_DELAY, known.failures, _LONGEST_DELAY)
        _log.warning("plug-in at %s is not registered: %s; again in %.0f s", path, reason, delay)
        return msgspec.structs.replace(known, failures=known.failures + 1, again_at=self.clock.monotonic() + delay)

    def _try(self, socket: PluginSocket, path: Path, known: _Known) -> _Known:
        info = socket.call(f"{_SERVICE}/GetInfo", registration.InfoRequest(), registration.PluginInfo, CALL_SECONDS)
        plugin = Plugin(info.name, Path(info.endpoint or path), tuple(info.supported_versions))
        try:
            self._check(info.type, plugin)
            self._handlers[info.type].register(plugin)
        except AttemptError as error:
            self._notify(socket, str(error))
            raise
        _log.info("plug-in %s (%s) is registered", plugin.name, info.type)
        self._notify(socket, "")
        return msgspec.structs.replace(known, kind=info.type, plugin=plugin)

    def _check(self, kind: str, plugin: Plugin) -> None:
        if kind not in self._handlers:
            raise PluginError("register a plug-in", plugin.name, f"no plug-ins of type {kind!r} are known")
        if not plugin.name or not plugin.endpoint.is_absolute() or len(os.fsencode(plugin.endpoint)) > _LONGEST_PATH:
            raise PluginError("register a plug-in", plugin.name, "a name and the path of a socket are required")

    def _notify(self, socket: PluginSocket, error: str) -> None:
        """Send the plug-in its registration status. It stays registered even if this call fails (kubelet: an error)."""
        status = registration.RegistrationStatus(plugin_registered=not error, error=error)
        method = f"{_SERVICE}/NotifyRegistrationStatus"
        try:
            socket.call(method, status, registration.RegistrationStatusResponse, CALL_SECONDS)
        except PluginError as failure:
            _log.warning("%s", failure)


def sockets_in(directory: Path, known: Mapping[Path, tuple[int, int]]) -> dict[Path, tuple[int, int]]:
    """Return the sockets in a directory and below, with a stamp each; without hidden ones, targets of links, and levels
    below `_DEEPEST`. Where a directory is there and cannot be read, as without a free descriptor, the known ones stay.
    """
    found: dict[Path, tuple[int, int]] = {}

    def keep(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            found.update((path, stamp) for path, stamp in known.items() if path.is_relative_to(error.filename))

    for parent, directories, files in os.walk(directory, onerror=keep):
        is_deep = len(Path(parent).relative_to(directory).parts) >= _DEEPEST
        directories[:] = [] if is_deep else sorted(name for name in directories if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISSOCK(status.st_mode) and not name.startswith("."):
                found[path] = (status.st_ino, status.st_mtime_ns)
    return found
