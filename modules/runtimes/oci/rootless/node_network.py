"""The network namespace of a node without root, and slirp4netns, which connects it with the machine's network.

slirp4netns sends in the user's name what pods send, and listens on the machine's ports for them (slirp4netns(1)). Pods
do not reach what listens on 127.0.0.1 of the machine. It outlives edgecore; its socket shows whether it lives. pasta
(passt(1)) is faster, but takes some 30 MB, and before 2026 its host ports cannot change while it runs.
"""

import json
import os
import select
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from beehive.nesting import read_json
from beehive.node_namespaces import DIRECTORY
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.kernel import (
    bind_file,
    in_network_namespace,
    on_own_thread,
    own_namespace,
    set_interface_up,
)
from modules.runtimes.shim.kernel import NEW_NETWORK_NAMESPACE, unshare

T = TypeVar("T")

MTU: Final = 65_520
"""The largest of slirp4netns: with the usual 1,500 pods have a tenth of its throughput."""
INSTALL: Final = "apt-get install slirp4netns"

_ATTEMPT: Final = "connect pods to the machine's network"
_SEARCHED: Final = "/usr/local/bin:/usr/bin:/bin"
_TUN: Final = Path("/dev/net/tun")
_INTERFACE: Final = "tap0"
_ACCEPTED: Final = Path("/proc/sys/net/ipv6/conf/default/accept_ra")
"""Whether interfaces that are made from now on take IPv6 addresses and routes from whoever announces them."""
_ALSO_AS_ROUTER, _NEVER = "2", "0"
_SECONDS: Final = 30.0
_MOST_ANSWER: Final = 1 << 20
_MOST_SAID: Final = 500


class Forward(NamedTuple):
    """A port of the machine that leads to a port of the node's network, and from there to a pod."""

    protocol: str
    address: str
    """The machine's, by which the port is reached; slirp4netns knows IPv4 alone."""
    port: int
    inner: int
    """In the node's network."""


