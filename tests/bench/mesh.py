"""Services on a node: 1,000 with 10 endpoints each, of which one changes; their memory; and their names.

A process of its own reads them as from the store and makes their tables, rules and names: `python -m tests.bench.mesh`.
Rules are made in a network of the bench's own, by root with nft.
"""

import gc
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

import msgspec

from beehive.clock import RealClock
from beehive.decoding import decode_json
from modules.apimachinery.types import decode
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.dns.host import open_sockets
from modules.edge.edgemesh.dns.resolving import DnsNames
from modules.edge.edgemesh.dns.server import NameServer
from modules.edge.edgemesh.dns.upstream import UpstreamResolver
from modules.edge.edgemesh.dns.wire import name_data, query
from modules.edge.edgemesh.dns.zone import Zone
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.objects import EndpointSlice, Service, ServiceKey
from modules.edge.edgemesh.selection import EndpointSelector, Here
from modules.edge.edgemesh.state import MeshState
from modules.edge.edgemesh.tables import PortTable, cluster_ips, port_tables
from tests.bench.rows import Goal, Row, Unit
from tests.modules.edge.edgemesh.machine import own_machine

SERVICES: Final = 1000
ENDPOINTS: Final = 10
CHANGES: Final = 20
QUERIES: Final = 5000
FLOOD: Final = 10_000
"""Queries a second of a client that asks too much."""
FLOOD_SECONDS: Final = 5.0
_NODE: Final = "n1"
_DOMAIN: Final = "cluster.local"


class MeshFigures(NamedTuple):
    """What a process has measured."""

    built: float
    """Seconds of the processor from the stored texts to tables and names."""
    grown: float
    """Bytes of memory more than before."""
    table: float
    """Seconds until the kernel has all rules; 0 where it is not asked."""
    changed: list[float]
    """Seconds from a changed slice to the kernel."""
    query: float
    """Seconds of a query and its answer, the median."""
    spent: float
    """Seconds of the processor for one, the client's share included."""
    beside: float
    """Seconds that 99 of 100 queries take at most while another client asks for 10,000 random names a second."""
    refused: float
    """The share of that client's queries that are not answered."""


def missing() -> str | None:
    """Return why this machine cannot measure it."""
    has_programs = shutil.which("nft") is not None and shutil.which("ip") is not None
    return None if os.geteuid() == 0 and has_programs else "needs root, nft and ip"


def measure(rounds: int) -> list[Row]:
    """All rows; each round is a new process."""
    found = [_process() for _ in range(rounds)]
    title = f"{SERVICES:,} Services of {ENDPOINTS} endpoints"
    return [
        Row.of(f"{title}: processor time of tables and names", [each.built for each in found], Unit.SECONDS),
        Row.of("   rules in the kernel", [each.table for each in found], Unit.SECONDS, goals=(Goal(0.6),)),
        Row.of(
            "   one changes, until the kernel has it", [1000 * median(each.changed) for each in found],
            Unit.MILLISECONDS, goals=(Goal(50),),
        ),
        Row.of("   memory", [each.grown / 1e6 for each in found], Unit.MEGABYTES, goals=(Goal(8),)),
        Row.of("   a name, median", [1000 * each.query for each in found], Unit.MILLISECONDS, goals=(Goal(0.1),)),
        Row.of("   processor time of one, with its client", [1000 * each.spent for each in found], Unit.MILLISECONDS),
        Row.of(
            f"   beside a flood of {FLOOD:,} random names a second, 99 of 100", [1000 * each.beside for each in found],
            Unit.MILLISECONDS, goals=(Goal(10),),
        ),
        Row.of("   … of which are not answered", [100 * each.refused for each in found], Unit.PERCENT),
    ]  # fmt: skip


class Mesh:
    """What edgemesh keeps: the state, the tables, and the names."""

    def __init__(self, names: DnsNames) -> None:
        self.state = MeshState(_NODE)
        self.state.is_settled = True
        self.names = names
        self.tables: dict[ServiceKey, tuple[PortTable, ...]] = {}
        self._selector = EndpointSelector(Here(_NODE))

    def compute(self, changed: set[ServiceKey]) -> dict[str, PortTable]:
        """Compute the tables and names of Services, as the module does; return all tables."""
        for key in changed:
            service, backends = self.state.services[key], self.state.backends(key)
            near = [each for each in backends if self._selector.excluded(service, each) is None]
            self.names.put(key, service, cluster_ips(service), near)
            self.tables[key] = tuple(port_tables(service, backends, self._selector))
        self.names.known()
        return {port.key: port for ports in self.tables.values() for port in ports}


