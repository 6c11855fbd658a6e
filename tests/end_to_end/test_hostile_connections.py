"""Connections that say nothing, or almost nothing, at each TCP port of cloudcore and edgecore, close no port to others.

As root the programs run in a network of their own, where the listening ports are compared with the table, and where
connections are left half open.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from beehive.clock import RealClock
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.runtimes.oci.network.kernel import in_network_namespace
from tests.end_to_end.processes import Process, comes_true, wait_until
from tests.modules.cloud.cloudhub.certificates.made import OPENSSL_LAG, chain
from tests.support.kubeconfigs import write_kubeconfig, write_token_file
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

CLOUD: Final = (
    "--listen",
    "--https-listen",
    "--secure-port",
    "--insecure-port",
    "--metrics-bind-address",
    "--router-listen",
    "--tunnel-listen",
)
"""Options of a cloudcore with an API server of its own; each opens a port."""
OF_CLUSTER: Final = ("--listen of a cluster", "--tunnel-listen of a cluster", "--stream-listen")
"""Of a cloudcore that works with a cluster: the first one's."""
EDGE: Final = ("readOnlyPort", "metaServer", "dbTest")
"""Settings of edgecore. serviceBus has the same server, and opens its port with the first rule only."""
HEALTH: Final = ("--metrics-bind-address", "readOnlyPort")
DESCRIPTORS: Final = 1024
"""The usual soft limit of a process."""
SILENT: Final = 160
"""Connections that say nothing, at each port: together more than a process has descriptors."""
ADDRESSES: Final = 16
"""The clients' addresses."""
_REQUEST: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
_BEGUN: Final = b"GET / HTTP/1.1\r\nX: " + 1000 * b"a"
_HELLO: Final = b"\x16\x03\x01\x10\x00\x01\x00\x0f\xfc\x03\x03" + 1000 * b"a"
"""A TLS client's first record, which is never complete."""
_LISTEN, _SYN_RECEIVED = "0A", "03"


class Port(NamedTuple):
    """A port of the programs."""

    number: int
    context: ssl.SSLContext | None = None
    """A client's."""


class Servers(NamedTuple):
    """The programs."""

    ports: dict[str, Port]
    do: Callable[[Callable[[], object]], object]
    """Calls a function in their network."""


def client_context(authority: Path, pem: Path | None = None) -> ssl.SSLContext:
    """The context of a client with a certificate in `pem`."""
    context = ssl.create_default_context(cafile=str(authority))
    if pem is not None:
        context.load_cert_chain(pem)
    return context


def started(module: str, arguments: list[str], log: Path, stack: ExitStack) -> Process:
    """A program with the usual limit of descriptors, which is killed at the end."""
    process = Process(f"modules.processes.{module}", arguments, log, preloads=())
    stack.callback(process.kill)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    return process