class NodeNetwork:
    """The network of one node. Thread-safe.

    Args:
        directory: of the node's namespaces.
        searched: directories of programs, separated by colons.
    """

    def __init__(self, directory: Path = DIRECTORY, searched: str = _SEARCHED) -> None:
        self.namespace = directory / "net"
        """File of the network namespace."""
        self._socket = directory / "slirp.sock"
        self._searched = searched
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        """Held while slirp4netns is asked: it keeps a single further client waiting, and refuses others."""

    def ensure(self) -> dict[Forward, int]:
        """Make the namespace and start slirp4netns, unless they are there; return the ports that are forwarded.

        The namespace is made in any case, so that pods can be detached. Raises PodNetworkError.
        """
        with self._lock:
            if _is_bound(self.namespace):
                with suppress(PodNetworkError):  # it does not live
                    return self.forwards()
            try:
                if not _is_bound(self.namespace):
                    on_own_thread(self._make)
                self._start(self.check())
            except OSError as error:
                raise PodNetworkError(_ATTEMPT, str(error)) from error
            return {}

    def within(self, function: Callable[[], T]) -> T:
        """Call a function in the network, on a thread of its own. Raises OSError before the first `ensure`."""
        return in_network_namespace(self.namespace, function)

    def forwards(self) -> dict[Forward, int]:
        """Return the ports that are forwarded, with their numbers. Raises PodNetworkError."""
        entries = self._ask("list_hostfwd").get("entries", [])
        names = ("proto", "host_addr", "host_port", "guest_port")
        return {Forward(*(each[name] for name in names)): each["id"] for each in entries}

    def add(self, forward: Forward) -> None:
        """Forward a port. Raises PodNetworkError."""
        protocol, address, port, inner = forward
        named = {"proto": protocol, "host_addr": address, "host_port": port, "guest_port": inner}
        try:
            self._ask("add_hostfwd", named)
        except PodNetworkError as error:
            reason = f"this user cannot listen on port {port} of {protocol} at {address}: it is taken"
            if not _is_of_the_machine(address):
                reason = f"{address} is no address of this machine"
            hint = ""
            if port < _first_unprivileged():
                reason = f"port {port} of the machine is root's"
                hint = f"sysctl -w net.ipv4.ip_unprivileged_port_start={port}"
            raise PodNetworkError("forward a host port", reason, hint) from error

    def remove(self, number: int) -> None:
        """Forward a port no more. Raises PodNetworkError."""
        self._ask("remove_hostfwd", {"id": number})

    def check(self) -> str:
        """Return the path of slirp4netns. Raises PodNetworkError if it is missing, or may open no interface."""
        program = shutil.which("slirp4netns", path=self._searched)
        if program is None:
            raise PodNetworkError(_ATTEMPT, "slirp4netns is not installed", INSTALL)
        if not os.access(_TUN, os.R_OK | os.W_OK):
            hint = "chmod 666 /dev/net/tun" if _TUN.exists() else "modprobe tun"
            raise PodNetworkError(_ATTEMPT, f"{_TUN} cannot be opened", hint)
        return program

    def _make(self) -> None:
        """Leave the machine's network on this thread for a new one, and bind that to its file."""
        unshare(NEW_NETWORK_NAMESPACE)
        set_interface_up("lo")
        self.namespace.touch(mode=0o400)
        bind_file(own_namespace("net"), self.namespace)

    def _start(self, program: str) -> None:
        """Start slirp4netns; after an error neither it nor a pipe is left, and a pod cannot announce itself."""
        self._socket.unlink(missing_ok=True)
        log = self._socket.with_name("slirp.log")
        with ExitStack() as failing:
            with ExitStack() as closing:
                ready, told = os.pipe2(os.O_CLOEXEC)
                closing.callback(os.close, ready)
                with ExitStack() as starting:
                    starting.callback(os.close, told)
                    closing.callback(self._accept_router, _NEVER)
                    self._accept_router(_ALSO_AS_ROUTER)
                    command = [
                        program, "--configure", f"--mtu={MTU}", "--disable-host-loopback", "--enable-ipv6",
                        "--enable-sandbox", "--enable-seccomp", "--netns-type=path", f"--ready-fd={told}",
                        f"--api-socket={self._socket}", str(self.namespace), _INTERFACE,
                    ]  # fmt: skip
                    with log.open("wb") as output:
                        process = subprocess.Popen(
                            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output,
                            pass_fds=[told], env={"PATH": self._searched}, cwd="/", start_new_session=True,
                        )  # fmt: skip
                        failing.callback(process.wait)
                        failing.callback(process.kill)
                poll = select.poll()
                poll.register(ready, select.POLLIN)
                if not (poll.poll(int(_SECONDS * 1000)) and os.read(ready, 1)):
                    raise PodNetworkError(_ATTEMPT, f"slirp4netns does not start: {_last_line(log)}")
            failing.pop_all()

    def _accept_router(self, announcements: str) -> None:
        """Let the next interface take IPv6 from slirp4netns, or from nobody: a pod could announce itself."""
        with suppress(OSError):  # a kernel without IPv6
            self.within(lambda: _ACCEPTED.write_text(announcements))

    def _ask(self, command: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        request = {"execute": command, **({"arguments": arguments} if arguments else {})}
        try:
            with self._asking, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_SECONDS)
                connection.connect(str(self._socket))
                connection.sendall(json.dumps(request).encode())
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while len(answer) < _MOST_ANSWER and (part := connection.recv(64 * 1024)):
                    answer += part
            found = read_json(answer)
        except (OSError, ValueError) as error:
            raise PodNetworkError(_ATTEMPT, f"slirp4netns does not answer: {error}") from error
        if "error" in found:
            raise PodNetworkError(_ATTEMPT, str(found["error"])[:_MOST_SAID])
        return dict(found)


def _is_bound(path: Path) -> bool:
    with suppress(OSError):
        return path.stat().st_dev != path.parent.stat().st_dev
    return False


def _is_of_the_machine(address: str) -> bool:
    """Return whether a program of the machine may have an IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _first_unprivileged() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    except (OSError, ValueError):
        return 0


def _last_line(log: Path) -> str:
    with suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:_MOST_SAID] if lines else "it says nothing"
    return "it says nothing"
