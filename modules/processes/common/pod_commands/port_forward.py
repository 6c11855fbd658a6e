"""The command `port-forward`: local ports that lead to ports of a pod."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from beehive.whole_numbers import whole_number
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient, report_errors
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.forwarder import DirectPorts, Forwarder, PodPorts, Route, SpdyPorts
from modules.processes.common.pod_commands.spdy_link import PORT_FORWARD, SpdyLink
from modules.processes.common.pod_commands.target import pod_target
from modules.tools.printing.terminal import print_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from edged.api import Pod

_BACKLOG: Final = 64
_LOCALHOST: Final = ("127.0.0.1", "::1")
_MOST_PORTS: Final = 65_535


class PortPair(NamedTuple):
    """A local port, and the port of the pod that it leads to."""

    local: int
    """0: any free one."""
    remote: int


def port_forward(chosen: argparse.Namespace) -> int:
    """Forward until Ctrl-C."""
    with report_errors(chosen.program), ExitStack() as stack:
        if len(chosen.words) < 2:
            raise NodeError(
                "a pod and a port are wanted", hint=f"{chosen.program} port-forward POD 8080:80", usage=True
            )
        word, *ports = chosen.words
        node = chosen.connect(chosen)
        pod = node.pod(pod_target(word, chosen.namespace))
        pairs = [port_pair(text, pod) for text in ports]
        carrier = _ports_of(node, pod, pairs)
        routes = [route for pair in pairs for route in listen(pair, addresses_of(chosen.address), stack)]
        try:
            Forwarder(routes, carrier, node.say).serve()
        except KeyboardInterrupt:
            return ExitCode.OK
    return ExitCode.OK


def _ports_of(node: NodeClient, pod: Pod, pairs: Sequence[PortPair]) -> PodPorts:
    """Return the pod's ports. Raises NodeError if the pod does not run."""
    target = node.stream_url("portForward", pod.metadata.namespace, pod.metadata.name)
    try:
        SpdyLink(node, target, PORT_FORWARD).close()
    except NodeError as error:
        if error.status != HTTPStatus.NOT_IMPLEMENTED or not node.is_of_this_machine:
            raise
    else:
        return SpdyPorts(node, target)
    for pair in pairs:
        if pair.local == pair.remote:
            hint = f"connect to it, or choose another local port: :{pair.remote}"
            raise NodeError(f"with the process runtime, port {pair.remote} of the pod is this machine's", "", hint)
    return DirectPorts()


def port_pair(text: str, pod: Pod) -> PortPair:
    """Return the ports in `80`, `8080:80` or `:80`; the pod's port may be named as in its containers.

    Raises:
        NodeError: they are no ports.
    """
    before, colon, after = text.partition(":")
    remote = _number(after if colon else before) or _named(after if colon else before, pod)
    local = (0 if before in ("", "0") else _number(before) or -1) if colon else remote
    if not remote or local < 0:
        raise NodeError("these are no ports", text, "8080:80, 80, or :80 for any free local one", usage=True)
    return PortPair(local, remote)


def _number(text: str) -> int:
    """Return a port; 0 for text that is none."""
    number = whole_number(text, 5) or 0
    return number if number <= _MOST_PORTS else 0


def _named(name: str, pod: Pod) -> int:
    ports = (port for each in pod.spec.all_containers for port in each.ports)
    return next((port.container_port for port in ports if name and port.name == name), 0)


def addresses_of(text: str) -> tuple[str, ...]:
    """Return the addresses of `--address`.

    Raises:
        NodeError: one of them is no IP address.
    """
    found: list[str] = []
    for part in text.split(","):
        if part.strip() == "localhost":
            found += _LOCALHOST
        else:
            found.append(part.strip())
            _family(part.strip())
    return tuple(found)


def _family(address: str) -> socket.AddressFamily:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
        except OSError:
            continue
        return family
    raise NodeError("this is no address to listen on", address, "an IP address, or localhost", usage=True)


def listen(pair: PortPair, addresses: Sequence[str], stack: ExitStack) -> list[Route]:
    """Listen on a port of each address, and print where. One of localhost's two addresses may be missing.

    Raises:
        NodeError: it cannot be listened on.
    """
    routes: list[Route] = []
    port, failed = pair.local, None
    for address in addresses:
        listening = stack.enter_context(socket.socket(_family(address), socket.SOCK_STREAM))
        try:
            _bind(listening, address, port)
        except OSError as error:
            failed = _refused(address, pair, error)
            if address not in _LOCALHOST or (error.errno == errno.EADDRINUSE and pair.local):
                raise failed from error
            continue
        port = listening.getsockname()[1]
        where = f"[{address}]" if ":" in address else address
        print_lines([f"Forwarding from {where}:{port} -> {pair.remote}"])
        routes.append(Route(listening, pair.remote))
    if failed is not None and not routes:
        raise failed
    return routes


def _bind(listening: socket.socket, address: str, port: int) -> None:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listening.bind((address, port))
    listening.listen(_BACKLOG)


def _refused(address: str, pair: PortPair, error: OSError) -> NodeError:
    hints = {
        errno.EADDRINUSE: f"another process has it; :{pair.remote} takes any free one",
        errno.EACCES: f"ports below 1024 are root's; :{pair.remote} takes any free one",
    }
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = hints.get(error.errno or 0, "")
    return NodeError(f"cannot listen on {address}:{pair.local}: {reason}", "", hint)
