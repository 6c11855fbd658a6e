"""What exactly is asked: ports, hosts, headers, commands."""

from typing import Any

import pytest

from edged.errors import TargetError
from edged.probes.targets import ExecTarget, GrpcTarget, HttpTarget, TcpTarget, port_number, probe_target
from modules.apimachinery.types import Container, ContainerPort, EnvVar
from modules.apimachinery.types.containers import EnvVarSource
from modules.apimachinery.types.probes import ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Probe, TCPSocketAction

IP = "10.0.0.9"
DEFAULTS = (("User-Agent", "kube-probe/1.32"), ("Accept", "*/*"))


def container(**fields: Any) -> Container:
    return Container(name="app", ports=(ContainerPort(name="web", container_port=8080),), **fields)


@pytest.mark.parametrize(
    ("probe", "target"),
    [
        (Probe(exec=ExecAction(("cat", "/x"))), ExecTarget(("cat", "/x"))),
        (Probe(tcp_socket=TCPSocketAction(port=80)), TcpTarget(IP, 80)),
        (Probe(tcp_socket=TCPSocketAction(port="web", host="127.0.0.1")), TcpTarget("127.0.0.1", 8080)),
        (Probe(grpc=GRPCAction(port=50)), GrpcTarget(IP, 50, "")),
        (Probe(grpc=GRPCAction(port=50, service="db")), GrpcTarget(IP, 50, "db")),
        (Probe(http_get=HTTPGetAction(port=80)), HttpTarget("http", IP, 80, "", DEFAULTS)),
        (
            Probe(http_get=HTTPGetAction(port="web", path="/ok", scheme="HTTPS", host="app.example")),
            HttpTarget("https", "app.example", 8080, "/ok", DEFAULTS),
        ),
    ],
)
def test_requests_of_a_probe(probe: Probe, target: object) -> None:
    assert probe_target(probe, container(), IP) == target


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
    target = probe_target(Probe(http_get=action), container(), IP)
    assert isinstance(target, HttpTarget)
    assert target.headers == sent


def test_a_command_knows_only_the_variables_that_the_pod_states() -> None:
    app = container(env=(EnvVar("A", "1"), EnvVar("B", value_from=EnvVarSource())))
    target = probe_target(Probe(exec=ExecAction(("$(A)", "$(B)", "$$(A)"))), app, IP)
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
        probe_target(probe, container(), IP)


def test_a_pod_without_an_address_cannot_be_asked_unless_the_probe_names_a_host() -> None:
    with pytest.raises(TargetError, match="no address"):
        probe_target(Probe(tcp_socket=TCPSocketAction(port=80)), container(), "")
    probe = Probe(tcp_socket=TCPSocketAction(port=80, host="h"))
    assert probe_target(probe, container(), "") == TcpTarget("h", 80)


def test_a_command_that_gets_larger_than_any_can_be_is_not_run() -> None:
    """Sixteen references to a kilobyte are a command, a thousand are too large."""
    app = container(env=(EnvVar("A", "x" * 1024),))
    assert probe_target(Probe(exec=ExecAction(("$(A)" * 16,))), app, IP)
    with pytest.raises(TargetError, match="more than 131071 bytes"):
        probe_target(Probe(exec=ExecAction(("$(A)" * 1000,))), app, IP)