def main() -> int:
    """Measure once, and print the figures."""
    services, slices = list(_services()), list(_slices())
    clock, counters = RealClock(), MeshCounters()
    with ExitStack() as stack:
        stack.callback(clock.close)
        names = DnsNames(Zone(_DOMAIN, clock.random), UpstreamResolver(lambda _: [], clock, counters))
        machine = stack.enter_context(own_machine())
        plane = machine.plane()
        plane.prepare()
        mesh = Mesh(names)
        decode(Service, services[0]), decode(EndpointSlice, slices[0])
        before, began = _resident(), time.process_time()
        changed = mesh.state.replace(
            (decode(Service, text) for text in services), (decode(EndpointSlice, text) for text in slices), ()
        )
        tables = mesh.compute(changed)
        built = time.process_time() - began
        grown = _resident() - before
        table = _seconds(lambda: plane.apply(tables, ()))
        changes = [_seconds(lambda number=number: _change(mesh, plane, number)) for number in range(CHANGES)]  # type: ignore[misc]
        sockets = open_sockets("127.0.0.1", HostAddresses(["/nowhere/program"]), 0)
        address = sockets[0].getsockname()
        server = NameServer(names, lambda: sockets, lambda _: True, clock, counters)
        server.start()
        spent = time.process_time()
        asked = list(_asked(address))
        spent = (time.process_time() - spent) / QUERIES
        beside, refused = _beside_a_flood(address)
        server.stop()
    figures = MeshFigures(built, grown, table, changes, median(asked), spent, beside, refused)
    sys.stdout.write(f"{msgspec.json.encode(figures).decode()}\n")
    return 0


def _process() -> MeshFigures:
    ended = subprocess.run([sys.executable, "-m", "tests.bench.mesh"], stdout=subprocess.PIPE, check=True)
    return decode_json(ended.stdout, MeshFigures)


def _change(mesh: Mesh, plane: Any, number: int) -> None:
    slice_ = decode(EndpointSlice, _slice(0, f"192.0.3.{number}"))
    plane.apply(mesh.compute(mesh.state.put_slice(slice_)), ())


def _seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def _asked(address: tuple[str, int]) -> Iterator[float]:
    """Ask for one name after the other; yield the seconds of each."""
    raws = [name_data(f"s{number}.default.svc.{_DOMAIN}") + b"\0\1\0\1" for number in range(SERVICES)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(60)
        client.connect(address)
        for number in range(QUERIES):
            began = time.perf_counter()
            client.send(query(number, raws[number % SERVICES]))
            client.recv(512)
            yield time.perf_counter() - began
            if number % 900 == 0:
                time.sleep(1)


def _beside_a_flood(address: tuple[str, int]) -> tuple[float, float]:
    """Return the 99th percentile of a client's queries beside a flood, and the share of the flood that is refused."""
    command = [sys.executable, "-c", _FLOOD, *map(str, (*address, FLOOD, FLOOD_SECONDS)), _DOMAIN]
    raw = name_data(f"s1.default.svc.{_DOMAIN}") + b"\0\1\0\1"
    took: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as flood, socket.socket(type=socket.SOCK_DGRAM) as client:
        client.bind(("127.0.0.2", 0))
        client.settimeout(1.0)
        client.connect(address)
        while flood.poll() is None:
            began = time.perf_counter()
            client.send(query(len(took) % 65536, raw))
            with suppress(TimeoutError):  # it counts with its time
                client.recv(512)
            took.append(time.perf_counter() - began)
            time.sleep(0.005)
        answered = int(flood.stdout.read() if flood.stdout is not None else 0)
    return quantiles(took, n=100)[98], 1 - answered / (FLOOD * FLOOD_SECONDS)


_FLOOD: Final = r"""
import os, socket, sys, time
address, rate, seconds, domain = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
client = socket.socket(type=socket.SOCK_DGRAM)
client.setblocking(False)
tail = b"".join(bytes([len(part)]) + part.encode() for part in ("default", "svc", *domain.split("."), ""))
began, sent, answered = time.perf_counter(), 0, 0
while sent < rate * seconds:
    while sent < min(rate * seconds, rate * (time.perf_counter() - began)):
        head = os.urandom(2) + bytes((1, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        client.sendto(head + b"\x10" + os.urandom(8).hex().encode() + tail + b"\0\1\0\1", address)
        sent += 1
    try:
        while client.recv(512):
            answered += 1
    except BlockingIOError:
        time.sleep(0.0005)
print(answered)
"""
"""A client that asks for random names of the cluster; it prints how many were answered."""


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _services() -> Iterator[bytes]:
    for number in range(SERVICES):
        spec = {
            "clusterIP": f"10.96.{number // 250}.{number % 250 + 1}",
            "clusterIPs": [f"10.96.{number // 250}.{number % 250 + 1}"],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "selector": {"app": f"s{number}"},
        }
        metadata = {"name": f"s{number}", "namespace": "default", "uid": f"00000000-0000-4000-8000-{number:012}"}
        yield msgspec.json.encode({"metadata": metadata, "spec": spec})


def _slices() -> Iterator[bytes]:
    for number in range(SERVICES):
        yield _slice(number)


def _slice(number: int, first: str = "") -> bytes:
    endpoints = [
        {
            "addresses": [first if first and not place else f"10.{100 + number // 250}.{number % 250}.{place + 1}"],
            "nodeName": f"node-{place}",
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": {"kind": "Pod", "name": f"s{number}-7d4b9c6f5-{place:05}", "namespace": "default",
                          "uid": f"00000000-0000-4000-9000-{number:06}{place:06}"},
        }
        for place in range(ENDPOINTS)
    ]  # fmt: skip
    labels = {"kubernetes.io/service-name": f"s{number}"}
    metadata = {"name": f"s{number}-abcde", "namespace": "default", "labels": labels}
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    return msgspec.json.encode({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports})


if __name__ == "__main__":
    sys.exit(main())
