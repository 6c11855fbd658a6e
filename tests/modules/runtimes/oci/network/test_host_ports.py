"""Host ports that a program of the machine has already, and rules that outlive what was known of their pod."""

import shutil
import socket
from ipaddress import ip_address

import msgspec
import pytest

from beehive.sockets.ports import ListeningSocket
from modules.runtimes.engine.errors import WrongStateError
from modules.runtimes.oci.network.attachment import FILE, has_attachment
from modules.runtimes.oci.network.host_ports import used_by
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import needs_plugins
from tests.modules.runtimes.oci.network.own_machine import HERE, OwnMachine
from tests.support.patience import PATIENCE

_METASERVER = 10550
_ANY = "0.0.0.0"  # noqa: S104 - compared, not bound
PORT = cri.PortMapping(container_port=80, host_port=_METASERVER)


@pytest.mark.parametrize(
    ("host_ip", "listening", "used"),
    [
        ("", "127.0.0.1", True), ("", "::1", True), ("", "::", True),
        (_ANY, "127.0.0.53", True), (_ANY, "::1", False), (_ANY, "::", True),
        ("::", "fd00::1", True), ("::", "127.0.0.1", False),
        ("192.0.2.1", "192.0.2.1", True), ("192.0.2.1", "192.0.2.2", False), ("192.0.2.1", _ANY, True),
        ("192.0.2.1", "::", True), ("192.0.2.1", "::ffff:192.0.2.1", True), ("192.0.2.1", "fd00::1", False),
        ("fd00:0::1", "fd00::1", True), ("fd00::1", _ANY, False),
    ],
)  # fmt: skip
def test_who_listens_on_a_host_port(host_ip: str, listening: str, used: bool) -> None:
    """A socket of `::` takes connections of IPv4 as well."""
    one = ListeningSocket(ip_address(listening), 80, "1")
    mapping = {"hostPort": 80, "containerPort": 8080, "protocol": "tcp", "hostIP": host_ip}
    assert used_by(mapping, [msgspec.structs.replace(one, port=81), one]) == (one if used else None)


@needs_plugins
def test_a_pod_takes_no_port_of_a_program_of_the_machine(machine: OwnMachine) -> None:
    """The tokens that programs send to the metaserver at 127.0.0.1 would reach the pod."""
    with machine.do(lambda: socket.create_server(("127.0.0.1", _METASERVER))) as server:
        with pytest.raises(
            WrongStateError, match=r"port 10550 of this machine: a program .* listens .* on 127\.0\.0\.1"
        ):
            machine.up("p1", PORT)
        assert not has_attachment(machine.home("p1"))
        machine.up("p2", cri.PortMapping(container_port=80, host_port=_METASERVER, protocol=cri.UDP))
        machine.up("p3", cri.PortMapping(container_port=80, host_port=_METASERVER, host_ip=HERE[0]))
        with machine.do(lambda: socket.create_connection(("127.0.0.1", _METASERVER), PATIENCE)):
            server.accept()[0].close()
    machine.down("p3")
    machine.up("p4", PORT)
    rules = machine.sh("iptables -w -t nat -S")
    assert rules.count(f"--dport {_METASERVER} -j DNAT") == 2, "of UDP, and of the pod that came when it was free"


@needs_plugins
@pytest.mark.parametrize("is_damaged", [False, True])
def test_no_rule_stays_of_a_pod_whose_records_are_lost(machine: OwnMachine, is_damaged: bool) -> None:
    """Its host ports would lead to whichever pod gets its address next."""
    machine.up("p1", PORT)
    if is_damaged:
        (machine.home("p1") / FILE).write_text("{")
        machine.down("p1")
    else:
        shutil.rmtree(machine.home("p1"))
        machine.do(lambda: machine.network.collect(set()))
    for program in ("iptables", "ip6tables"):
        assert "CNI-DN-" not in machine.sh(f"{program} -w -t nat -S")
