"""edgecore's side of the shim spawner, the process that forks shims (see `modules.runtimes.shim`)."""

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from beehive.on_failure import on_failure
from modules.runtimes.shim import __file__ as _package
from modules.runtimes.shim.protocol import Namespacing, receive, send

_PROGRAM = Path(_package).with_name("__main__.py")
_PROBE_SECONDS = 20.0
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""All variables of the spawner and its shims, which run beside containers; edgecore's own may have a password."""


class MountAbility(NamedTuple):
    """Way in which containers get mounts of their own on this machine; if not at all, the reason."""

    namespacing: Namespacing
    reason: str


class ShimSpawner:
    """The spawner's process: started with edgecore, so that the first pod need not wait; restarted if it dies."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._probing: socket.socket | None = None
        self._ability: MountAbility | None = None
        self._stopped = False

    def start(self) -> None:
        """Start the process, and let it probe meanwhile which mounts the machine permits."""
        with self._lock:
            self._probing = self._probe()

    def request(self, operation: str, descriptors: list[int], **fields: Any) -> None:
        """Let the spawner fork a process for `operation`. Raises OSError when no spawner can be started."""
        with self._lock:
            self._request(operation, descriptors, **fields)

    def mount_ability(self) -> MountAbility:
        """Return the result of the probe; the first call waits for it. A failure may be over by the next call, such as
        one for want of memory, so that it probes again.
        """
        with self._lock:
            if self._ability is not None:
                return self._ability
            found = self._await_probe()
            if not found.reason:
                self._ability = found
            return found

    def stop(self) -> None:
        """End the process; its shims go on."""
        with self._lock:
            self._close()
            self._stopped = True
            if self._probing is not None:
                self._probing.close()
                self._probing = None

    def _request(self, operation: str, descriptors: list[int], **fields: Any) -> None:
        try:
            send(self._open(), {"op": operation, **fields}, descriptors)
        except (BrokenPipeError, ConnectionError):
            self._close()
            send(self._open(), {"op": operation, **fields}, descriptors)

    def _probe(self) -> socket.socket:
        """Ask for a probe, and return the socket of its answer."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, on_failure(ours.close):
            self._request("probe", [theirs.fileno()], scratch=str(self._scratch))
        return ours

    def _await_probe(self) -> MountAbility:
        try:
            with self._probing or self._probe() as probing:
                self._probing = None
                probing.settimeout(_PROBE_SECONDS)
                received = receive(probing)
        except TimeoutError:
            received = None
        except OSError as error:
            return MountAbility("", str(error))
        if received is None:
            return MountAbility("", "the attempt to find out did not end well")
        answer = received[0]
        return MountAbility(answer["namespacing"], answer["reason"])

    def _open(self) -> socket.socket:
        if self._stopped:
            raise OSError("the runtime is closing")
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs, on_failure(self._close):
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env=_ENVIRONMENT,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
        return self._socket

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.wait()
            self._process = None
