"""critest: PodSandbox, Networking, Multiple containers."""

import socket
from http.client import HTTPConnection

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client
from tests.modules.runtimes.process.node import eventually
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

_PAGE = "the page of the contract\n"


def _page(address: str, port: int = 80) -> str:
    """The page of a web server, once it listens."""

    def ask() -> str:
        connection = HTTPConnection(address, port, timeout=PATIENCE)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            assert answer.status == 200
            return answer.read().decode()
        except (ConnectionError, TimeoutError):
            return ""
        finally:
            connection.close()

    return eventually(ask)


def test_run_pod(client: Client) -> None:
    """critest: PodSandbox: runtime should support running PodSandbox."""
    pod = client.pod()
    assert client.pod_status(pod).state == cri.SANDBOX_READY
    assert client.listed_pods()[pod].state == cri.SANDBOX_READY


def test_stop_pod(client: Client) -> None:
    """critest: PodSandbox: runtime should support stopping PodSandbox."""
    pod = client.pod(network=True)
    client.stop_pod(pod)
    assert client.pod_status(pod).state == cri.SANDBOX_NOTREADY
    assert client.listed_pods()[pod].state == cri.SANDBOX_NOTREADY


def test_remove_pod(client: Client) -> None:
    """critest: PodSandbox: runtime should support removing PodSandbox."""
    pod = client.pod()
    client.stop_pod(pod)
    client.remove_pod(pod)
    assert pod not in client.listed_pods()


def test_pod_attributes(client: Client) -> None:
    """critest: PodSandbox: runtime should return the same metadata, labels and annotations in status and list."""
    config = client.pod_config()
    pod = client.pod(config)
    for seen in (client.pod_status(pod), client.listed_pods()[pod]):
        assert seen.metadata == config.metadata
        assert seen.labels == config.labels
        assert seen.annotations == config.annotations


def test_listing_by_filter(client: Client) -> None:
    """ListPodSandbox: by id, state and label, and several of them."""
    first, second = client.pod(), client.pod()
    client.stop_pod(second)
    label = dict(client.pod_status(first).labels)

    def found(**wanted: object) -> list[str]:
        request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(**wanted))  # type: ignore[arg-type]
        return [each.id for each in client.runtime.ListPodSandbox(request).items]

    assert found(id=first) == [first]
    assert found(label_selector=label) == [first]
    stopped = cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)
    assert second in found(state=stopped)
    assert found(state=stopped, label_selector=label) == []


def test_safe_sysctls(client: Client) -> None:
    """critest: PodSandbox: should support safe sysctls."""
    config = client.pod_config()
    config.linux.sysctls["kernel.shm_rmid_forced"] = "1"
    container = client.start(*LOOP, pod=client.pod(config))
    assert client.said(container, "cat /proc/sys/kernel/shm_rmid_forced") == "1\n"


def test_unsafe_sysctls(client: Client) -> None:
    """critest: PodSandbox: should support unsafe sysctls."""
    config = client.pod_config()
    config.linux.sysctls["fs.mqueue.msg_max"] = "100"
    container = client.start(*LOOP, pod=client.pod(config))
    assert client.said(container, "cat /proc/sys/fs/mqueue/msg_max") == "100\n"


def test_dns(client: Client) -> None:
    """critest: Networking: runtime should support DNS config."""
    dns = cri.DNSConfig(servers=["10.10.10.10"], searches=["google.com"], options=["ndots:8"])
    container = client.start(*LOOP, pod=client.pod(dns_config=dns))
    assert client.said(container, "sort /etc/resolv.conf") == (
        "nameserver 10.10.10.10\noptions ndots:8\nsearch google.com\n"
    )


def test_hostname(client: Client) -> None:
    """critest: Networking: runtime should support set hostname."""
    container = client.start(*LOOP, pod=client.pod(network=True, hostname="test-hostname"))
    assert client.said(container, "hostname; cat /etc/hostname") == "test-hostname\n" * 2


def test_container_port(client: Client) -> None:
    """critest: Networking: runtime should support port mapping with only container port."""
    pod = client.pod(network=True, port_mappings=[cri.PortMapping(container_port=80)])
    client.start(image="web", pod=pod)
    assert _page(client.pod_status(pod).network.ip) == _PAGE


def test_host_port(client: Client) -> None:
    """critest: Networking: runtime should support port mapping with host port and container port."""
    port = free_port()
    pod = client.pod(network=True, port_mappings=[cri.PortMapping(container_port=80, host_port=port)])
    client.start(image="web", pod=pod)
    assert _page("127.0.0.1", port) == _PAGE


@pytest.fixture
def two_containers(client: Client) -> tuple[str, str, str]:
    """A pod with a web server and with a container that says something, and both."""
    pod = client.pod(network=True)
    return pod, client.start(image="web", pod=pod), client.start("sh", "-c", "echo hello; sleep 1000", pod=pod)


def test_network_of_several(client: Client, two_containers: tuple[str, str, str]) -> None:
    """critest: Multiple containers: should support network; a pod's containers share it, other pods reach it."""
    pod, _, other = two_containers
    address = client.pod_status(pod).network.ip
    assert _page(address) == _PAGE
    assert client.said(other, "wget -q -O - http://127.0.0.1:80/") == _PAGE
    visitor = client.start(*LOOP, pod=client.pod(network=True))
    assert client.said(visitor, f"wget -q -O - http://{address}:80/") == _PAGE


def test_logs_of_several(client: Client, two_containers: tuple[str, str, str]) -> None:
    """critest: Multiple containers: should support container log; each has its own."""
    _, web, other = two_containers
    assert eventually(lambda: client.log(other, "stdout")) == "hello\n"
    assert client.log(web, "stdout") == ""


def test_commands_in_several(client: Client, two_containers: tuple[str, str, str]) -> None:
    """critest: Multiple containers: should support container exec."""
    _, *containers = two_containers
    answers = [client.execute(each, "echo", "-n", "hello") for each in containers]
    assert [(each.stdout, each.stderr, each.exit_code) for each in answers] == [(b"hello", b"", 0)] * 2


def test_host_network(client: Client) -> None:
    """critest: Namespaces: runtime should support HostNetwork; the machine's listening ports are seen, or not."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = f":{listening.getsockname()[1]:04X} "
        seen = [
            client.said(client.start(*LOOP, pod=client.pod(network=own)), "cat /proc/net/tcp") for own in (False, True)
        ]
    assert [port in each for each in seen] == [True, False]


def test_two_pods_of_one_name(client: Client) -> None:
    """A name and attempt that another pod has are refused; the kubelet counts attempts."""
    config = client.pod_config()
    client.pod(config)
    with pytest.raises(Exception, match=r"(?i)name|exist"):
        client.pod(config)


def test_a_pod_reaches_the_machine(client: Client) -> None:
    """A pod with a network of its own reaches a server of the machine by the address of its gateway."""
    with socket.create_server(("0.0.0.0", 0)) as listening:  # noqa: S104 - the bridge's address is one of them
        gateway = "$(ip route | sed -n 's/^default via \\([0-9.]*\\).*/\\1/p')"
        connect = f"nc {gateway} {listening.getsockname()[1]} </dev/null"
        client.start("sh", "-c", connect, pod=client.pod(network=True))
        listening.settimeout(60)
        listening.accept()[0].close()
