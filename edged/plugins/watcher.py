"""Finds plug-ins: each has put a socket into the registration directory, on which it says who it is (kubelet's plug-in
watcher and its pluginregistration API).

The directory is looked at every two seconds rather than watched through inotify: a look at an empty directory costs
some microseconds, misses nothing that was there before the agent, needs no thread of its own, and keeps to the clock,
so that a simulated node looks when its world says. Whatever kind a plug-in is of (CSI driver, device plug-in), its
handler decides whether it is taken; a plug-in that is refused, or does not answer, is asked again later and later.
"""

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from beehive import Actor
from edged.errors import EdgedError
from edged.plugins.errors import PluginError
from edged.plugins.socket import PluginSocket
from protos.pluginregistration.v1 import api_pb2 as registration

_log = logging.getLogger(__name__)

LOOK_EVERY = 2.0
"""Seconds between two looks at the directory."""
CALL_SECONDS = 10.0
"""Seconds that a plug-in has for an answer (kubelet's dial time-out)."""
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 120.0
"""Seconds after which a plug-in that failed is asked again, doubled each time (kubelet's exponential back-off)."""
_SERVICE = "pluginregistration.Registration"
_LONGEST_PATH = 107
"""Bytes of a unix socket's path."""
_DEEPEST = 32
"""Levels of directories that are looked into: a socket's path holds hardly more, and a plug-in may make any number."""


class Plugin(NamedTuple):
    """What a plug-in says of itself."""

    name: str
    endpoint: Path
    """The socket on which it serves; the one on which it registered unless it names another."""
    versions: tuple[str, ...]


class PluginHandler(Protocol):
    """Takes plug-ins of one kind. Called on the watcher's thread, and may block there."""

    def register(self, plugin: Plugin) -> None:
        """A plug-in is there, or there again. Raises EdgedError when it cannot be used; it is told so."""

    def deregister(self, plugin: Plugin) -> None:
        """A plug-in that was registered is gone."""


class _Known(NamedTuple):
    """A socket that was looked at. `stamp` changes when a plug-in makes its socket anew."""

    stamp: tuple[int, int]
    kind: str = ""
    plugin: Plugin | None = None
    failures: int = 0
    again_at: float = 0.0
    """Monotonic seconds before which one that failed is left alone."""


class Look(NamedTuple):
    """Look at the directory now."""


class PluginWatcher(Actor):
    """See the module's docstring.

    Args:
        directory: where plug-ins put their sockets; made if need be.
        handlers: by the plug-in's type: `CSIPlugin`, `DevicePlugin`.
    """

    def __init__(self, directory: Path, handlers: Mapping[str, PluginHandler]) -> None:
        super().__init__()
        self._directory = directory
        self._handlers = handlers
        self._known: dict[Path, _Known] = {}

    def on_start(self) -> None:
        """Look at once: what was registered with an agent before this one is still there."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.actor_ref.tell(Look())

    def on_receive(self, message: object) -> None:
        """Look, and again after a while."""
        if not isinstance(message, Look):
            return
        self._look()
        if not self.actor_stopped.is_set():
            self.clock.after(LOOK_EVERY, self._look_again)

    def _look_again(self) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(Look())

    def _look(self) -> None:
        found = sockets_in(self._directory)
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
            _log.info("plug-in %s is gone", known.plugin.name)
            self._handlers[known.kind].deregister(known.plugin)

    def _register(self, path: Path, known: _Known) -> _Known:
        socket = PluginSocket(path)
        try:
            return self._try(socket, path, known)
        except EdgedError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - what one plug-in brings to light must not end edged
            _log.exception("plug-in at %s failed in a way nobody foresaw", path)
            reason = type(error).__name__
        finally:
            socket.close()
        delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** min(known.failures, 30))
        _log.warning("plug-in at %s is not registered: %s; again in %.0f s", path, reason, delay)
        return known._replace(failures=known.failures + 1, again_at=self.clock.monotonic() + delay)

    def _try(self, socket: PluginSocket, path: Path, known: _Known) -> _Known:
        info = socket.call(f"{_SERVICE}/GetInfo", registration.InfoRequest(), registration.PluginInfo, CALL_SECONDS)
        plugin = Plugin(info.name, Path(info.endpoint or path), tuple(info.supported_versions))
        try:
            self._check(info.type, plugin)
            self._handlers[info.type].register(plugin)
        except EdgedError as error:
            self._notify(socket, str(error))
            raise
        _log.info("plug-in %s (%s) is registered", plugin.name, info.type)
        self._notify(socket, "")
        return known._replace(kind=info.type, plugin=plugin)

    def _check(self, kind: str, plugin: Plugin) -> None:
        if kind not in self._handlers:
            raise PluginError("register a plug-in", plugin.name, f"no plug-ins of type {kind!r} are known")
        if not plugin.name or not plugin.endpoint.is_absolute() or len(os.fsencode(plugin.endpoint)) > _LONGEST_PATH:
            raise PluginError("register a plug-in", plugin.name, "a name and the path of a socket are wanted")

    def _notify(self, socket: PluginSocket, error: str) -> None:
        """Tell it what became of it. One that does not want to hear is registered all the same (kubelet: an error)."""
        status = registration.RegistrationStatus(plugin_registered=not error, error=error)
        method = f"{_SERVICE}/NotifyRegistrationStatus"
        try:
            socket.call(method, status, registration.RegistrationStatusResponse, CALL_SECONDS)
        except PluginError as failure:
            _log.warning("%s", failure)


def sockets_in(directory: Path) -> dict[Path, tuple[int, int]]:
    """The sockets in a directory and those below, with a stamp each; without hidden ones, what links lead to, and what
    is deeper than a socket's path reaches.
    """
    found: dict[Path, tuple[int, int]] = {}
    for parent, directories, files in os.walk(directory):
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
