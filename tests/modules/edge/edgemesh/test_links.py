"""Variables of Services in containers, as a kubelet sets them."""

import threading
from typing import Any

import pytest

from edged.errors import ConfigError
from modules.edge.edgemesh import links
from modules.edge.edgemesh.backends import BackendPort, MeshBackend
from modules.edge.edgemesh.links import API_SERVER, ServiceLinks, variables
from modules.edge.edgemesh.objects import Service, ServiceKey
from modules.edge.edgemesh.selection import EndpointSelector, Here
from modules.edge.edgemesh.tables import Address, PortTable, port_tables
from tests.modules.edge.edgemesh.objects import NODE, service


def of(given: Service, reach: Any = lambda _table: None) -> dict[str, str]:
    """The variables of a Service whose tables are made."""
    return dict(variables(given, tables(given), reach))


def tables(given: Service) -> list[PortTable]:
    """The tables of a Service without endpoints."""
    none: list[MeshBackend] = []
    return list(port_tables(given, none, EndpointSelector(Here(NODE))))


def test_a_service_has_the_variables_of_a_kubelet() -> None:
    """The ones of Kubernetes' own test (`pkg/kubelet/envvars/envvars_test.go`)."""
    ports = [{"name": "u-d-p", "port": 8081, "protocol": "UDP"}, {"name": "t-c-p", "port": 8081, "protocol": "TCP"}]
    assert of(service("abc-123", "5.6.7.8", ports=ports)) == {
        "ABC_123_SERVICE_HOST": "5.6.7.8",
        "ABC_123_SERVICE_PORT": "8081",
        "ABC_123_SERVICE_PORT_U_D_P": "8081",
        "ABC_123_SERVICE_PORT_T_C_P": "8081",
        "ABC_123_PORT": "udp://5.6.7.8:8081",
        "ABC_123_PORT_8081_UDP": "udp://5.6.7.8:8081",
        "ABC_123_PORT_8081_UDP_PROTO": "udp",
        "ABC_123_PORT_8081_UDP_PORT": "8081",
        "ABC_123_PORT_8081_UDP_ADDR": "5.6.7.8",
        "ABC_123_PORT_8081_TCP": "tcp://5.6.7.8:8081",
        "ABC_123_PORT_8081_TCP_PROTO": "tcp",
        "ABC_123_PORT_8081_TCP_PORT": "8081",
        "ABC_123_PORT_8081_TCP_ADDR": "5.6.7.8",
    }
    assert of(service("v6", "2001:db8::1"))["V6_PORT"] == "tcp://[2001:db8::1]:80"
    both = service("both", clusterIPs=["10.96.0.1", "2001:db8::1"])
    assert of(both, lambda table: (table.addresses[0], 1))["BOTH_PORT"] == "tcp://10.96.0.1:1"


@pytest.mark.parametrize(
    "given", [service("h", "None"), service("n", ""), service("e", "", type="ExternalName"), service("p", ports=[])]
)
def test_a_service_without_an_address_or_ports_has_no_variables(given: Service) -> None:
    assert of(given) == {}


def test_with_the_proxy_the_address_is_where_it_listens() -> None:
    """The names keep the Service's own port."""

    def reach(table: PortTable) -> Address:
        return "127.96.1.2", table.port + 20_000

    found = of(service("web"), reach)
    assert (found["WEB_SERVICE_HOST"], found["WEB_SERVICE_PORT"]) == ("127.96.1.2", "20080")
    assert found["WEB_PORT_80_TCP"] == "tcp://127.96.1.2:20080"


def test_a_container_waits_until_services_are_read_and_gets_its_namespaces() -> None:
    made, found = ServiceLinks(), list[dict[str, str]]()
    waiting = threading.Thread(target=lambda: found.append(made.variables("default")))
    waiting.start()
    known = {ServiceKey("default", "web"): service(), ServiceKey("other", "db"): service("db", "10.96.0.2")}
    made.open({**known, API_SERVER: service("kubernetes", "10.96.0.3")}, {}, lambda _table: None)
    waiting.join()
    assert {name.partition("_")[0] for name in found[0]} == {"WEB"}
    assert made.variables("other")["DB_SERVICE_HOST"] == "10.96.0.2"
    assert made.variables("other", enabled=False) == made.variables("third") == {}


def test_all_containers_find_the_api_server_where_there_is_one() -> None:
    """In all namespaces, also without links; nothing looks like a node of a cluster to KubeEdge's edgemesh-agent."""
    given = service("kubernetes", ports=[{"name": "https", "port": 443, "targetPort": 6443}])
    backend = MeshBackend("192.0.2.10", (BackendPort("https", "TCP", 6443),))
    behind = list(port_tables(given, [backend], EndpointSelector(Here(NODE))))
    for at, host, port in (
        (("10.96.0.1", 443), "10.96.0.1", "443"),
        (("127.96.1.2", 20_443), "192.0.2.10", "6443"),  # the proxy's address is not in the certificate
        (None, "192.0.2.10", "6443"),
    ):

        def reach(_table: PortTable, at: Address | None = at) -> Address | None:
            return at

        made = ServiceLinks()
        made.open({API_SERVER: given}, {API_SERVER: behind}, reach)
        expected = {f"KUBERNETES_SERVICE_{name}": port for name in ("PORT", "PORT_HTTPS")}
        expected["KUBERNETES_SERVICE_HOST"] = host
        assert made.variables("other") == made.variables("default", enabled=False) == expected
        made.open({API_SERVER: given}, {API_SERVER: tables(given)}, reach)
        assert made.variables("default") == {}, "it has no endpoints"


def test_a_container_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "WAIT_SECONDS", 0.0)
    with pytest.raises(ConfigError, match="not read yet") as refused:
        ServiceLinks().variables("default")
    assert refused.value.retryable
