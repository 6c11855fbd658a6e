"""What exactly is asked: ports, hosts, headers, commands."""

from typing import Any

import pytest
from msgspec.structs import replace

from edged.errors import TargetError
from edged.probes.targets import (
    ExecTarget,
    GrpcTarget,
    HttpTarget,
    PodAddress,
    TcpTarget,
    pod_address,
    port_number,
    probe_target,
)
from modules.apimachinery.types import Container, ContainerPort, EnvVar, PodStatus
from modules.apimachinery.types.containers import EnvVarSource
from modules.apimachinery.types.probes import ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Probe, TCPSocketAction
from tests.edged.pods.builders import a_pod

IP = "10.0.0.9"
AT = PodAddress(IP)
DEFAULTS = (("User-Agent", "kube-probe/1.32"), ("Accept", "*/*"))


def container(**fields: Any) -> Container:
    return Container(name="app", ports=(ContainerPort(name="web", container_port=8080),), **fields)


@pytest.mark.parametrize(
    ("probe", "target"),
    [
        (Probe(exec=ExecAction(("cat", "/x"))), ExecTarget(("cat", "/x"))),
        (Probe(tcp_socket=TCPSocketAction(port=80)), TcpTarget(IP, 80)),
        (
            Probe(tcp_socket=TCPSocketAction(port="web", host="127.0.0.1")),
            TcpTarget("127.0.0.1", 8080, is_guarded=True),
        ),
        (Probe(grpc=GRPCAction(port=50)), GrpcTarget(IP, 50, "")),
        (Probe(grpc=GRPCAction(port=50, service="db")), GrpcTarget(IP, 50, "db")),
        (Probe(http_get=HTTPGetAction(port=80)), HttpTarget("http", IP, 80, "", DEFAULTS)),
        (
            Probe(http_get=HTTPGetAction(port="web", path="/ok", scheme="HTTPS", host="app.example")),
            HttpTarget("https", "app.example", 8080, "/ok", DEFAULTS, is_guarded=True),
        ),
    ],
)
def test_requests_of_a_probe(probe: Probe, target: object) -> None:
    assert probe_target(probe, container(), AT) == target


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ((("X", "1"),), (("User-Agent", "kube-probe/1.32"), ("X", "1"), ("Accept", "*/*"))),
        ((("user-agent", "me"),), (("user-agent", "me"), ("Accept", "*/*"))),
        ((("accept", "text/plain"),), (("User-Agent", "kube-probe/1.32"), ("accept", "text/plain"))),
        ((("Accept", ""),), (("User-Agent", "kube-probe/1.32"),)),
    ],
)
def test_headers_of_the_probe_come_before_the_defaults(
    given: tuple[tuple[str, str], ...], sent: tuple[tuple[str, str], ...]
) -> None:
    """And an empty Accept takes it out."""
    action = HTTPGetAction(port=80, http_headers=tuple(HTTPHeader(*pair) for pair in given))
    target = probe_target(Probe(http_get=action), container(), AT)
    assert isinstance(target, HttpTarget)
    assert target.headers == sent


def test_a_command_knows_only_the_variables_that_the_pod_states() -> None:
    app = container(env=(EnvVar("A", "1"), EnvVar("B", value_from=EnvVarSource())))
    target = probe_target(Probe(exec=ExecAction(("$(A)", "$(B)", "$$(A)"))), app, AT)
    assert target == ExecTarget(("1", "$(B)", "$(A)"))


@pytest.mark.parametrize(("port", "number"), [(1, 1), (65535, 65535), ("web", 8080), ("8081", 8081)])
def test_a_port_is_a_number_a_name_or_a_number_as_text(port: int | str, number: int) -> None:
    assert port_number(port, container()) == number


@pytest.mark.parametrize("port", [0, -1, 65536, "", "none", "0", "70000", "²", "9" * 5000])
def test_an_invalid_port_is_an_error(port: int | str) -> None:
    with pytest.raises(TargetError, match="no port"):
        port_number(port, container())


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(Probe(), id="a probe that asks nothing"),
        pytest.param(
            Probe(http_get=HTTPGetAction(port=80, http_headers=(HTTPHeader("X", "a\r\nHost: b"),))), id="line break"
        ),
        pytest.param(
            Probe(http_get=HTTPGetAction(port=80, http_headers=(HTTPHeader("X: a\r\nHost", "b"),))), id="in the name"
        ),
    ],
)
def test_an_invalid_target_is_an_error(probe: Probe) -> None:
    with pytest.raises(TargetError):
        probe_target(probe, container(), AT)


def test_a_pod_without_an_address_cannot_be_asked_unless_the_probe_names_a_host() -> None:
    with pytest.raises(TargetError, match="no address"):
        probe_target(Probe(tcp_socket=TCPSocketAction(port=80)), container(), PodAddress(""))
    probe = Probe(tcp_socket=TCPSocketAction(port=80, host="h"))
    assert probe_target(probe, container(), PodAddress("")) == TcpTarget("h", 80, is_guarded=True)


def test_a_command_that_gets_larger_than_any_can_be_is_not_run() -> None:
    """Sixteen references to a kilobyte are a command, a thousand are too large."""
    app = container(env=(EnvVar("A", "x" * 1024),))
    assert probe_target(Probe(exec=ExecAction(("$(A)" * 16,))), app, AT)
    with pytest.raises(TargetError, match="more than 131071 bytes"):
        probe_target(Probe(exec=ExecAction(("$(A)" * 1000,))), app, AT)


@pytest.mark.parametrize(
    ("at", "is_guarded"),
    [(PodAddress(IP), True), (PodAddress("127.0.0.1"), False), (PodAddress(IP, is_of_machine=True), False)],
    ids=["elsewhere", "at its own address", "on the machine's network"],
)
def test_a_host_that_the_pod_chose_is_guarded_unless_it_is_its_own(at: PodAddress, *, is_guarded: bool) -> None:
    for probe in (
        Probe(tcp_socket=TCPSocketAction(port=80, host="127.0.0.1")),
        Probe(http_get=HTTPGetAction(port=80, host="127.0.0.1")),
    ):
        target = probe_target(probe, container(), at)
        assert isinstance(target, HttpTarget | TcpTarget)
        assert target.is_guarded is is_guarded


def test_where_a_pod_is_reached() -> None:
    """A pod of the process runtime has the machine's address."""
    of_itself = a_pod(container(), status=PodStatus(pod_ip=IP, host_ip="192.0.2.1"))
    assert pod_address(of_itself) == PodAddress(IP)
    assert pod_address(of_itself, "10.0.0.10") == PodAddress("10.0.0.10")
    shared = a_pod(container(), status=PodStatus(pod_ip="192.0.2.1", host_ip="192.0.2.1"))
    assert pod_address(shared) == PodAddress("192.0.2.1", is_of_machine=True)
    assert pod_address(replace(of_itself, spec=replace(of_itself.spec, host_network=True))).is_of_machine
    assert pod_address(a_pod(container(), status=PodStatus())) == PodAddress("")
