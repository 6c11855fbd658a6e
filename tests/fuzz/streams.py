"""Targets of the OCI runtime's network and streams: SPDY of clients, CNI configurations and results of plug-ins."""

import ipaddress
import json
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from beehive import Clock
from beehive.decoding import decode_json
from beehive.http.spdy import MOST_UNSENT, SpdyConnection
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.network.attachment import Attachment
from modules.runtimes.oci.network.capabilities import capability_arguments
from modules.runtimes.oci.network.configuration import VERSIONS, parse_configuration
from modules.runtimes.oci.network.results import addresses_of
from modules.runtimes.oci.spec.sysctls import check_sysctls
from modules.runtimes.streaming.channels import ChannelData, SpdyChannels, StreamChannel
from modules.runtimes.streaming.port_streams import MOST_CONNECTIONS, PortEvent, PortOpened, SpdyPorts
from modules.runtimes.streaming.requests import StreamRequest
from protos.cri.v1 import api_pb2 as cri
from tests.fuzz.mutate import pieces
from tests.fuzz.target import Target, must

_REQUEST: Final = StreamRequest("exec", "c", ("sh",), stdin=True, stdout=True, stderr=True)


class MemoryLink:
    """A connection whose bytes are handed in (`ByteLink`)."""

    has_received = False

    def __init__(self) -> None:
        self.coming = b""
        self.sent = 0

    @property
    def unsent(self) -> int:
        """See `ByteLink`."""
        return 0

    def fileno(self) -> int:
        """See `ByteLink`."""
        return -1

    def receive(self) -> bytes:
        """See `ByteLink`."""
        return self.coming

    def queue(self, data: bytes) -> None:
        """See `ByteLink`."""
        self.sent += len(data)

    def send(self) -> None:
        """See `ByteLink`."""

    def finish(self) -> None:
        """See `ByteLink`."""

    def await_end(self, clock: Clock, patience: float) -> None:
        """See `ByteLink`."""

    def reset(self) -> None:
        """See `ByteLink`."""


def _client_bytes() -> Sequence[bytes]:
    """A client of exec, and one of port-forward."""
    command = SpdyConnection()
    ids = [command.open_stream({"streamtype": kind}) for kind in ("error", "stdin", "stdout", "stderr")]
    command.send(ids[1], b"input" * 10, last=True)
    ports = SpdyConnection()
    for number in range(3):
        headers = {"port": "80", "requestid": str(number)}
        ports.open_stream({"streamtype": "error", **headers}, ended=True)
        ports.send(ports.open_stream({"streamtype": "data", **headers}), b"GET / HTTP/1.1\r\n\r\n")
    ports.reset(3)
    return [bytes(command.unsent), bytes(ports.unsent)]


def _check_command(data: bytes, random: Random) -> None:
    link = MemoryLink()
    channels = SpdyChannels(link, random.choice(("v4.channel.k8s.io", "channel.k8s.io")), _REQUEST)
    got = 0
    try:
        for link.coming in pieces(random, data):
            for event in channels.receive() or ():
                must(event.channel in StreamChannel, "an event is of a known channel")
                got += len(event.data) if isinstance(event, ChannelData) else 0
    except ValueError:
        pass
    must(got <= len(data), "no byte comes twice")
    must(link.sent <= MOST_UNSENT + 64 * (len(data) + 1), "answers are bounded")
    channels.finish({"status": "Success"})


def _check_ports(data: bytes, random: Random) -> None:
    link = MemoryLink()
    ports = SpdyPorts(link)
    opened: set[int] = set()
    try:
        for link.coming in pieces(random, data):
            for event in ports.receive() or ():
                _take(event, opened)
    except ValueError:
        pass
    must(len(opened) <= MOST_CONNECTIONS, "connections are bounded")
    for number in opened:
        ports.end(number)
        ports.close(number, "fuzzed")


def _take(event: PortEvent, opened: set[int]) -> None:
    if isinstance(event, PortOpened):
        must(0 < event.port < 65_536 and event.number not in opened, "a connection is opened once, to a port")
        opened.add(event.number)
    else:
        must(event.number in opened, "what comes belongs to a connection")


_CONFLIST: Final[dict[str, Any]] = {
    "cniVersion": "0.4.0", "name": "pods", "disableCheck": True, "cniVersions": ["0.4.0", "1.0.0"],
    "plugins": [
        {"type": "bridge", "bridge": "cni0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}]]}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}  # fmt: skip


def _check_configuration(data: bytes, _: Random) -> None:
    try:
        network = parse_configuration(data)
    except ValueError:
        return
    must(network.cni_version in VERSIONS, "the version is known")
    must("/" not in network.name and all("/" not in plugin["type"] for plugin in network.plugins), "names stay inside")
    again = decode_json(json.dumps({"network": _plain(network), "container_id": "c", "arguments": "",
                                    "capabilities": {}}).encode(), Attachment)  # fmt: skip
    must(again.network == network, "what is kept is read the same")


def _plain(network: Any) -> dict[str, Any]:
    fields = {"name": network.name, "plugins": network.plugins, "cniVersion": network.cni_version}
    return {**fields, "disableCheck": network.disable_check}


_RESULT: Final[dict[str, Any]] = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "cni0"}, {"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/x"}],
    "ips": [
        {"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1}, {"version": "6", "address": "fd00::5/64"},
    ],
    "ip4": {"ip": "10.1.0.6/16"}, "routes": [{"dst": "0.0.0.0/0"}], "dns": {},
}  # fmt: skip


def _check_result(data: bytes, _: Random) -> None:
    try:
        result = decode_json(data, dict[str, Any])
    except ValueError:
        return
    try:
        addresses = addresses_of(result)
    except ValueError:
        return
    for address in (addresses.ip, *addresses.additional):
        ipaddress.ip_address(address)


def _check_sandbox(data: bytes, _: Random) -> None:
    text = data.decode("utf-8", "replace")
    config = cri.PodSandboxConfig(annotations={"kubernetes.io/ingress-bandwidth": text})
    with suppress(BadRequestError):
        must(1000 <= capability_arguments(config).get("bandwidth", {}).get("ingressRate", 1000) <= 10**15, "in bounds")
    try:
        check_sysctls("fuzz", cri.PodSandboxConfig(linux=cri.LinuxPodSandboxConfig(sysctls={text: "1"})))
    except BadRequestError:
        return
    must(".." not in text.split("/"), "a sysctl stays below /proc/sys")


def _json_seeds(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


TARGETS: Final = (
    Target("streams of a command", _client_bytes, _check_command),
    Target("streams of ports", _client_bytes, _check_ports),
    Target(
        "CNI configurations",
        lambda: _json_seeds(_CONFLIST, {"cniVersion": "0.3.1", "name": "one", "type": "ptp"}),
        _check_configuration,
    ),
    Target("CNI results", lambda: _json_seeds(_RESULT), _check_result),
    Target(
        "bandwidths and sysctls",
        lambda: [
            b"10M",
            b"1.5Gi",
            b"1e6",
            b"net.ipv4.conf.eth0/1.rp_filter",
            b"net/ipv4/tcp_rmem",
            b"fs.mqueue.msg_max",
        ],
        _check_sandbox,
    ),
)
