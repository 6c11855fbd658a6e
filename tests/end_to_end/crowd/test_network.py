"""Addresses, names and ports of pods."""

import urllib.request
from pathlib import Path

from tests.end_to_end.crowd.crowd import Crowd, lasting, once, wants
from tests.end_to_end.pods import container, is_ready
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

_SERVER = "mkdir /www; echo hello > /www/index.html; exec httpd -f -p {} -h /www"


def fetched(address: str) -> str:
    """What an HTTP server says."""
    with urllib.request.urlopen(f"http://{address}/", timeout=PATIENCE) as answer:
        return str(answer.read().decode())


@wants(
    lasting(
        "network-served",
        container(_SERVER.format(8080), readinessProbe={"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}),
        container("until wget -q -O - http://127.0.0.1:8080; do sleep 0.2; done; exec sleep 600", "client"),
    )
)
def test_a_pods_containers_have_one_address_and_others_reach_it(crowd: Crowd) -> None:
    made = crowd.wait("network-served", is_ready)
    crowd.says("network-served", "hello", among="client")
    assert fetched(f"{made['status']['podIP']}:8080") == "hello\n"
    assert made["status"]["podIPs"] == [{"ip": made["status"]["podIP"]}]


_HOST_PORT = free_port()


@wants(
    lasting(
        "network-port",
        container(
            _SERVER.format(8081),
            ports=[{"containerPort": 8081, "hostPort": _HOST_PORT, "protocol": "TCP"}],
            readinessProbe={"httpGet": {"path": "/", "port": 8081}, "periodSeconds": 1},
        ),
    )
)
def test_a_port_of_the_node_leads_to_the_pod(crowd: Crowd) -> None:
    made = crowd.wait("network-port", is_ready)
    assert fetched(f"{made['status']['hostIP']}:{_HOST_PORT}") == "hello\n"


@wants(once("network-host", "echo $IP", hostNetwork=True, env=[
    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]))  # fmt: skip
def test_a_pod_on_the_machines_network_has_its_address(crowd: Crowd) -> None:
    (address,) = crowd.said("network-host")
    status = crowd.machine.cloud.get("Pod", "network-host")["status"]
    assert address == status["hostIP"] == status["podIP"]


@wants(once("network-cluster-dns", "cat /etc/resolv.conf", dnsConfig={
    "searches": ["extra.test"], "options": [{"name": "ndots", "value": "3"}, {"name": "edns0"}]}))  # fmt: skip
def test_the_clusters_dns_with_the_pods_additions(crowd: Crowd) -> None:
    lines = crowd.said("network-cluster-dns")
    search = next(line for line in lines if line.startswith("search")).split()[1:]
    assert "nameserver 192.0.2.10" in lines
    assert search[:3] == ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"]
    assert "extra.test" in search
    assert next(line for line in lines if line.startswith("options")).split()[1:] == ["ndots:3", "edns0"]


@wants(once("network-node-dns", "cat /etc/resolv.conf", dnsPolicy="Default"))
def test_the_nodes_own_dns(crowd: Crowd) -> None:
    own = [line.split()[1] for line in Path("/etc/resolv.conf").read_text().splitlines() if line[:10] == "nameserver"]
    said = [line.split()[1] for line in crowd.said("network-node-dns") if line[:10] == "nameserver"]
    assert said == own[:3]


@wants(once("network-name", "hostname; cat /proc/sys/kernel/hostname; hostname -f", hostname="web"))
def test_a_host_name_of_its_own(crowd: Crowd) -> None:
    assert crowd.said("network-name") == ["web", "web", "web"]


_LONG = "network-" + "n" * 70


@wants(once(_LONG, "hostname"))
def test_a_name_that_is_too_long_for_a_host_is_cut(crowd: Crowd) -> None:
    assert crowd.said(_LONG) == [_LONG[:63]]