@contextmanager
def network() -> Iterator[Callable[[Callable[[], object]], object]]:
    """A network with a loopback interface, and a silent one; needs root."""
    if os.geteuid() != 0:
        yield lambda function: function()
        return
    script = """set -e
        ip link set lo up
        ip link add silence type veth peer name other
        ip addr add 192.0.2.1/24 dev silence
        ip link set silence arp off up
        ip link set other up
        echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
        echo ready
        exec cat"""
    command = ["unshare", "--net", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        path = Path(f"/proc/{holder.pid}/ns/net")
        yield lambda function: in_network_namespace(path, function)
        holder.kill()


def start_cloud(directory: Path, arguments: list[str], stack: ExitStack) -> None:
    """Starts a cloudcore; returns when it serves."""
    directory.mkdir()
    ready = directory / "ready"
    files = ["--socket", str(directory / "sock"), "--ready-file", str(ready), "--root", str(directory)]
    process = started("cloudcore", ["run", *arguments, *files], directory / "log", stack)
    wait_until(lambda: ready.exists() or not process.runs, "cloudcore is ready")
    assert process.runs, process.tail()


def start_edge(directory: Path, ports: dict[str, Port], stack: ExitStack) -> None:
    """Starts an edgecore without a cloud; returns when it serves at all its ports."""
    config = EdgeCoreConfig.below(directory)
    modules, replace = config.modules, msgspec.structs.replace
    number = {name: ports[name].number for name in EDGE}
    kubelet = replace(modules.edged.tailored_kubelet_config, read_only_port=number["readOnlyPort"])
    edged = replace(modules.edged, hostname_override="n1", allow_unisolated_root=True, tailored_kubelet_config=kubelet)
    server = replace(modules.meta_manager.meta_server, enable=True, server=f"127.0.0.1:{number['metaServer']}")
    modules = replace(
        modules,
        edged=edged,
        edge_hub=replace(modules.edge_hub, enable=False),
        meta_manager=replace(modules.meta_manager, meta_server=server),
        db_test=replace(modules.db_test, enable=True, port=number["dbTest"]),
    )
    directory.mkdir()
    file = directory / "edgecore.yaml"
    file.write_text(render(replace(config, modules=modules)))
    process = started("edgecore", ["run", "--config", str(file)], directory / "log", stack)
    numbers = {ports[name].number for name in EDGE}
    wait_until(lambda: numbers <= listening() or not process.runs, "edgecore listens")
    assert process.runs, process.tail()


def start_all(directory: Path, ports: dict[str, Port], stack: ExitStack) -> None:
    """The three programs."""
    files = AuthorityFiles(directory / "tls")
    tls = ["--tls", "--tls-dir", str(files.directory), "--token-auth-file", str(directory / "tokens.csv")]
    numbered = {name: str(ports[name].number) for name in (*CLOUD, *OF_CLUSTER)}
    served = [
        word
        for name in CLOUD
        for word in (name, numbered[name] if name.endswith("port") else f"127.0.0.1:{numbered[name]}")
    ]
    write_token_file(directory / "tokens.csv")
    start_cloud(directory / "cloud", [*tls, *served], stack)
    kubeconfig = write_kubeconfig(directory / "kubeconfig", ports["--secure-port"].number, files.authority)
    of_cluster = [word for name in OF_CLUSTER for word in (name.partition(" ")[0], f"127.0.0.1:{numbered[name]}")]
    keys = ["--stream-client-ca", str(files.authority), "--stream-cert", str(files.server)]
    keys += ["--stream-key", str(files.server_key), "--kubeconfig", str(kubeconfig)]
    start_cloud(directory / "second", [*of_cluster, *keys], stack)
    start_edge(directory / "edge", ports, stack)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The programs, with all their ports."""
    directory, now = tmp_path_factory.mktemp("servers"), RealClock().now()
    files = AuthorityFiles(directory / "tls")
    authority = open_authority(files, ("127.0.0.1", "localhost"), now)
    node, api_server = directory / "node.pem", directory / "api-server.pem"
    node.write_bytes(chain(authority, "n1", now, 86400.0))
    api_server.write_bytes(
        b"".join(authority.make_administrator_certificate("kube-apiserver-kubelet-client", now - OPENSSL_LAG))
    )
    of_node = client_context(files.authority, node)
    contexts = {
        "--listen": of_node,
        "--tunnel-listen": of_node,
        "--https-listen": client_context(files.authority),
        "--secure-port": client_context(files.authority),
        "--router-listen": client_context(files.authority),
        "--stream-listen": client_context(files.authority, api_server),
    }
    ports = {name: Port(free_port(), contexts.get(name)) for name in (*CLOUD, *OF_CLUSTER, *EDGE)}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with network() as do, ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        do(lambda: start_all(directory, ports, stack))
        yield Servers(ports, do)


def sockets() -> Iterator[tuple[int, str]]:
    """Local port and state of each TCP socket of this network."""
    for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        yield int(local.partition(":")[2], 16), state


def listening() -> set[int]:
    """The ports of this network that are open."""
    return {port for port, state in sockets() if state == _LISTEN}


def connected(port: Port, source: str) -> socket.socket:
    """A connection from an address of this machine."""
    return socket.create_connection(("127.0.0.1", port.number), PATIENCE, (source, 0))


def answers(port: Port) -> bool:
    """Whether a request from another address is answered by HTTP, with whatever status."""
    with suppress(OSError), connected(port, "127.0.0.1") as plain:
        secure = plain if port.context is None else port.context.wrap_socket(plain, server_hostname="127.0.0.1")
        with secure:
            secure.sendall(_REQUEST)
            return secure.recv(5) == b"HTTP/"
    return False


class Silence:
    """Connections to all ports that say nothing; a context manager."""

    def __init__(self, ports: dict[str, Port]) -> None:
        self._ports = ports
        self._open: dict[str, list[socket.socket]] = {}

    def __enter__(self) -> Silence:
        for name in self._ports:
            self.renew(name)
        return self

    def __exit__(self, *_: object) -> None:
        for connections in self._open.values():
            for each in connections:
                each.close()

    def renew(self, name: str) -> None:
        """Close the connections of a port, and open as many: a server's deadline may have ended some."""
        for each in self._open.pop(name, ()):
            each.close()
        addresses = (f"127.0.1.{1 + at % ADDRESSES}" for at in range(SILENT))
        self._open[name] = [connected(self._ports[name], each) for each in addresses]

    def answered(self, name: str) -> bool:
        """Whether a request is answered while there are all these."""
        self.renew(name)
        return answers(self._ports[name])


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_the_table_has_every_port(servers: Servers) -> None:
    assert servers.do(listening) == {port.number for port in servers.ports.values()}


def test_silent_connections_close_no_port(servers: Servers) -> None:
    """At all ports together, from several addresses: each port answers, health checks again and again."""

    def attack() -> None:
        with Silence(servers.ports) as silence:
            for name in servers.ports:
                for each in dict.fromkeys((name, *HEALTH)):
                    assert comes_true(lambda each=each: silence.answered(each), PATIENCE), each  # type: ignore[misc]

    servers.do(attack)


def test_each_connection_has_a_deadline_from_its_start(servers: Servers) -> None:
    """Whether it says nothing, ends its own side, or sends a byte now and then."""

    def attack() -> None:
        waiting: dict[socket.socket, tuple[str, Iterator[int] | None]] = {}
        with ExitStack() as stack:
            for name, port in servers.ports.items():
                for kind in ("silent", "half closed", "dripping"):
                    each = stack.enter_context(connected(port, "127.0.0.1"))
                    if kind == "half closed":
                        each.shutdown(socket.SHUT_WR)
                    begun = _BEGUN if port.context is None else _HELLO
                    waiting[each] = f"{name}: {kind}", iter(begun) if kind == "dripping" else None
            assert comes_true(lambda: not still_open(waiting), PATIENCE), [name for name, _ in waiting.values()]

    servers.do(attack)


def still_open(waiting: dict[socket.socket, tuple[str, Iterator[int] | None]]) -> bool:
    """Send the next byte on slow connections, remove ended ones, and return whether any is left."""
    for each, (_, drops) in waiting.items():
        if drops is not None and (byte := next(drops, None)) is not None:
            with suppress(OSError):
                each.send(bytes([byte]))
    ended, _, _ = select.select(list(waiting), (), (), 0.2)
    for each in ended:
        try:
            is_over = not each.recv(4096)
        except OSError:
            is_over = True
        if is_over:
            del waiting[each]
    return bool(waiting)


@pytest.mark.skipif(os.geteuid() != 0, reason="raw packets need root")
def test_half_open_connections_close_no_port(servers: Servers) -> None:
    """1,500 first packets of a connection, whose senders never answer."""

    def attack() -> None:
        for name, port in servers.ports.items():
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
                for at in range(1500):
                    raw.sendto(first_packet(f"192.0.2.{2 + at % 250}", 1024 + at, port.number), ("127.0.0.1", 0))
            assert (port.number, _SYN_RECEIVED) in set(sockets()), "the connections are half open"
            assert comes_true(lambda port=port: answers(port), PATIENCE), name  # type: ignore[misc]

    servers.do(attack)


def first_packet(source: str, source_port: int, port: int) -> bytes:
    """A SYN for 127.0.0.1 (RFC 9293), with its IP header, whose length and sum the kernel writes."""
    addresses = socket.inet_aton(source) + socket.inet_aton("127.0.0.1")
    head = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_TCP, 0) + addresses

    def segment(checksum: int) -> bytes:
        return struct.pack("!HHIIBBHHH", source_port, port, source_port, 0, 5 << 4, 0x02, 65535, checksum, 0)

    summed = sum(struct.unpack("!16H", addresses + struct.pack("!HH", socket.IPPROTO_TCP, 20) + segment(0)))
    summed = (summed & 0xFFFF) + (summed >> 16)
    return head + segment(~(summed + (summed >> 16)) & 0xFFFF)
