"""Pods of Docker's in a network by CNI plug-ins."""

import socket
import subprocess
from collections.abc import Iterator

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.node import DockerNode
from tests.modules.runtimes.process.node import eventually
from tests.support.containerd import reason_missing as plugins_missing
from tests.support.containerd import reserve_network
from tests.support.containerd_config import cni_conflist

pytestmark = pytest.mark.slow


@pytest.fixture
def networked(node: DockerNode) -> Iterator[DockerNode]:
    """A node whose pods are on a bridge of their own, which is gone at the end with all addresses."""
    if reason := plugins_missing():
        pytest.skip(reason)
    network = reserve_network(node.directory.name)
    networks = node.directory / "net.d"
    networks.mkdir()
    (networks / "10-test.conflist").write_text(cni_conflist(network, node.directory / "ipam"))
    node.network = cri.POD
    try:
        yield node
        node.disconnect()
        node.runtime.stop()
        node.purge()
        assert list((node.directory / "ipam").glob("*/10.*")) == []
        node.runtime.start()
        node.connect()
    finally:
        network.reservation.close()
        subprocess.run(["ip", "link", "delete", network.bridge], check=False, capture_output=True)


def _address(node: DockerNode, pod: str) -> str:
    status = node.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod)).status
    return str(status.network.ip)


def test_a_pod_with_an_address(networked: DockerNode) -> None:
    """It has its own hostname and address, which the node reaches, also after a restart; its end frees the address."""
    node = networked
    pod = node.pod("web")
    server = node.shell("hostname; exec httpd -f -p 8080 -h /etc", pod=pod)
    address = _address(node, pod)
    assert address.startswith("10.99.")
    node.logged(server, "host-of-web")
    eventually(lambda: _reaches(address, 8080))
    node.restart()
    assert _address(node, pod) == address
    url = node.cri.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod, port=[8080])).url
    assert url.startswith("http://127.0.0.1:")
    other = node.pod("other")
    client = node.shell(f"wget -qO- http://{address}:8080/hostname", pod=other)
    assert node.ended(client).exit_code == 0
    assert [text for *_, text in node.log(client)] == ["host-of-web"]
    node.dockerd.client.call("POST", f"/containers/{pod}/kill", "kill")
    eventually(lambda: _states(node)[pod], lambda state: state == cri.SANDBOX_NOTREADY)
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=other))
    assert list((node.directory / "ipam").glob("*/10.*")) == []


def _states(node: DockerNode) -> dict[str, int]:
    listed = node.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items
    return {each.id: each.state for each in listed}


def _reaches(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), 5):
            return True
    except OSError:
        return False
